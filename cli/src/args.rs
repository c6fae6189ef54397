//! Command line.

mod bundle_instance;
mod catalog;
mod catalog_init;
mod catalog_render;
mod catalog_serve;
mod catalog_source;
mod cluster;
mod conversion;
mod duration;
pub(crate) mod install_mode;
mod limits;
mod platform;
mod run_bundle;
mod source_access;
mod transfer;
mod values;

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint,
    builder::StyledStr, error::ErrorKind,
};

pub(crate) use self::{
    bundle_instance::{
        AdoptArgs, Cascade, ChangeArgs, ChangeFormat, ContentArgs, ContentFormat, DefinitionPolicy,
        DiffArgs, DryRun, DryRunMode, HistoryArgs, HistoryFormat, InstallArgs, PauseArgs,
        ResumeArgs, RollbackArgs, ServiceArgs, StatusArgs, UninstallArgs,
    },
    catalog::{
        CatalogArgs, CatalogChooseArgs, CatalogCommand, CatalogGraphArgs, CatalogLimitArgs,
        CatalogListArgs, CatalogReadArgs, CatalogValidateArgs, GraphFormat, ListKind, kubernetes,
    },
    catalog_init::{CatalogDockerfileArgs, CatalogInitArgs},
    catalog_render::{BlobFormat, MigrateArgs, RenderArgs, RenderTemplateArgs, TemplateFormat},
    catalog_serve::CatalogServeArgs,
    catalog_source::{
        CatalogSourceArgs, CatalogSourceCommand, CatalogSourceConvertArgs,
        CatalogSourceMigrateArgs, CatalogSourceResolveArgs, CatalogSourceValidateArgs, Form,
    },
    cluster::ClusterArgs,
    conversion::Conversion,
    limits::{FileLimitArgs, LimitArgs},
    platform::{PackageSpec, PlatformArgs, PlatformCommand, PlatformRenderArgs, UpgradeCheckArgs},
    run_bundle::{
        CleanupArgs, Engine, RegistryArgs, RunArgs, RunBundleArgs, RunCommand, RunUpgradeArgs,
        SdkArgs, SecurityContext,
    },
    source_access::AccessArgs,
    transfer::{PushArgs, UnpackArgs},
    values::with_boolean_values,
};

/// Help text about bundle sources, for every command that reads bundles.
const SOURCES: &str = "\
A bundle is one of:
  DIR, FILE.tgz, FILE.tar        on this machine; \"-\" is a tar or tar.gz on
                                 standard input
  quay.io/org/bundle:v1          an image in a registry; also docker://busybox
  git+https://HOST/REPO#REF:DIR  a branch, tag or commit of a git repository,
                                 and the directory in it; also
                                 git+ssh://git@HOST/REPO
  https://HOST/FILE.tgz          an archive; #sha256:... at the end pins its
                                 digest
  oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:TAG]";

/// Program name under which `kubectl` finds rukpak as a plugin.
const PLUGIN: &str = "kubectl-rukpak";

