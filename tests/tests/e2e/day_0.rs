//! The cluster before the provisioner is installed: the objects of an OpenShift, two catalogs, and platform operators.
//!
//! ```text
//!  CatalogSource served ── address ── rukpak catalog serve, on this machine ── tide
//!  CatalogSource pulled ── image ──── the registry of the cluster ──────────── reef, lagoon
//! ```

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use cluster::{Cluster, DryRun, node, sandbox};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use manifests::api::config::{CLUSTER_VERSION, ClusterVersion};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::Buildah;

use super::{bundle, bundle::Operator, catalogs, environment::define};

/// The directory of the Go module with OpenShift's CRDs. tests/e2e.sh sets it, because the node has no network.
const OPENSHIFT_MODULE: &str = "RUKPAK_E2E_CRDS";
pub(crate) const MARKETPLACE: &str = "openshift-marketplace";
/// The packages of the initial platform operators.
pub(crate) const PACKAGES: [&str; 3] = ["tide", "reef", "lagoon"];
const PORT: u16 = 50051;

/// A bundle as a catalog lists it: package, version, max OpenShift version, and image.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    pub(crate) newest: &'static str,
    pub(crate) image: String,
}

/// The bundles that the catalogs list at first.
#[derive(Debug)]
pub(crate) struct Day0 {
    pub(crate) tide: Listed,
    pub(crate) reef: Listed,
    pub(crate) lagoon: Listed,
}

pub(crate) async fn declare(cluster: &Cluster) -> Day0 {
    let apply = async |object: Value| cluster.apply(&object, DryRun::No).await.unwrap();
    let dir = std::env::var_os(OPENSHIFT_MODULE).map(PathBuf::from);
    let dir = dir.unwrap_or_else(|| panic!("{OPENSHIFT_MODULE} is not set: run `make e2e`"));
    let openshift = dir.join("config/v1/zz_generated.crd-manifests");
    let optional = tests::root().join("manifests/optional");
    for file in [
        openshift.join("0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml"),
        openshift.join("0000_00_cluster-version-operator_01_clusteroperators.crd.yaml"),
        openshift.join("0000_10_config-operator_01_images.crd.yaml"),
        optional.join("platformoperators.platform.openshift.io.yaml"),
        optional.join("catalogsources.operators.coreos.com.yaml"),
    ] {
        define(cluster, &file).await;
    }
    apply(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-0000-0000-000000000000"},
    }))
    .await;
    set_version(cluster, "4.12.7", &[("Completed", "4.12.7")]).await;
    // The registry speaks plain HTTP.
    apply(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": {"name": "cluster"},
        "spec": {"registrySources": {"insecureRegistries": [node::REGISTRY.to_string()]}},
    }))
    .await;
    apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MARKETPLACE}}))
        .await;

    let day = Day0 {
        tide: publish("tide", "1.0.0", "4.20"),
        reef: publish("reef", "1.0.0", "4.13"),
        lagoon: publish("lagoon", "1.0.0", "4.20"),
    };
    for package in PACKAGES {
        apply(platform_operator(package)).await;
    }
    serve(&[&day.tide]);
    let address = format!("{}:{PORT}", sandbox::ADDRESS);
    apply(source("served", &json!({"address": address}))).await;
    let image = catalog_image("pulled:v1", &[&day.reef, &day.lagoon]);
    apply(source("pulled", &json!({"image": image}))).await;
    day
}

pub(crate) fn platform_operator(package: &str) -> Value {
    json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": package}, "spec": {"package": {"name": package}},
    })
}

pub(crate) fn source(name: &str, more: &Value) -> Value {
    let mut spec = more.clone();
    spec["sourceType"] = "grpc".into();
    catalogs::source(MARKETPLACE, name, &spec)
}

/// Sets the cluster's desired version and its update history, the newest update first.
pub(crate) async fn set_version(cluster: &Cluster, desired: &str, history: &[(&str, &str)]) {
    let history = history.iter().map(|(state, version)| {
        let end = (*state == "Completed").then_some("2026-01-01T01:00:00Z");
        json!({
            "state": state, "version": version, "image": "", "verified": true,
            "startedTime": "2026-01-01T00:00:00Z", "completionTime": end,
        })
    });
    let history: Value = history.collect();
    let patch = Patch::Apply(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "status": {
            "desired": {"version": desired, "image": ""}, "history": history, "observedGeneration": 1,
            "versionHash": "", "availableUpdates": null,
        },
    }));
    let api: Api<ClusterVersion> = Api::all(cluster.client().unwrap());
    let params = PatchParams::apply("cluster-version-operator").force();
    let patched = api.patch_status(CLUSTER_VERSION, &params, &patch).await;
    patched.unwrap();
}

