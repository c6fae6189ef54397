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
        Self::publish_with(package, number, &registry, &[])
    }

    /// Publishes a version in another registry, with more manifests by file name.
    pub(crate) fn publish_with(
        package: &'static str,
        number: &'static str,
        registry: &str,
        more: &[(&str, Value)],
    ) -> Self {
        let dir = Operator::new(package, number).dir();
        for (name, manifest) in more {
            let path = dir.path().join("manifests").join(name);
            fs::write(path, manifest.to_string()).unwrap();
        }
        Self::push(package, number, registry, dir.path())
    }

    /// Publishes a version whose operator never runs, because its image does not exist.
    pub(crate) fn publish_broken(package: &'static str, number: &'static str) -> Self {
        let mut operator = Operator::new(package, number);
        operator.image = "quay.io/tidewatch/operator:none";
        let registry = node::REGISTRY.to_string();
        Self::push(package, number, &registry, operator.dir().path())
    }

    fn push(package: &'static str, number: &'static str, registry: &str, dir: &Path) -> Self {
        let image = format!("{registry}/bundles/{package}:v{number}");
        bundle::push(dir, &image, &[]);
        Self {
            package,
            number,
            image,
        }
    }

    pub(crate) fn csv(&self) -> String {
        format!("{}.v{}", self.package, self.number)
    }
}

/// Writes a catalog of these bundles in channel `stable`. Each bundle replaces the previous one of its package.
pub(crate) fn write(bundles: &[&Version]) -> TempDir {
    let images = bundles.iter().map(|bundle| bundle.image.as_str());
    let mut args = vec!["catalog", "render", "--tls-verify=false"];
    args.extend(images);
    let versions = bundles.iter().map(|bundle| (bundle.package, bundle.number));
    day_0::write_catalog(&versions.collect::<Vec<_>>(), rukpak(&args))
}

/// Publishes a directory, whose subdirectory `configs` is the catalog, as an image that cannot serve itself.
pub(crate) fn publish_dir(tag: &str, dir: &Path) -> String {
    let file = format!("FROM scratch\nLABEL {FILES}\nCOPY . /\n");
    publish_file(tag, &file, dir)
}

/// Publishes a directory as the image that a Dockerfile describes.
fn publish_file(tag: &str, file: &str, dir: &Path) -> String {
    let image = format!("{}/catalogs/{tag}", node::REGISTRY);
    Buildah::new().publish(file, dir, &image, &[]);
    image
}

/// Publishes an index that serves itself with the program of the provisioner's image.
pub(crate) fn publish_serving(tag: &str, bundles: &[&Version]) -> String {
    let dir = write(bundles);
    make_servable(dir.path());
    let (registry, version) = (node::REGISTRY, env!("CARGO_PKG_VERSION"));
    let file = format!(
        "FROM {registry}/rukpak/provisioner:v{version}\nLABEL {FILES}\nCOPY . /\n\
         ENTRYPOINT [\"/provisioner\", \"serve\", \"/configs\"]\n"
    );
    publish_file(tag, &file, dir.path())
}

/// Publishes an SQLite database of bundles, in an image that cannot serve it.
pub(crate) fn publish_database(tag: &str, bundles: &[&Version]) -> String {
    let file = format!("FROM scratch\nLABEL {DATABASE}\nCOPY . /\n");
    publish_file(tag, &file, database(bundles).path())
}

/// Publishes tools of this machine as an image.
pub(crate) fn publish_tools(name: &str, tools: &[&str]) {
    let (buildah, to) = (
        Buildah::new(),
        format!("docker://{}/{name}", node::REGISTRY),
    );
    buildah.push(&buildah.base_of(tools), &to, &["--tls-verify=false"]);
}

fn database(bundles: &[&Version]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let images: Vec<&str> = bundles.iter().map(|bundle| bundle.image.as_str()).collect();
    let mut opm = opm_command(work.path());
    let output = opm
        .args(["registry", "add", "--use-http", "--database"])
        .arg(dir.path().join("index.db"))
        .args(["--bundle-images", &images.join(",")])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{opm:?}: {error}");
    dir
}

/// Adds the probe that OLM runs in a catalog's pod, and a writable directory.
fn make_servable(dir: &Path) {
    let programs = dir.join("usr/bin");
    fs::create_dir_all(&programs).unwrap();
    let probe = "grpc_health_probe";
    fs::copy(built().join(probe), programs.join(probe)).unwrap();
    let tmp = dir.join("tmp");
    fs::create_dir(&tmp).unwrap();
    fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
}