/// Convert, validate, inspect, fetch and publish operator bundles, and install them in clusters.
#[derive(Debug, Parser)]
#[command(
    name = "rukpak",
    version,
    max_term_width = 100,
    propagate_version = false,
    args_override_self = true
)]
struct Cli {
    #[command(flatten)]
    sdk: SdkArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Convert(ConvertArgs),
    Validate(ValidateArgs),
    Inspect(InspectArgs),
    Unpack(UnpackArgs),
    Push(PushArgs),
    Catalog(CatalogArgs),
    #[command(name = "catalogsource", visible_alias = "catsrc")]
    CatalogSource(CatalogSourceArgs),
    Platform(PlatformArgs),
    Install(Box<InstallArgs>),
    Diff(Box<DiffArgs>),
    Adopt(AdoptArgs),
    Status(StatusArgs),
    History(HistoryArgs),
    Rollback(RollbackArgs),
    Content(ContentArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Uninstall(UninstallArgs),
    Run(RunArgs),
    Cleanup(CleanupArgs),
    UpgradeCheck(Box<UpgradeCheckArgs>),
    Completion(CompletionArgs),
    Version(VersionArgs),
}

impl Command {
    /// Reports whether the command only prints data. The exit code of any other command is the result of a check or of a
    /// change.
    pub(crate) fn only_prints(&self) -> bool {
        match self {
            // With several bundles, the exit code reports whether any of them was rejected.
            Self::Convert(args) => args.bundles.bundles.len() == 1,
            Self::Catalog(args) => !matches!(
                args.command,
                CatalogCommand::Choose(_) | CatalogCommand::Validate(_)
            ),
            Self::Inspect(_)
            | Self::Unpack(_)
            | Self::Platform(_)
            | Self::Status(_)
            | Self::History(_)
            | Self::Content(_)
            | Self::Completion(_)
            | Self::Version(_) => true,
            _ => false,
        }
    }
}

/// Convert bundles to plain manifests for "kubectl apply".
///
/// One bundle is printed to standard output, unless it is refused. Then standard error has all reasons, and standard output
/// is empty.
///
/// Several bundles are converted at once. Each gets a line on standard output, in the order of the arguments: its name, its
/// ClusterServiceVersion, "converted", "refused" or "failed", and the reason, separated by tabs. Their manifests are
/// written only with --output-dir.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) bundles: Bundles,
    /// Format of the manifests: a stream of YAML documents (the default), or a JSON List.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<ManifestFormat>,
    /// Write files into this directory: with one bundle a file for each object, <NN>-<kind>-<name>.yaml, in the order in
    /// which they can be applied; with several bundles a file for each bundle, <bundle>.yaml. Either all files are written
    /// or none.
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Write into a directory that is not empty. Files with the same name are replaced. With one bundle, files of an
    /// earlier run, with names like <NN>-<kind>-<name>.yaml, are removed. All other files are kept.
    #[arg(long, requires = "output_dir")]
    pub(crate) force: bool,
    /// Write a description of the bundle and all findings into this JSON file; with several bundles an object with one
    /// report for each name.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print no warnings and no summary.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) conversion: Conversion,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Print all errors and warnings of bundles, and what conversion would change in them.
///
/// Fails if a bundle has errors or cannot be read. A bundle with errors cannot be converted, except for an invalid max
/// OpenShift version (MaxOpenShiftVersion), which protects no cluster.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) bundles: Bundles,
    /// Format of the findings: a table, a list in JSON or YAML with an entry for each bundle, or SARIF 2.1.0 for code hosts.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: FindingsFormat,
    /// Fail on warnings, too.
    #[arg(long, visible_alias = "warnings-as-errors")]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) conversion: Conversion,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Print the metadata, contents and requirements of a bundle, and the permissions of its operator.
///
/// Permissions that allow privilege escalation are marked. A bundle that cannot be converted is described as far as
/// possible.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct InspectArgs {
    /// Directory, archive, image, git repository or URL; see below.
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath)]
    pub(crate) bundle: OsString,
    /// Format of the description.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
    #[command(flatten)]
    pub(crate) conversion: Conversion,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Print the completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the version, and the newest Kubernetes whose APIs are known.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Format of the version.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Bundles {
    /// Directories, archives, images, git repositories and URLs; see below.
    #[arg(required = true, value_name = "BUNDLE", value_hint = ValueHint::AnyPath)]
    pub(crate) bundles: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestFormat {
    #[default]
    Yaml,
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindingsFormat {
    #[default]
    #[value(alias = "text")]
    Table,
    Json,
    Yaml,
    Sarif,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DescriptionFormat {
    #[default]
    #[value(alias = "table")]
    Text,
    Json,
    Yaml,
}

/// Parses the arguments of the process. Prints the help or an error and exits if they are not a command.
pub(crate) fn parse() -> Command {
    let line: Vec<OsString> = std::env::args_os().collect();
    try_parse(&line).unwrap_or_else(|error| error.exit())
}

/// Parses a command line. The help and errors show boolean flags without their optional value, unless the error depends on
/// such a value.
fn try_parse(line: &[OsString]) -> Result<Command, clap::Error> {
    let parsed = with_boolean_values(command())
        .try_get_matches_from_mut(line)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map(|cli| cli.command).map_err(|error| {
        let mut command = command();
        let shown = command.try_get_matches_from_mut(line).err();
        let shown = shown.filter(|shown| shown.kind() == error.kind());
        shown.unwrap_or(error).format(&mut command)
    })
}

/// Prints a usage error about the command line and exits.
pub(crate) fn usage(problem: &str) -> ! {
    let mut command = command();
    command.build();
    // The error shows the usage of the subcommand that was called.
    for word in std::env::args_os().skip(1) {
        match command.find_subcommand(word) {
            Some(subcommand) => command = subcommand.clone(),
            None => break,
        }
    }
    command.error(ErrorKind::ValueValidation, problem).exit()
}

/// Returns the command line parser, under the name by which the program was called.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    if binary_name() == PLUGIN {
        as_plugin(command.bin_name(name()))
    } else {
        command
    }
}

/// Replaces the program name in the help texts of a command, its flags and its subcommands: users copy the examples.
fn as_plugin(mut command: clap::Command) -> clap::Command {
    let rename = |help: &StyledStr| {
        let help = help.to_string();
        help.replace("\n  rukpak ", "\n  kubectl rukpak ")
            .replace("\"rukpak ", "\"kubectl rukpak ")
    };
    if let Some(help) = command.get_after_help().map(rename) {
        command = command.after_help(help);
    }
    let renamed = |mut arg: Arg| {
        if let Some(help) = arg.get_help().map(rename) {
            arg = arg.help(help);
        }
        if let Some(help) = arg.get_long_help().map(rename) {
            arg = arg.long_help(help);
        }
        arg
    };
    command.mut_args(renamed).mut_subcommands(as_plugin)
}

/// Returns the name by which users call this program: `rukpak`, or `kubectl rukpak`.
pub(crate) fn name() -> &'static str {
    if binary_name() == PLUGIN {
        "kubectl rukpak"
    } else {
        "rukpak"
    }
}

