//! `rukpak platform` and `rukpak upgrade-check`.

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use clap::{Args, Subcommand, ValueHint};
use manifests::{api::install::release, image::Reference, names, openshift, range::Range, version};

use super::{
    AccessArgs, CatalogLimitArgs, ClusterArgs, Description, Manifests, catalog::SOURCES,
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

/// Print everything that a new cluster needs for platform operators: the provisioner, and a PlatformOperator for each
/// package.
///
/// Each package is looked for in the catalogs first, so that a typo, a channel that is not there, or a package that does
/// not run on the new cluster is found before the cluster is built; then nothing is written. What is deprecated is a
/// warning.
///
/// With --output-dir there is a file for each object, 0000_50_rukpak_<NN>-<kind>-<name>.yaml, as the folder "manifests"
/// takes it that "openshift-install create manifests" makes.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct PlatformRenderArgs {
    /// Packages: PACKAGE, PACKAGE:CHANNEL, PACKAGE@RANGE or PACKAGE:CHANNEL@RANGE, such as "etcd:stable@>=0.9.4 <1.0.0".
    #[arg(required = true, value_name = "PACKAGE", value_parser = Wanted::from_str)]
    pub(crate) packages: Vec<Wanted>,
    /// A catalog to look for them in, see below; may be repeated, and the first one comes first.
    #[arg(long = "catalog", required = true, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// The OpenShift of the new cluster, 4.17 or later. Without it, it is no OpenShift, and maxOpenShiftVersion means
    /// nothing.
    #[arg(long, value_name = "VERSION", value_parser = super::catalog::openshift)]
    pub(crate) openshift_version: Option<openshift::Release>,
    /// The Kubernetes of the new cluster, 1.30 or later; that of --openshift-version otherwise. Without either
    /// minKubeVersion is not compared.
    #[arg(long, visible_alias = "kube-version", value_name = "VERSION", value_parser = version::tolerant)]
    pub(crate) kubernetes_version: Option<version::Version>,
    /// Write a CatalogSource of this name, too, for the --catalog that has the package, which has to be an image then. Of
    /// several catalogs, the second has -2 behind the name, and so on.
    #[arg(long, value_name = "NAME", value_parser = subdomain)]
    pub(crate) catalog_source: Option<String>,
    /// The namespace of CatalogSources; on OpenShift openshift-marketplace, elsewhere that of the provisioner. Any other one
    /// is written, too, and whoever may write there decides what platform operators install.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) catalog_namespace: Option<String>,
    /// A pull secret for the images of CatalogSources, which has to be in their namespace; may be repeated.
    #[arg(long = "catalog-secret", value_name = "NAME", requires = "catalog_source", value_parser = subdomain)]
    pub(crate) catalog_secrets: Vec<String>,
    /// The cluster has OLM, as an OpenShift has, and with it the definition of CatalogSources, which is left out then.
    #[arg(long)]
    pub(crate) olm: bool,
    /// The namespace of the provisioner, which is to be its own.
    #[arg(long, value_name = "NAMESPACE", default_value = "rukpak-system", value_parser = own_namespace)]
    pub(crate) namespace: String,
    /// The provisioner's image; that of this release otherwise.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub(crate) image: Option<String>,
    /// The release payload of the OpenShift has the provisioner: write only what enables it, and the platform operators.
    #[arg(long, requires = "openshift_version", conflicts_with_all = ["namespace", "image"])]
    pub(crate) release_payload: bool,
    /// Format of the manifests: a stream of YAML documents, or a JSON List.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Manifests,
    /// Write files into this folder. Either all of them appear or none.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
    /// Replace files of an earlier run: those that are called 0000_50_rukpak_<NN>-<kind>-<name>.
    #[arg(long, requires = "output_dir")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: CatalogLimitArgs,
}

