//! `rukpak platform` and `rukpak upgrade-check`.

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use clap::{Args, Subcommand, ValueHint};
use manifests::{
    api::install::release, image::Reference, names, openshift, version, version_range::Range,
};

use super::{
    AccessArgs, CatalogLimitArgs, ClusterArgs, DescriptionFormat, ManifestFormat, catalog::SOURCES,
    cluster::namespace,
};

/// Prepare platform operators: packages of a catalog that are part of a cluster.
#[derive(Debug, Args)]
pub(crate) struct PlatformArgs {
    #[command(subcommand)]
    pub(crate) command: PlatformCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlatformCommand {
    Render(Box<PlatformRenderArgs>),
}

/// Print all manifests of a new cluster with platform operators: the provisioner, and a PlatformOperator for each package.
///
/// Each package is looked up in the catalogs first. A typo, a missing channel, or a package that does not support the new
/// cluster is thus found before the cluster is built; in this case, no manifests are written. Deprecated packages are
/// reported as warnings.
///
/// With --output-dir, each object is written into its own file, 0000_50_rukpak_<NN>-<kind>-<name>.yaml, as expected in the
/// directory "manifests" that "openshift-install create manifests" creates.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct PlatformRenderArgs {
    /// Packages: PACKAGE, PACKAGE:CHANNEL, PACKAGE@RANGE or PACKAGE:CHANNEL@RANGE, such as "etcd:stable@>=0.9.4 <1.0.0".
    #[arg(required = true, value_name = "PACKAGE", value_parser = PackageSpec::from_str)]
    pub(crate) packages: Vec<PackageSpec>,
    /// Catalog with the packages, see below; may be repeated, and earlier ones take precedence.
    #[arg(long = "catalog", required = true, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// OpenShift release of the new cluster, 4.17 or later. Without it, the cluster is not OpenShift, and
    /// maxOpenShiftVersion is ignored.
    #[arg(long, value_name = "VERSION", value_parser = super::catalog::openshift)]
    pub(crate) openshift_version: Option<openshift::Release>,
    /// Kubernetes version of the new cluster, 1.30 or later. Default: the one of --openshift-version. Without either,
    /// minKubeVersion is ignored.
    #[arg(long, visible_alias = "kube-version", value_name = "VERSION", value_parser = version::parse_lenient)]
    pub(crate) kubernetes_version: Option<version::Version>,
    /// Write a CatalogSource with this name, too, for the --catalog that has the package and must be an image. With several
    /// catalogs, the name of the second one gets the suffix -2, and so on.
    #[arg(long, value_name = "NAME", value_parser = subdomain)]
    pub(crate) catalog_source: Option<String>,
    /// Namespace of CatalogSources. Default: openshift-marketplace on OpenShift, else the namespace of the provisioner. Any
    /// other namespace is written, too. Users with write access to it decide what platform operators install.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) catalog_namespace: Option<String>,
    /// Pull secret for the images of CatalogSources, in the namespace of the CatalogSources; may be repeated.
    #[arg(long = "catalog-secret", value_name = "NAME", requires = "catalog_source", value_parser = subdomain)]
    pub(crate) catalog_secrets: Vec<String>,
    /// The cluster has OLM, like OpenShift, and thus the CRD of CatalogSources, which is omitted.
    #[arg(long)]
    pub(crate) olm: bool,
    /// Namespace of the provisioner, which must not be used by other components.
    #[arg(long, value_name = "NAMESPACE", default_value = "rukpak-system", value_parser = own_namespace)]
    pub(crate) namespace: String,
    /// Image of the provisioner. Default: the image of this release.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub(crate) image: Option<String>,
    /// The release payload of the OpenShift has the provisioner: write only what enables it, and the platform operators.
    #[arg(long, requires = "openshift_version", conflicts_with_all = ["namespace", "image"])]
    pub(crate) release_payload: bool,
    /// Format of the manifests: a stream of YAML documents, or a JSON List.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: ManifestFormat,
    /// Write files into this directory. Either all of them are written or none.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
    /// Replace files of an earlier run: those with names like 0000_50_rukpak_<NN>-<kind>-<name>.
    #[arg(long, requires = "output_dir")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: CatalogLimitArgs,
}

/// Show what blocks a cluster upgrade, what may break, and which operators must be upgraded first.
///
/// Checks BundleInstances, and ClusterServiceVersions if the cluster has OLM: the newest OpenShift that they support,
/// whether they block cluster upgrades, and their use of APIs that the Kubernetes of the later release does not serve. On
/// OpenShift, it also checks which of these APIs their ServiceAccounts called within a day, according to APIRequestCounts.
///
/// Exit code: 0 if nothing blocks, 3 if something does, 1 if the check failed, 2 if the command line is invalid.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct UpgradeCheckArgs {
    /// Target release, 4.N of OpenShift or 1.M of Kubernetes. Default: the next release.
    #[arg(long, value_name = "4.N|1.M", value_parser = minor_release)]
    pub(crate) to: Option<openshift::Release>,
    /// Catalog to search for versions that would not block, see below; may be repeated, and earlier ones take precedence.
    /// Without one, only the records of the provisioner are known about catalogs, because catalogs that a cluster serves
    /// can only be reached from within the cluster.
    #[arg(long = "catalog", value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: CheckFormat,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: CatalogLimitArgs,
}

