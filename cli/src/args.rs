//! The command line.

use std::{ffi::OsString, path::PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, error::ErrorKind};
use convert::{NamespaceObject, overlay::DeploymentConfig};
use manifests::{content::Limits, names, version::KubeVersion, yaml};
use serde_json::Value;

/// The name by which `kubectl` finds its plugins.
const PLUGIN: &str = "kubectl-rukpak";

/// Convert, validate and inspect operator bundles.
///
/// Nothing here talks to a cluster.
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
    Completion(CompletionArgs),
    Version(VersionArgs),
}

/// Convert bundles to plain manifests that "kubectl apply" takes.
///
/// One bundle is printed to standard output, unless it is refused: then there is every reason on standard error and
/// nothing on standard output.
///
/// Several bundles are converted at once. Each gets a line on standard output, in the order of the arguments: its name,
/// its ClusterServiceVersion, "converted", "refused" or "failed", and why, separated by tabs. Their manifests are
/// written only with --output-dir.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) bundles: Bundles,
    /// Format of the manifests: a stream of YAML documents, or a JSON List.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Manifests,
    /// Write files into this folder: one for each object, <NN>-<kind>-<name>.yaml in the order in which they can be
    /// applied; for several bundles one for each bundle, <bundle>.yaml. Either all files appear or none.
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Write into a folder that is not empty. Files of the same name are replaced; with one bundle, those of an earlier
    /// run, told by names like <NN>-<kind>-<name>.yaml, are removed; all others stay.
    #[arg(long, requires = "output_dir")]
    pub(crate) force: bool,
    /// Write what the bundle is, and all findings, into this JSON file; for several bundles an object with a report for
    /// each name.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print no warnings and no summary.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) conversion: Conversion,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Print everything that is wrong with bundles, or will be changed in them.
///
/// Fails when there are errors: such a bundle cannot be converted.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) bundles: Bundles,
    /// A table, a JSON list with an entry for each bundle, or SARIF 2.1.0 for code hosts.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Findings,
    /// Fail when there are warnings, too.
    #[arg(long, visible_alias = "warnings-as-errors")]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) conversion: Conversion,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Print what a bundle is, brings and needs, and what its operator may do in a cluster.
///
/// Rights that let an operator take over more than it was given are marked. A bundle that cannot be converted is
/// described as far as it is known.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A folder, a tar or tar.gz file, or "-" for a tar on standard input.
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,
    /// Format of the description.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
    #[command(flatten)]
    pub(crate) conversion: Conversion,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Print the completion script of a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the version, and the newest Kubernetes whose APIs are known.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Format of the version.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
}

