//! What there is before the provisioner: an OpenShift, as far as its objects make one, two catalogs, and platform operators.
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

use cluster::{Cluster, DryRun, machine, worker};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use manifests::{
    api::config::{CLUSTER_VERSION, ClusterVersion},
    yaml,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::Buildah;

use super::{bundle, bundle::Operator, catalogs};

/// The folder of the Go module that has OpenShift's definitions; tests/e2e.sh sets it, for here is no network.
const DEFINITIONS: &str = "RUKPAK_E2E_DEFINITIONS";
/// Where catalogs are, as on OpenShift.
pub(crate) const MARKETPLACE: &str = "openshift-marketplace";
/// The platform operators that are wanted from the beginning.
pub(crate) const WANTED: [&str; 3] = ["tide", "reef", "lagoon"];
/// Where the one catalog is served.
const PORT: u16 = 50051;

/// A bundle as a catalog lists it: package, version, the newest OpenShift that it runs on, and its image.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    pub(crate) newest: &'static str,
    pub(crate) image: String,
}

/// What the catalogs list at first.
#[derive(Debug)]
pub(crate) struct Day0 {
    pub(crate) tide: Listed,
    pub(crate) reef: Listed,
    pub(crate) lagoon: Listed,
}

/// Applies all of it.
pub(crate) async fn declare(cluster: &Cluster) -> Day0 {
    let apply = async |object: Value| cluster.apply(&object, DryRun::No).await.unwrap();
    let folder = std::env::var_os(DEFINITIONS).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| panic!("{DEFINITIONS} is not set: run `make e2e`"));
    let theirs = [
        "0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
        "0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
        "0000_10_config-operator_01_images.crd.yaml",
    ]
    .map(|file| {
        folder
            .join("config/v1/zz_generated.crd-manifests")
            .join(file)
    });
    let optional = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/optional");
    let ours = [
        "platformoperators.platform.openshift.io.yaml",
        "catalogsources.operators.coreos.com.yaml",
    ]
    .map(|file| optional.join(file));
    for file in theirs.into_iter().chain(ours) {
        let bytes = fs::read(&file).unwrap();
        let definition: Value = yaml::documents(&bytes).next().unwrap().unwrap();
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        apply(definition).await;
        cluster.wait_established(&name).await.unwrap();
    }
    apply(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-0000-0000-000000000000"},
    }))
    .await;
    run(cluster, "4.12.7", &[("Completed", "4.12.7")]).await;
    // The registry speaks plain HTTP.
    apply(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": {"name": "cluster"},
        "spec": {"registrySources": {"insecureRegistries": [worker::REGISTRY.to_string()]}},
    }))
    .await;
    apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MARKETPLACE}}))
        .await;

    let day = Day0 {
        tide: publish("tide", "1.0.0", "4.20"),
        reef: publish("reef", "1.0.0", "4.13"),
        lagoon: publish("lagoon", "1.0.0", "4.20"),
    };
    for package in WANTED {
        apply(wanted(package)).await;
    }
    serve(&[&day.tide]);
    let address = format!("{}:{PORT}", machine::ADDRESS);
    apply(source("served", &json!({"address": address}))).await;
    let image = catalog_image("pulled:v1", &[&day.reef, &day.lagoon]);
    apply(source("pulled", &json!({"image": image}))).await;
    day
}

/// A PlatformOperator named after its package.
pub(crate) fn wanted(package: &str) -> Value {
    json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": package}, "spec": {"package": {"name": package}},
    })
}

pub(crate) fn source(name: &str, more: &Value) -> Value {
    let mut spec = json!({"sourceType": "grpc"});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    catalogs::source(MARKETPLACE, name, &spec)
}

/// Has the cluster be on its way to a version, or there: its history, the newest first.
pub(crate) async fn run(cluster: &Cluster, desired: &str, history: &[(&str, &str)]) {
    let history: Vec<Value> = history
        .iter()
        .map(|(state, version)| {
            let end = (*state == "Completed").then_some("2026-01-01T01:00:00Z");
            json!({
                "state": state, "version": version, "image": "", "verified": true,
                "startedTime": "2026-01-01T00:00:00Z", "completionTime": end,
            })
        })
        .collect();
    let body = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "status": {
            "desired": {"version": desired, "image": ""}, "history": history, "observedGeneration": 1,
            "versionHash": "", "availableUpdates": null,
        },
    });
    let versions: Api<ClusterVersion> = Api::all(cluster.client().unwrap());
    let params = PatchParams::apply("cluster-version-operator").force();
    versions
        .patch_status(CLUSTER_VERSION, &params, &Patch::Apply(body))
        .await
        .unwrap();
}

