//! `rukpak catalog`.

use std::ffi::OsString;

use ::catalog::model::{PLAIN_V0, REGISTRY_V1};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use convert::removed_apis::kubernetes_of;
use manifests::{byte_size, openshift::Release, version, version_range::Range};

use super::{
    AccessArgs, CatalogDockerfileArgs, CatalogInitArgs, CatalogServeArgs, DescriptionFormat,
    MigrateArgs, RenderArgs, RenderTemplateArgs,
};

/// Help text about catalog sources, for every command that reads catalogs.
pub(super) const SOURCES: &str = "\
A catalog is one of:
  DIR                     on this machine; all files in it are read except
                          those that an .indexignore excludes
  index.db                a catalog in an SQLite database, as earlier versions
                          of opm created it
  quay.io/org/catalog:v1  an image in a registry; a label names the directory,
                            operators.operatorframework.io.index.configs.v1,
                          or the database,
                            operators.operatorframework.io.index.database.v1
  oci:DIR[:TAG], FILE.tgz, https://HOST/FILE.tgz,
  git+https://HOST/REPO#REF:DIR, and all other sources of bundles";

/// Create, validate, list, render, migrate, serve and draw file-based catalogs, and choose bundles from them.
#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    pub(crate) command: CatalogCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    Validate(CatalogValidateArgs),
    List(CatalogListArgs),
    Choose(CatalogChooseArgs),
    Graph(CatalogGraphArgs),
    Render(Box<RenderArgs>),
    RenderTemplate(Box<RenderTemplateArgs>),
    Migrate(Box<MigrateArgs>),
    Serve(CatalogServeArgs),
    Init(CatalogInitArgs),
    Dockerfile(CatalogDockerfileArgs),
}

/// Print all errors of catalogs.
///
/// The rules and messages are those of "opm validate". "opm validate" stops at the first error in a document. This command
/// reports all errors, with file and line. Fails if errors are found.
///
/// JSON and YAML have the fields of "opm validate -o json", "passed" and "error", and all findings in addition. For several
/// catalogs they are a list.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogValidateArgs {
    /// Directories, images, archives, git repositories and URLs; see below.
    #[arg(required = true, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// Format of the findings.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

/// List the packages, channels or bundles of a catalog.
///
/// A package with errors is skipped with a warning.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogListArgs {
    /// Kind of the entries to list.
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) kind: ListKind,
    /// Directory, image, archive, git repository or URL; see below.
    #[arg(value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalog: OsString,
    /// List only this package.
    #[arg(value_name = "PACKAGE", conflicts_with = "package")]
    package_argument: Option<String>,
    /// The same as PACKAGE.
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Format of the list.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

impl CatalogListArgs {
    /// Returns the package to which the list is restricted.
    pub(crate) fn package(&self) -> Option<&str> {
        self.package_argument.as_deref().or(self.package.as_deref())
    }
}

/// Kind of catalog entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListKind {
    /// Packages with their default channel and its head.
    Packages,
    /// Channels with their heads.
    Channels,
    /// Bundles with their position in each channel.
    Bundles,
}

/// Show which bundle of a package would be installed, and why each other one would not.
///
/// Only the default channel is searched, or the one of --channel; never the highest version across channels. Releases are
/// preferred to pre-releases. A bundle that depends on others is not chosen. An installed bundle is upgraded along the
/// edges of the channel, one at a time. Fails if no bundle can be installed.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogChooseArgs {
    /// Name of the package.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// Catalog, see below; may be repeated, and earlier ones take precedence.
    #[arg(long = "catalog", required = true, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// Channel. Default: the default channel of the package.
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Range of allowed versions: ">=1.2.0 <2.0.0", "1.2.x" and the like.
    #[arg(long, value_name = "RANGE", value_parser = Range::parse)]
    pub(crate) version: Option<Range>,
    /// Name of the installed bundle, such as etcd.v0.9.4.
    #[arg(long, value_name = "BUNDLE")]
    pub(crate) installed: Option<String>,
    /// Version of the installed bundle, if it is no longer in a catalog.
    #[arg(long, value_name = "VERSION", requires = "installed", value_parser = version::parse_strict)]
    pub(crate) installed_version: Option<version::Version>,
    /// OpenShift release that the bundle must support. Without it, maxOpenShiftVersion is ignored.
    #[arg(long, value_name = "VERSION", value_parser = openshift)]
    pub(crate) openshift_version: Option<Release>,
    /// Kubernetes version that the bundle must support. Default: the one of --openshift-version. Without either,
    /// minKubeVersion is ignored.
    #[arg(long, visible_alias = "kube-version", value_name = "VERSION", value_parser = version::parse_lenient)]
    pub(crate) kubernetes_version: Option<version::Version>,
    /// Bundle formats that can be installed.
    #[arg(long = "media-type", value_name = "TYPE", default_values = [REGISTRY_V1, PLAIN_V0])]
    pub(crate) media_types: Vec<String>,
    /// Format of the decision.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

