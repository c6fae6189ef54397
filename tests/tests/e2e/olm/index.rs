//! Catalogs for OLM, with the bundles that `rukpak catalog render` prints.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use cluster::node;
use serde_json::Value;
use tempfile::TempDir;
use tests::{Buildah, opm_command};

use super::{
    super::{
        bundle::{self, Operator, rukpak},
        day_0,
        documents::output,
    },
    environment::built,
};

/// The label that names the directory of a catalog in its image.
const FILES: &str = "operators.operatorframework.io.index.configs.v1=/configs";
const DATABASE: &str = "operators.operatorframework.io.index.database.v1=/index.db";

/// A bundle of a working operator in the registry.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) package: &'static str,
    pub(crate) number: &'static str,
    pub(crate) image: String,
}

impl Version {
    /// Publishes a version in the node's registry.
    pub(crate) fn publish(package: &'static str, number: &'static str) -> Self {
        let registry = node::REGISTRY.to_string();
        Self::publish_in(&registry, &Operator::new(package, number), &[])
    }

    pub(crate) fn publish_in(registry: &str, operator: &Operator<'static>, more: &[Value]) -> Self {
        let (package, number, dir) = (operator.name, operator.version, operator.dir());
        for (at, manifest) in more.iter().enumerate() {
            let path = format!("manifests/more-{at}.yaml");
            tests::write(dir.path(), &path, manifest.to_string());
        }
        let image = format!("{registry}/bundles/{package}:v{number}");
        bundle::push(dir.path(), &image, &[]);
        Self {
            package,
            number,
            image,
        }
    }

    pub(crate) fn csv(&self) -> String {
        format!("{}.v{}", self.package, self.number)
    }

    /// Returns the ClusterServiceVersion for kubectl.
    pub(crate) fn object(&self) -> String {
        format!("clusterserviceversions/{}", self.csv())
    }
}

/// Writes a catalog of these bundles in channel `stable`. Each bundle replaces the previous one of its package.
pub(crate) fn write(bundles: &[&Version]) -> TempDir {
    let mut args = vec!["catalog", "render", "--tls-verify=false"];
    args.extend(bundles.iter().map(|bundle| bundle.image.as_str()));
    let versions = bundles.iter().map(|bundle| (bundle.package, bundle.number));
    day_0::write_catalog(&versions.collect::<Vec<_>>(), rukpak(&args))
}

/// Publishes a directory, whose subdirectory `configs` is the catalog, as an image that cannot serve itself.
pub(crate) fn publish_dir(tag: &str, dir: &Path) -> String {
    let file = format!("FROM scratch\nLABEL {FILES}\nCOPY . /\n");
    day_0::image(tag, &file, dir)
}

/// Publishes an index that serves itself with the program of the provisioner's image.
pub(crate) fn publish_serving(tag: &str, bundles: &[&Version]) -> String {
    let dir = write(bundles);
    let path = |name| dir.path().join(name);
    // The probe that OLM runs in a catalog's pod, and a writable directory.
    fs::create_dir_all(path("usr/bin")).unwrap();
    let probe = built().join("grpc_health_probe");
    fs::copy(probe, path("usr/bin/grpc_health_probe")).unwrap();
    fs::create_dir(path("tmp")).unwrap();
    for (name, mode) in [("tmp", 0o1777), ("", 0o755)] {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let (registry, version) = (node::REGISTRY, env!("CARGO_PKG_VERSION"));
    let entrypoint = "ENTRYPOINT [\"/provisioner\", \"serve\", \"/configs\"]";
    let base = format!("FROM {registry}/rukpak/provisioner:v{version}");
    let file = format!("{base}\nLABEL {FILES}\nCOPY . /\n{entrypoint}\n");
    day_0::image(tag, &file, dir.path())
}

/// Publishes an SQLite database of bundles, in an image that cannot serve it.
pub(crate) fn publish_database(tag: &str, bundles: &[&Version]) -> String {
    let [dir, work] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let images: Vec<&str> = bundles.iter().map(|bundle| bundle.image.as_str()).collect();
    let mut opm = opm_command(work.path());
    opm.args(["registry", "add", "--use-http", "--database"]);
    let opm = opm.arg(dir.path().join("index.db"));
    output(opm.args(["--bundle-images", &images.join(",")]));
    let file = format!("FROM scratch\nLABEL {DATABASE}\nCOPY . /\n");
    day_0::image(tag, &file, dir.path())
}

/// Publishes tools of this machine as an image.
pub(crate) fn publish_tools(name: &str, tools: &[&str]) {
    let buildah = Buildah::new();
    let to = format!("docker://{}/{name}", node::REGISTRY);
    buildah.push(&buildah.base_of(tools), &to, &["--tls-verify=false"]);
}