/// Publishes a bundle that says itself which OpenShift is the newest that it runs on.
pub(crate) fn publish(
    package: &'static str,
    version: &'static str,
    newest: &'static str,
) -> Listed {
    let folder = Operator::new(package, version).folder();
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
    let file = folder.path().join("metadata/properties.yaml");
    fs::write(file, properties.to_string()).unwrap();
    let image = format!("{}/bundles/{package}:v{version}", worker::REGISTRY);
    let image = bundle::push(folder.path(), &image, &[]);
    Listed {
        package,
        version,
        newest,
        image,
    }
}

/// A catalog of these bundles; of a package each replaces the one before.
fn write(bundles: &[&Listed]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = Vec::new();
    let mut packages: Vec<&str> = bundles.iter().map(|bundle| bundle.package).collect();
    packages.dedup();
    for package in packages {
        let of_package = bundles.iter().filter(|bundle| bundle.package == package);
        let mut entries: Vec<Value> = Vec::new();
        for bundle in of_package {
            let mut entry = json!({"name": format!("{package}.v{}", bundle.version)});
            if let Some(before) = entries.last() {
                entry["replaces"] = before["name"].clone();
            }
            entries.push(entry);
        }
        texts.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        texts.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
    }
    for bundle in bundles {
        let (package, version) = (bundle.package, bundle.version);
        texts.push(json!({
            "schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
            "image": bundle.image,
            "properties": [
                {"type": "olm.package", "value": {"packageName": package, "version": version}},
                {"type": "olm.maxOpenShiftVersion", "value": bundle.newest},
                {"type": "olm.csv.metadata", "value": {"displayName": package}},
            ],
        }));
    }
    let texts: Vec<String> = texts.iter().map(Value::to_string).collect();
    fs::create_dir(folder.path().join("configs")).unwrap();
    fs::write(folder.path().join("configs/catalog.json"), texts.join("\n")).unwrap();
    folder
}

/// Publishes a catalog as an image, `name:tag`.
pub(crate) fn catalog_image(name: &str, bundles: &[&Listed]) -> String {
    let image = format!("{}/catalogs/{name}", worker::REGISTRY);
    push_catalog(&image, &[], bundles);
    image
}

/// Pushes a catalog as an image, with these flags of `buildah push`.
pub(crate) fn push_catalog(image: &str, flags: &[&str], bundles: &[&Listed]) {
    let folder = write(bundles);
    let file = "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY . /\nUSER 1001\n";
    let buildah = Buildah::new();
    let built = buildah.build(file, folder.path(), &[]);
    let flags = [&["--tls-verify=false"], flags].concat();
    buildah.push(&built, &format!("docker://{image}"), &flags);
}

/// `rukpak catalog serve` on this machine, where pods reach it.
pub(crate) struct Server {
    child: Child,
    _folder: TempDir,
}

impl Server {
    /// Serves the catalog in the directory `configs` of a folder.
    pub(crate) fn start(port: u16, folder: TempDir) -> Self {
        let mut command = Command::new("rukpak");
        command
            .args(["catalog", "serve", "--port", &port.to_string()])
            .arg(folder.path().join("configs"))
            // Whoever waits for the end of what the tests print does not wait for this.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; tests/e2e.sh has it in PATH"));
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("serving registry") {
            assert_ne!(log.read_line(&mut seen).unwrap(), 0, "{command:?}: {seen}");
        }
        // Whoever closes the pipe ends a server that has something to say.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self {
            child,
            _folder: folder,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Serves a catalog in place of the one that was served before, as whoever updates a catalog's pod does.
pub(crate) fn serve(bundles: &[&Listed]) {
    // It ends with this machine, if not before.
    static SERVER: Mutex<Option<Server>> = Mutex::new(None);
    let mut server = SERVER.lock().unwrap();
    drop(server.take());
    *server = Some(Server::start(PORT, write(bundles)));
}
