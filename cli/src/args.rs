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
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint,
    error::ErrorKind,
};

pub(crate) use self::{
    bundle_instance::{
        AdoptArgs, Cascade, ChangeArgs, ChangeFormat, ContentArgs, ContentFormat, DefinitionPolicy,
        DiffArgs, DryRun, HistoryArgs, HistoryFormat, InstallArgs, PauseArgs, PinDryRun,
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
        SecurityContext,
    },
    source_access::AccessArgs,
    transfer::{PushArgs, UnpackArgs},
};

/// Help text about bundle sources, for every command that reads bundles.
const SOURCES: &str = "\
A bundle is one of:
  DIR, FILE.tgz, FILE.tar        on this machine; \"-\" is a tar or tar.gz on standard input
  quay.io/org/bundle:v1          an image in a registry; also docker://busybox
  git+https://HOST/REPO#REF:DIR  a branch, tag or commit of a git repository, and the directory in it;
                                 also git+ssh://git@HOST/REPO
  https://HOST/FILE.tgz          an archive; #sha256:... at the end pins its digest
  oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:TAG]";

/// Program name under which `kubectl` finds rukpak as a plugin.
const PLUGIN: &str = "kubectl-rukpak";

/// Convert, validate, inspect, fetch and publish operator bundles, and install them in clusters.
#[derive(Debug, Parser)]
#[command(
    name = "rukpak",
    version,
    max_term_width = 100,
    propagate_version = false
)]
struct Cli {
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
    /// Reports whether the exit code is the result of a check.
    pub(crate) fn is_check(&self) -> bool {
        match self {
            Self::Diff(_) | Self::UpgradeCheck(_) | Self::Validate(_) => true,
            // With several bundles, the exit code reports whether any of them was rejected.
            Self::Convert(args) => args.bundles.bundles.len() > 1,
            Self::Catalog(args) => matches!(args.command, CatalogCommand::Validate(_)),
            Self::CatalogSource(args) => {
                matches!(args.command, CatalogSourceCommand::Validate(_))
            }
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
    /// Format of the manifests: a stream of YAML documents, or a JSON List.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: ManifestFormat,
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
    /// Format of the findings: a table, a JSON list with an entry for each bundle, or SARIF 2.1.0 for code hosts.
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
    Table,
    Json,
    Sarif,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DescriptionFormat {
    #[default]
    Text,
    Json,
    Yaml,
}

/// Parses the arguments of the process. Prints the help or an error and exits if they are not a command.
pub(crate) fn parse() -> Command {
    let mut command = command();
    let parsed = command
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => cli.command,
        Err(error) => error.format(&mut command).exit(),
    }
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
        // Users copy the examples.
        let renamed = |command: clap::Command| match command.get_after_help() {
            Some(help) => {
                let help = help.to_string();
                command.after_help(help.replace("\n  rukpak ", "\n  kubectl rukpak "))
            }
            None => command,
        };
        command.bin_name(name()).mut_subcommands(renamed)
    } else {
        command
    }
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
    }
}