/// Tell what keeps a cluster from being upgraded, what may break, and which versions of operators come first.
///
/// BundleInstances are looked at, and ClusterServiceVersions where there is an OLM: the newest OpenShift that they run on,
/// whether they ask not to be upgraded, and what they use of APIs that the Kubernetes of the later release does not serve;
/// on OpenShift also what APIRequestCounts saw their ServiceAccounts call within a day.
///
/// Exit code: 0 when nothing blocks, 3 when something does, 1 when it could not be found out, 2 when the command line
/// makes no sense.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct UpgradeCheckArgs {
    /// The release to upgrade to, 4.N of OpenShift or 1.M of Kubernetes; otherwise the one that comes next.
    #[arg(long, value_name = "4.N|1.M", value_parser = minor_release)]
    pub(crate) to: Option<openshift::Release>,
    /// A catalog to look for versions in that would not block, see below; may be repeated, and the first one comes first.
    /// Without one, only what the provisioner has written down is known of catalogs: those that a cluster serves can be
    /// reached from within the cluster alone.
    #[arg(long = "catalog", value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub(crate) catalogs: Vec<OsString>,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Outcome,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: CatalogLimitArgs,
}

/// Format of what was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Outcome {
    /// For people.
    #[default]
    Table,
    Json,
    Yaml,
}

impl From<Outcome> for Description {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Table => Self::Text,
            Outcome::Json => Self::Json,
            Outcome::Yaml => Self::Yaml,
        }
    }
}

/// A package that is to be part of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) package: String,
    pub(crate) channel: Option<String>,
    /// As it was written, and what that means.
    pub(crate) range: Option<(String, Range)>,
}

impl FromStr for Wanted {
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
        // The PlatformOperator has the package's name, and so have things that are made of it.
        names::dns_label(package).map_err(|problem| format!("package {package:?}: {problem}"))?;
        let most = usize::try_from(manifests::api::bounds::INSTANCE_NAME).unwrap_or(usize::MAX);
        if package.len() > most {
            return Err(format!(
                "package {package:?} has {} characters, and a PlatformOperator's name {most} at most; write one by hand, with \
                 another name",
                package.len()
            ));
        }
        if channel.is_some_and(str::is_empty) {
            return Err("there is no channel behind the colon".to_owned());
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

/// A namespace for the provisioner alone: those of the cluster's own parts hold what else runs there, and its rights.
fn own_namespace(text: &str) -> Result<String, String> {
    let name = namespace(text)?;
    let is_of_cluster = name == "default"
        || name == "openshift"
        || name.starts_with("kube-")
        || (name.starts_with("openshift-") && name != release::NAMESPACE);
    if is_of_cluster {
        return Err(
            "it belongs to the cluster; choose one that is the provisioner's alone".to_owned(),
        );
    }
    Ok(name)
}

/// A reference as it is written.
fn image(text: &str) -> Result<String, String> {
    match text.parse::<Reference>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A release without its patch.
fn minor_release(text: &str) -> Result<openshift::Release, String> {
    openshift::Release::read(text).ok_or_else(|| {
        "write 4.N for a release of OpenShift, or 1.M for one of Kubernetes, without a patch"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provisioner_gets_a_namespace_and_an_image_that_it_can_have() {
        for text in ["rukpak-system", "kube", "openshift-platform-operators"] {
            assert!(own_namespace(text).is_ok(), "{text:?}");
        }
        let theirs = ["kube-system", "kube-x", "openshift", "openshift-monitoring"];
        for text in theirs.into_iter().chain(["default", "A", ""]) {
            assert!(own_namespace(text).is_err(), "{text:?}");
        }
        let pinned = format!("registry:5000/a@sha256:{}", "0".repeat(64));
        for text in ["quay.io/rukpak/provisioner:v1", &pinned] {
            assert!(image(text).is_ok(), "{text:?}");
        }
        for text in ["a b:c: d", "", "quay.io/A", "quay.io/a\nb: c"] {
            assert!(image(text).is_err(), "{text:?}");
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
            let wanted: Wanted = text.parse().unwrap();
            assert_eq!(wanted.package, package);
            assert_eq!(wanted.channel.as_deref(), channel);
            assert_eq!(wanted.range.map(|(text, _)| text).as_deref(), range);
        }
        let long = "x".repeat(46);
        let names = ["", "Foo_Bar!", ":stable", "etcd:", "etcd@", "a/b", &long];
        for text in names.into_iter().chain(["etcd@one", "etcd\u{202e}"]) {
            assert!(text.parse::<Wanted>().is_err(), "{text:?}");
        }
    }
}