/// Returns the file name of the program, for shell completion.
pub(crate) fn file_name() -> &'static str {
    if binary_name() == PLUGIN {
        PLUGIN
    } else {
        "rukpak"
    }
}

fn binary_name() -> OsString {
    let first = std::env::args_os()
        .next()
        .map(PathBuf::from)
        .unwrap_or_default();
    first.file_stem().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        with_boolean_values(Cli::command()).debug_assert();
    }

    fn parsed(line: &str) -> Result<Command, clap::Error> {
        let line = format!("rukpak {line}");
        try_parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn last_flag_takes_effect_and_lists_accumulate() {
        ::tests::assert_each!(|line, part| format!("{:?}", parsed(line).unwrap()) => has part;
            "status -o yaml --output=json" => "output: Json";
            "uninstall a --timeout 1s --timeout 2s" => "timeout: 2s";
            "uninstall a --yes -y" => "yes: true";
            "adopt a --field-manager b --field-manager=c" => "field_manager: [\"b\", \"c\"]";
            "convert a b --cacert c --cacert d" => "cacert: [\"c\", \"d\"]";
            "convert a b --cacert c --cacert d" => "bundles: [\"a\", \"b\"]";
        );
    }

    #[test]
    fn flags_accept_booleans() {
        ::tests::assert_each!(|line, part| format!("{:?}", parsed(line).unwrap()) => has part;
            "status a -w" => "watch: true";
            "status a --watch=True" => "watch: true";
            "status a -w=f" => "watch: false";
            "install a b --force-conflicts=1" => "force_conflicts: true";
            "install a b --wait=F" => "wait: false";
            "install a b --tls-verify=0" => "tls_verify: false";
            "uninstall a --ignore-not-found=true --ignore-not-found=FALSE" => "ignore_not_found: false";
            "unpack a -qo b" => "quiet: true";
            "unpack a -qo b" => "output: Some(\"b\")";
            "unpack --all a" => "source: \"a\"";
            "catalog serve a --cache-enforce-integrity=t" => "cache_enforce_integrity: Some(true)";
            "--verbose --plugins=go/v4 run --verbose=1 --plugins x bundle a.io/b:1 --verbose" => "verbose: true";
            "--verbose cleanup a --delete-all=f" => "delete_all: false";
        );
    }

    #[test]
    fn help_and_errors_show_flags_without_value() {
        ::tests::assert_each!(|line, part| parsed(line).unwrap_err() => has part;
            "uninstall --help" => "-y, --yes\n";
            "unpack a --all --only b" => "'--all' cannot be used with";
            "unpack a --all=1 --only b" => "'--all[=<BOOL>]' cannot be used with";
            "unpack a --all=maybe" => "invalid value 'maybe' for '--all[=<BOOL>]'";
            "unpack a --all=maybe" => "[possible values: true, false]";
        );
        let help = parsed("--help").unwrap_err().to_string();
        assert!(!help.contains("verbose"), "{help}");
    }

    #[test]
    fn only_printing_commands_succeed_with_a_closed_pipe() {
        ::tests::assert_each!(|line, expected| parsed(line).unwrap().only_prints() => expected;
            "convert a" => true;
            "convert a b" => false;
            "inspect a" => true;
            "status" => true;
            "catalog list channels a" => true;
            "catalog choose a --catalog b" => false;
            "catalog validate a" => false;
            "catalogsource resolve a" => false;
            "catalogsource convert a" => false;
            "adopt a --yes" => false;
            "rollback a --dry-run=server" => false;
            "uninstall a" => false;
        );
    }

    /// Returns a command and all of its subcommands.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command).chain(below).collect()
    }

    #[test]
    fn texts_below_options_fit_into_a_terminal() {
        for command in all(&Cli::command()) {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let long = help.lines().find(|line| line.chars().count() > 78);
            assert_eq!(long, None, "{}", command.get_name());
        }
    }

    #[test]
    fn help_of_a_plugin_names_kubectl() {
        for command in all(&as_plugin(Cli::command())) {
            let help = command.clone().render_long_help().to_string();
            for old in ["\"rukpak ", "\n  rukpak "] {
                assert!(!help.contains(old), "{help}");
            }
        }
    }
}