/// Draw the upgrade graph of a package.
///
/// Solid arrows are upgrades by "replaces", dashed ones by "skips" and "skipRange". Channel heads have a thick border.
/// Deprecated bundles are gray. Bundles that are named but not in the channel have a dashed border.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogGraphArgs {
    /// Name of the package.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// Catalog; see below.
    #[arg(long, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalog: OsString,
    /// Only this channel, instead of all.
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Language of the graph.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: GraphFormat,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

/// Language of a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// Mermaid, for Markdown: code hosts draw it.
    #[default]
    Mermaid,
    /// DOT, for Graphviz.
    Dot,
}

/// Parses a possible OpenShift release: one whose Kubernetes version is known.
pub(super) fn openshift(text: &str) -> Result<Release, String> {
    let release: Release = text
        .parse()
        .map_err(|error: version::Error| error.to_string())?;
    match kubernetes_of(release) {
        Some(_) => Ok(release),
        None => Err(format!(
            "OpenShift {release} does not exist; use 4.3 to 4.23 (same as 5.0), or a later 5.N"
        )),
    }
}

/// Returns the Kubernetes version that a bundle must support: the given one, else that of the OpenShift release. The latter
/// gets the highest patch, because the actual patch is unknown.
pub(crate) fn kubernetes(
    given: Option<&version::Version>,
    openshift: Option<Release>,
) -> Option<version::Version> {
    let of_openshift = || {
        let kubernetes = kubernetes_of(openshift?)?;
        Some(version::Version::new(
            kubernetes.major,
            kubernetes.minor,
            u64::MAX,
        ))
    };
    given.cloned().or_else(of_openshift)
}

/// Access and limits for all commands that read catalogs.
#[derive(Debug, Args)]
pub(crate) struct CatalogReadArgs {
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: CatalogLimitArgs,
}

/// Limits for reading a catalog.
#[derive(Debug, Clone, Copy, Args)]
#[command(
    next_help_heading = "Limits (sizes in bytes, or with a suffix such as 64Ki, 32Mi, 1Gi or 5M)"
)]
pub(crate) struct CatalogLimitArgs {
    /// Maximum size of all files together. They are read one document at a time.
    #[arg(long = "max-size", value_name = "SIZE", value_parser = byte_size::bytes, default_value = "4Gi")]
    size: u64,
    /// Maximum size of one document.
    #[arg(long = "max-document-size", value_name = "SIZE", value_parser = byte_size::bytes, default_value = "64Mi")]
    document: u64,
    /// Maximum number of files and directories.
    #[arg(long = "max-entries", value_name = "COUNT", default_value_t = ::catalog::Limits::default().files)]
    entries: usize,
}

impl Default for CatalogLimitArgs {
    fn default() -> Self {
        let default = ::catalog::Limits::default();
        Self {
            size: default.total,
            document: default.document as u64,
            entries: default.files,
        }
    }
}

impl From<CatalogLimitArgs> for ::catalog::Limits {
    fn from(args: CatalogLimitArgs) -> Self {
        Self {
            total: args.size,
            document: usize::try_from(args.document).unwrap_or(usize::MAX),
            files: args.entries,
            ..Self::default()
        }
    }
}

impl From<CatalogLimitArgs> for unpacker::Options {
    fn from(args: CatalogLimitArgs) -> Self {
        let limits = manifests::content::Limits {
            total: args.size,
            file: args.size,
            entries: args.entries,
            ..manifests::content::Limits::default()
        };
        Self {
            limits,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_possible_openshift_releases_are_accepted() {
        let minor = |text: &str| kubernetes(None, openshift(text).ok()).unwrap().minor;
        ::tests::assert_rows! {
            minor("4.20") => 33;
            minor("4.20.3") => 33;
            minor("v4.13.0-0.nightly-2022") => 26;
            minor("4.23") => 36;
            minor("5.0") => 36;
            minor("5.1.2") => 37;
        }
        let impossible = "4.24 4.99 4.2 4 1.30 3.11 6.0 latest 5.18446744073709551615";
        let given = version::Version::new(1, 30, 4);
        ::tests::assert_rows! {
            impossible.split(' ').find(|text| openshift(text).is_ok()) => None;
            kubernetes(None, None) => None;
            kubernetes(Some(&given), openshift("4.20").ok()) => Some(given);
        }
    }

    #[test]
    fn default_limits_are_those_of_the_library() {
        let args: CatalogLimitArgs = crate::testing::parse(&[]).unwrap();
        assert_eq!(::catalog::Limits::from(args), ::catalog::Limits::default());
    }
}