/// Publishes a bundle that declares its max OpenShift version.
pub(crate) fn publish(
    package: &'static str,
    version: &'static str,
    newest: &'static str,
) -> Listed {
    let dir = Operator::new(package, version).dir();
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
    let file = dir.path().join("metadata/properties.yaml");
    fs::write(file, properties.to_string()).unwrap();
    let image = format!("{}/bundles/{package}:v{version}", node::REGISTRY);
    let image = bundle::push(dir.path(), &image, &[]);
    Listed {
        package,
        version,
        newest,
        image,
    }
}

/// Writes a catalog of these bundles. Each bundle replaces the previous one of its package.
fn write(bundles: &[&Listed]) -> TempDir {
    let documents = bundles.iter().map(|bundle| {
        let (package, version) = (bundle.package, bundle.version);
        json!({
            "schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
            "image": bundle.image,
            "properties": [
                {"type": "olm.package", "value": {"packageName": package, "version": version}},
                {"type": "olm.maxOpenShiftVersion", "value": bundle.newest},
                {"type": "olm.csv.metadata", "value": {"displayName": package}},
            ],
        })
        .to_string()
    });
    let documents = documents.collect::<Vec<_>>().join("\n");
    let versions = bundles
        .iter()
        .map(|bundle| (bundle.package, bundle.version));
    write_catalog(&versions.collect::<Vec<_>>(), documents)
}

/// Writes the subdirectory `configs` with documents of bundles, and the packages and versions that they have. Each version
/// replaces the previous one of its package in the channel `stable`.
pub(crate) fn write_catalog(versions: &[(&str, &str)], mut documents: String) -> TempDir {
    for of_package in versions.chunk_by(|one, other| one.0 == other.0) {
        let package = of_package[0].0;
        let mut entries: Vec<Value> = Vec::new();
        for (_, version) in of_package {
            let mut entry = json!({"name": format!("{package}.v{version}")});
            if let Some(before) = entries.last() {
                entry["replaces"] = before["name"].clone();
            }
            entries.push(entry);
        }
        let head = json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"});
        let channel = json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries});
        documents.extend([format!("\n{head}\n{channel}")]);
    }
    let dir = tempfile::tempdir().unwrap();
    tests::write(dir.path(), "configs/catalog.json", documents);
    dir
}

/// Publishes a catalog as an image, `name:tag`.
pub(crate) fn catalog_image(name: &str, bundles: &[&Listed]) -> String {
    let file = "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY . /\nUSER 1001\n";
    image(name, file, write(bundles).path())
}

/// Publishes a directory as the image `name:tag` that a Dockerfile describes.
pub(crate) fn image(name: &str, file: &str, dir: &Path) -> String {
    let image = format!("{}/catalogs/{name}", node::REGISTRY);
    Buildah::new().publish(file, dir, &image, &[]);
    image
}

/// `rukpak catalog serve` on this machine, at an address that pods reach. Dropping the value ends the server.
pub(crate) struct Server {
    child: Child,
    _dir: TempDir,
}

impl Server {
    /// Serves the catalog in the subdirectory `configs`.
    pub(crate) fn start(port: u16, dir: TempDir) -> Self {
        let mut command = Command::new("rukpak");
        command
            .args(["catalog", "serve", "--port", &port.to_string()])
            .arg(dir.path().join("configs"))
            // A reader that waits for the end of the tests' output must not wait for this process.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; tests/e2e.sh has it in PATH"));
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("serving registry") {
            let count = log.read_line(&mut lines).unwrap();
            assert_ne!(count, 0, "{command:?}: {lines}");
        }
        // A closed pipe would end the server at its next log line.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, _dir: dir }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Serves a catalog in place of the previous one, as an update of a catalog's pod does.
pub(crate) fn serve(bundles: &[&Listed]) {
    // The server ends with the machine at the latest.
    static SERVER: Mutex<Option<Server>> = Mutex::new(None);
    let mut server = SERVER.lock().unwrap();
    drop(server.take());
    *server = Some(Server::start(PORT, write(bundles)));
}
