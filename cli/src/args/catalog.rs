//! `rukpak catalog`.

use std::ffi::OsString;

use ::catalog::model::{PLAIN_V0, REGISTRY_V1};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use convert::removal::kubernetes_of;
use manifests::{openshift::Release, range::Range, size, version};

use super::{
    AccessArgs, CatalogDockerfileArgs, CatalogInitArgs, CatalogServeArgs, Description, MigrateArgs,
    RenderArgs, RenderTemplateArgs,
};

/// What every command that reads catalogs says of them.
pub(super) const SOURCES: &str = "\
A catalog is one of:
  FOLDER                         on this machine; every file in it counts, but those that an .indexignore excludes
  index.db                       a catalog in an SQLite database, as opm made them
  quay.io/org/catalog:v1         an image in a registry, which names the folder by its label
                                 operators.operatorframework.io.index.configs.v1, or the database by
                                 operators.operatorframework.io.index.database.v1
  oci:FOLDER[:TAG], FILE.tgz, https://HOST/FILE.tgz, git+https://HOST/REPO#REF:DIR, and what else bundles come from";

/// Begin file-based catalogs, check them, list what is in them, choose bundles, draw upgrade graphs, render, migrate and
/// serve them.
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

/// Print everything that is wrong with catalogs.
///
/// The rules and texts are those of "opm validate". It stops at the first error in a document; here all are told, with
/// file and line. Fails when there are errors.
///
/// JSON and YAML have what "opm validate -o json" has, "passed" and "error", and all findings besides; for several
/// catalogs it is a list.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogValidateArgs {
    /// Folders, images, archives, git repositories and URLs; see below.
    #[arg(required = true, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// Format of the findings.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

/// List the packages, channels or bundles of a catalog.
///
/// A package with errors is left out, and a warning says so.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogListArgs {
    /// What to list.
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) what: Listed,
    /// A folder, an image, an archive, a git repository or a URL; see below.
    #[arg(value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalog: OsString,
    /// Of this package only.
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Option<String>,
    /// Format of the list.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Packages with their default channel and its head.
    Packages,
    /// Channels with their heads.
    Channels,
    /// Bundles with their place in each channel.
    Bundles,
}

/// Say which bundle of a package would be installed, and why each other one would not.
///
/// The default channel counts, or the one that is named; never the highest version across channels. Releases come before
/// pre-releases. A bundle that depends on others is not chosen. What is installed is upgraded along the edges of the
/// channel, one at a time. Fails when there is nothing to install.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogChooseArgs {
    /// The package.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// A catalog, see below; may be repeated, and the first one comes first.
    #[arg(long = "catalog", required = true, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// The channel; otherwise the package's default.
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Versions that are welcome: ">=1.2.0 <2.0.0", "1.2.x" and the like.
    #[arg(long, value_name = "RANGE", value_parser = Range::parse)]
    pub(crate) version: Option<Range>,
    /// The name of the bundle that is installed, such as etcd.v0.9.4.
    #[arg(long, value_name = "BUNDLE")]
    pub(crate) installed: Option<String>,
    /// Its version, if no catalog has it any more.
    #[arg(long, value_name = "VERSION", requires = "installed", value_parser = version::strict)]
    pub(crate) installed_version: Option<version::Version>,
    /// The OpenShift that it must run on. Without it maxOpenShiftVersion means nothing.
    #[arg(long, value_name = "VERSION", value_parser = openshift)]
    pub(crate) openshift_version: Option<Release>,
    /// The Kubernetes that it must run on; that of --openshift-version otherwise. Without either minKubeVersion is not
    /// compared.
    #[arg(long, value_name = "VERSION", value_parser = version::tolerant)]
    pub(crate) kubernetes_version: Option<version::Version>,
    /// Formats of bundles that can be installed.
    #[arg(long = "media-type", value_name = "TYPE", default_values = [REGISTRY_V1, PLAIN_V0])]
    pub(crate) media_types: Vec<String>,
    /// Format of the decision.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

/// Draw the upgrade graph of a package.
///
/// Solid arrows are upgrades by "replaces", dashed ones by "skips" and "skipRange". Heads have a thick border, deprecated
/// bundles are grey, and what is named but not in the channel has a dashed border.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct CatalogGraphArgs {
    /// The package.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// The catalog; see below.
    #[arg(long, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalog: OsString,
    /// One channel instead of all.
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Language of the drawing.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Drawing,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    /// For Markdown: code hosts draw it.
    #[default]
    Mermaid,
    /// For Graphviz.
    Dot,
}

/// A release of OpenShift that there can be: it is known which Kubernetes it has.
pub(super) fn openshift(text: &str) -> Result<Release, String> {
    let release: Release = text
        .parse()
        .map_err(|error: version::Error| error.to_string())?;
    match kubernetes_of(release) {
        Some(_) => Ok(release),
        None => Err(format!(
            "there is no OpenShift {release}: write 4.3 to 4.23, which is 5.0, or a later 5.N"
        )),
    }
}

/// The Kubernetes that a bundle must run on: what was given, else that of the OpenShift, with the highest patch, as nobody
/// knows which one it will be.
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

/// How catalogs are reached, and how much is read of them: the same for every command that reads any.
#[derive(Debug, Args)]
pub(crate) struct CatalogReadArgs {
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: CatalogLimitArgs,
}

/// How much may be read of a catalog.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Limits (sizes are bytes, or 64Ki, 32Mi, 1Gi, 5M and the like)")]
pub(crate) struct CatalogLimitArgs {
    /// Size of all files together. They are read one document at a time.
    #[arg(long = "max-size", value_name = "SIZE", value_parser = size::bytes, default_value = "4Gi")]
    size: u64,
    /// Size of one document.
    #[arg(long = "max-document-size", value_name = "SIZE", value_parser = size::bytes, default_value = "64Mi")]
    document: u64,
    /// Number of files and folders.
    #[arg(long = "max-entries", value_name = "COUNT", default_value_t = ::catalog::Limits::default().files)]
    entries: usize,
}

impl Default for CatalogLimitArgs {
    fn default() -> Self {
        let usual = ::catalog::Limits::default();
        Self {
            size: usual.total,
            document: usual.document as u64,
            entries: usual.files,
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
    fn a_release_of_openshift_is_one_that_there_can_be() {
        for (text, kubernetes_of_it) in [
            ("4.20", "1.33"),
            ("4.20.3", "1.33"),
            ("v4.13.0-0.nightly-2022", "1.26"),
            ("4.23", "1.36"),
            ("5.0", "1.36"),
            ("5.1.2", "1.37"),
        ] {
            let found = openshift(text).unwrap();
            let known = kubernetes(None, Some(found)).unwrap();
            let known = format!("{}.{}", known.major, known.minor);
            assert_eq!(known, kubernetes_of_it, "{text}");
        }
        for text in [
            "4.24",
            "4.99",
            "4.2",
            "4",
            "1.30",
            "3.11",
            "6.0",
            "latest",
            "5.18446744073709551615",
        ] {
            assert!(openshift(text).is_err(), "{text}");
        }
        assert_eq!(kubernetes(None, None), None);
        let given = version::Version::new(1, 30, 4);
        let found = kubernetes(Some(&given), openshift("4.20").ok());
        assert_eq!(found, Some(given));
    }

    #[test]
    fn default_limits_are_those_of_the_library() {
        let args: CatalogLimitArgs = crate::testing::parse(&[]).unwrap();
        let limits = ::catalog::Limits::from(args);
        assert_eq!(limits, ::catalog::Limits::default());
    }
}