#[derive(Debug, Args)]
pub(crate) struct Bundles {
    /// Folders, tar or tar.gz files, or "-" for a tar on standard input.
    #[arg(required = true, value_name = "BUNDLE")]
    pub(crate) bundles: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manifests {
    #[default]
    Yaml,
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Findings {
    #[default]
    Table,
    Json,
    Sarif,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Description {
    #[default]
    Text,
    Json,
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Class {
    /// registry+v1: a ClusterServiceVersion with what belongs to it
    Registry,
    /// plain+v0: a folder of manifests
    Plain,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Conversion")]
pub(crate) struct Conversion {
    /// Install into this namespace rather than the one that the bundle suggests.
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    install_namespace: Option<String>,
    /// Leave out the install namespace's own object.
    #[arg(long)]
    no_namespace: bool,
    /// Release of the cluster that will run the result.
    #[arg(long, value_name = "VERSION", default_value_t = KubeVersion::NEWEST)]
    kube_version: KubeVersion,
    /// YAML or JSON file with the deploymentConfig to lay over the operator's pods, as in a Subscription's spec.config.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Format of the bundle; told by its content when not given.
    #[arg(long, value_enum)]
    class: Option<Class>,
}

impl Conversion {
    pub(crate) fn options(&self, limits: LimitArgs) -> anyhow::Result<convert::Options> {
        let Self {
            install_namespace,
            no_namespace,
            kube_version,
            config,
            class,
        } = self;
        Ok(convert::Options {
            class: class.map(|class| match class {
                Class::Registry => convert::Class::Registry,
                Class::Plain => convert::Class::Plain,
            }),
            install_namespace: install_namespace.clone(),
            namespace_object: if *no_namespace {
                NamespaceObject::Omit
            } else {
                NamespaceObject::Emit
            },
            kube_version: *kube_version,
            deployment_config: config.as_ref().map(deployment_config).transpose()?,
            limits: yaml::Limits {
                values: limits.values,
                ..yaml::Limits::default()
            },
        })
    }
}

fn deployment_config(path: &PathBuf) -> anyhow::Result<DeploymentConfig> {
    let about = || format!("failed to read the configuration {}", path.display());
    let bytes = std::fs::read(path).with_context(about)?;
    let mut documents = yaml::documents(&bytes);
    let value = documents
        .next()
        .transpose()
        .with_context(about)?
        .unwrap_or(Value::Null);
    if documents.next().is_some() {
        anyhow::bail!(
            "the configuration {} has more than one document; keep one",
            path.display()
        );
    }
    DeploymentConfig::try_from(value).with_context(about)
}

#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Limits (sizes are bytes, or 64Ki, 32Mi, 1Gi, 5M and the like)")]
pub(crate) struct LimitArgs {
    /// Size of all files together.
    #[arg(long = "max-size", value_name = "SIZE", value_parser = size, default_value = "32Mi")]
    size: u64,
    /// Size of one file.
    #[arg(long = "max-file-size", value_name = "SIZE", value_parser = size, default_value = "16Mi")]
    file_size: u64,
    /// Number of files, folders and links.
    #[arg(long = "max-entries", value_name = "COUNT", default_value_t = Limits::default().entries)]
    entries: usize,
    /// Length of a path in bytes.
    #[arg(long = "max-path-length", value_name = "BYTES", default_value_t = Limits::default().path)]
    path_length: usize,
    /// Depth of a path in folders.
    #[arg(long = "max-path-depth", value_name = "COUNT", default_value_t = Limits::default().depth)]
    path_depth: usize,
    /// Values in all manifests of a bundle together.
    #[arg(long = "max-values", value_name = "COUNT", default_value_t = yaml::Limits::default().values)]
    values: usize,
}

impl From<LimitArgs> for unpacker::Options {
    fn from(args: LimitArgs) -> Self {
        Self {
            limits: Limits {
                total: args.size,
                file: args.file_size,
                entries: args.entries,
                path: args.path_length,
                depth: args.path_depth,
            },
            ..Self::default()
        }
    }
}

/// Reads a size as Kubernetes writes one.
fn size(text: &str) -> Result<u64, &'static str> {
    const PROBLEM: &str = "write a number of bytes, or one with Ki, Mi, Gi, k, M or G behind it";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.strip_prefix(digits) {
        Some("") => 1,
        Some("k") => 1000,
        Some("M") => 1000 * 1000,
        Some("G") => 1000 * 1000 * 1000,
        Some("Ki") => 1 << 10,
        Some("Mi") => 1 << 20,
        Some("Gi") => 1 << 30,
        _ => return Err(PROBLEM),
    };
    let number: u64 = digits.parse().map_err(|_| PROBLEM)?;
    number
        .checked_mul(unit)
        .ok_or("this is more than any machine has")
}

fn namespace(text: &str) -> Result<String, &'static str> {
    names::dns_label(text).map(|()| text.to_owned())
}

/// Reads the process's arguments; prints help or what is wrong with them and exits.
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

/// Ends the process as for any other mistake in the command line.
pub(crate) fn usage(problem: &str) -> ! {
    command().error(ErrorKind::ValueValidation, problem).exit()
}

/// The command under the name by which it was called.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    if called() == PLUGIN {
        command.bin_name(name())
    } else {
        command
    }
}

/// How people call this program: `rukpak`, or `kubectl rukpak`.
pub(crate) fn name() -> &'static str {
    if called() == PLUGIN {
        "kubectl rukpak"
    } else {
        "rukpak"
    }
}

/// The name of the file that a shell completes for.
pub(crate) fn file_name() -> &'static str {
    if called() == PLUGIN { PLUGIN } else { "rukpak" }
}

fn called() -> OsString {
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

    #[test]
    fn default_limits_are_those_of_the_library() {
        let cli = Cli::try_parse_from(["rukpak", "validate", "x"]).unwrap();
        let Command::Validate(args) = cli.command else {
            panic!("another command");
        };
        assert_eq!(
            unpacker::Options::from(args.limits),
            unpacker::Options::default()
        );
    }

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("5k", Some(5000)),
            ("64Ki", Some(65536)),
            ("64Mi", Some(64 << 20)),
            ("2Gi", Some(2 << 30)),
            ("1M", Some(1_000_000)),
            ("", None),
            ("Mi", None),
            ("1.5Mi", None),
            ("-1", None),
            ("1mi", None),
            ("1 Mi", None),
            ("18446744073709551615Gi", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text:?}");
        }
    }
}