/// Format of the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CheckFormat {
    /// A table for people.
    #[default]
    #[value(alias = "text")]
    Table,
    Json,
    Yaml,
}

impl From<CheckFormat> for DescriptionFormat {
    fn from(outcome: CheckFormat) -> Self {
        match outcome {
            CheckFormat::Table => Self::Text,
            CheckFormat::Json => Self::Json,
            CheckFormat::Yaml => Self::Yaml,
        }
    }
}

/// Package that is to be part of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct PackageSpec {
    pub(crate) package: String,
    pub(crate) channel: Option<String>,
    /// Version range, as given and parsed.
    pub(crate) range: Option<(String, Range)>,
}

impl FromStr for PackageSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, range) = match text.split_once('@') {
            Some((text, range)) => (text, Some(range)),
            None => (text, None),
        };
        let (package, channel) = match text.split_once(':') {
            Some((package, channel)) => (package, Some(channel)),
            None => (text, None),
        };
        // The PlatformOperator has the package's name, and so have the objects that are created from it.
        names::dns_label(package).map_err(|problem| format!("package {package:?}: {problem}"))?;
        let max = usize::try_from(manifests::api::limits::INSTANCE_NAME).unwrap_or(usize::MAX);
        if package.len() > max {
            return Err(format!(
                "package {package:?} has {} characters, but the name of a PlatformOperator can have at most {max}; \
                 create the PlatformOperator manually with another name",
                package.len()
            ));
        }
        if channel.is_some_and(str::is_empty) {
            return Err("channel missing after the colon".to_owned());
        }
        let range = match range {
            Some(text) => {
                let range = Range::parse(text).map_err(|error| error.to_string())?;
                Some((text.to_owned(), range))
            }
            None => None,
        };
        Ok(Self {
            package: package.to_owned(),
            channel: channel.map(str::to_owned),
            range,
        })
    }
}

fn subdomain(text: &str) -> Result<String, &'static str> {
    names::dns_subdomain(text).map(|()| text.to_owned())
}

/// Parses a namespace for the provisioner alone: namespaces of cluster components contain other workloads and their
/// permissions.
fn own_namespace(text: &str) -> Result<String, String> {
    let name = namespace(text)?;
    let is_of_cluster = name == "default"
        || name == "openshift"
        || name.starts_with("kube-")
        || (name.starts_with("openshift-") && name != release::NAMESPACE);
    if is_of_cluster {
        return Err(
            "the namespace is reserved for the cluster; choose a namespace that only the provisioner uses"
                .to_owned(),
        );
    }
    Ok(name)
}

/// Checks an image reference, and returns it unchanged.
fn image(text: &str) -> Result<String, String> {
    match text.parse::<Reference>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a release without a patch version.
fn minor_release(text: &str) -> Result<openshift::Release, String> {
    openshift::Release::read(text).ok_or_else(|| {
        "use 4.N for OpenShift, or 1.M for Kubernetes, without a patch version".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_namespace_and_image_are_validated() {
        let reserved = ["kube-system", "kube-x", "openshift", "openshift-monitoring"];
        let pinned = format!("registry:5000/a@sha256:{}", "0".repeat(64));
        ::tests::assert_rows! {
            ["rukpak-system", "kube", "openshift-platform-operators"].map(|text| own_namespace(text).is_ok()) => [true; 3];
            reserved.map(|text| own_namespace(text).is_ok()) => [false; 4];
            ["default", "A", ""].map(|text| own_namespace(text).is_ok()) => [false; 3];
            ["quay.io/rukpak/provisioner:v1", &pinned].map(|text| image(text).is_ok()) => [true; 2];
            ["a b:c: d", "", "quay.io/A", "quay.io/a\nb: c"].map(|text| image(text).is_ok()) => [false; 4];
        }
    }

    #[test]
    fn packages_are_named_with_channel_and_range() {
        for (text, package, channel, range) in [
            ("etcd", "etcd", None, None),
            ("etcd:stable", "etcd", Some("stable"), None),
            ("etcd@>=1.0.0 <2.0.0", "etcd", None, Some(">=1.0.0 <2.0.0")),
            ("etcd:v1.0@1.0.x", "etcd", Some("v1.0"), Some("1.0.x")),
        ] {
            let parsed: PackageSpec = text.parse().unwrap();
            assert_eq!(parsed.package, package);
            assert_eq!(parsed.channel.as_deref(), channel);
            assert_eq!(parsed.range.map(|(text, _)| text).as_deref(), range);
        }
        let long = "x".repeat(46);
        let names = ["", "Foo_Bar!", ":stable", "etcd:", "etcd@", "a/b", &long];
        for text in names.into_iter().chain(["etcd@one", "etcd\u{202e}"]) {
            assert!(text.parse::<PackageSpec>().is_err(), "{text:?}");
        }
    }
}
