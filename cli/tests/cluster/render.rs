//! Output of `platform render`, applied to an API server as by the bootstrap of a cluster: file by file in the order of
//! their names, repeated until all objects are accepted.

use std::{fs, process::Command};

use cluster::{Cluster, DryRun};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace, rbac::v1::RoleBinding};
use kube::Api;
use manifests::{
    api::{catalog_source::CatalogSource, platform_operator::PlatformOperator},
    yaml,
};
use serde_json::Value;
use tempfile::TempDir;
use tests::{Args as _, Buildah, Registry};

use crate::environment::{Run, apply, bare, binary, eventually, namespace};
use crate::upgrade::{become_openshift, define, define_olm, module};

/// A catalog in a registry, and the manifests that are rendered from it.
struct Installer {
    dir: TempDir,
    image: String,
    _registry: Registry,
}

impl Installer {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let catalog = include_str!("../../../examples/catalog/tidewatch/catalog.yaml");
        tests::write(dir.path(), "catalog/catalog.yaml", catalog);
        let registry = Registry::plain();
        let image = registry.image("tide/catalog:v1");
        let file = "FROM scratch\nCOPY catalog /configs\nLABEL operators.operatorframework.io.index.configs.v1=/configs\n";
        Buildah::new().publish(file, dir.path(), &image, &[]);
        Self {
            dir,
            image,
            _registry: registry,
        }
    }

    /// Renders into a directory and returns the objects of its files in the order of their names.
    fn render(&self, to: &str, args: &str) -> Vec<(String, Value)> {
        let dir = self.dir.path().join(to);
        let mut command = Command::new(binary());
        command
            .args("platform render tidewatch:stable@>=1.3.0 --tls-verify=false".words())
            .args(["--catalog", &self.image])
            .args(args.words())
            .arg("--output-dir")
            .arg(&dir);
        Run::from(command.output().unwrap()).exits(0);
        let files = fs::read_dir(&dir).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.collect();
        files.sort();
        let object = |name: String| {
            let bytes = fs::read(dir.join(&name)).unwrap();
            let mut all: Vec<Value> = yaml::documents(&bytes).map(Result::unwrap).collect();
            assert_eq!(all.len(), 1, "{name}");
            (name, all.remove(0))
        };
        files.into_iter().map(object).collect()
    }
}

async fn apply_once(cluster: &Cluster, files: &[(String, Value)]) -> Vec<String> {
    let mut left = Vec::new();
    for (name, object) in files {
        if let Err(error) = cluster.apply(object, DryRun::No).await {
            left.push(format!("{name}: {error:#}"));
        }
    }
    left
}

async fn bootstrap(cluster: &Cluster, files: &[(String, Value)]) {
    eventually("applied", async || {
        let left = apply_once(cluster, files).await;
        left.is_empty().then_some(()).ok_or_else(|| left.join("\n"))
    })
    .await;
}

async fn arguments(cluster: &Cluster) -> Vec<String> {
    let deployments = Api::<Deployment>::namespaced(cluster.client().unwrap(), "rukpak-system");
    let found = deployments.get("core").await.unwrap();
    let pod = found.spec.unwrap().template.spec.unwrap();
    pod.containers[0].args.clone().unwrap()
}

async fn operator_and_catalog(cluster: &Cluster) -> (PlatformOperator, CatalogSource) {
    let client = cluster.client().unwrap();
    let operators = Api::<PlatformOperator>::all(client.clone());
    let operator = operators.get("tidewatch").await.unwrap();
    let catalog = operator.spec.catalog.clone().unwrap();
    let sources = Api::<CatalogSource>::namespaced(client, &catalog.namespace.unwrap());
    (operator, sources.get(&catalog.name).await.unwrap())
}

// parity: platform-1
#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_and_openshift_accept_rendered_manifests() {
    let installer = Installer::new();
    kubernetes_accepts_its_manifests(&installer).await;
    openshift_accepts_its_manifests(&installer).await;
}

async fn kubernetes_accepts_its_manifests(installer: &Installer) {
    let cluster = bare().await;
    let args = "--kubernetes-version 1.36 --catalog-source tides --catalog-namespace catalogs --catalog-secret pull";
    let files = installer.render("kubernetes", args);
    bootstrap(&cluster, &files).await;
    let (operator, source) = operator_and_catalog(&cluster).await;
    assert_eq!(operator.spec.channel.as_deref(), Some("stable"));
    assert_eq!(source.spec.image.as_deref(), Some(installer.image.as_str()));
    assert_eq!(source.spec.secrets, ["pull"]);
    let args = arguments(&cluster).await;
    let flag = "--catalog-namespaces=rukpak-system,openshift-marketplace,catalogs".to_owned();
    assert!(args.contains(&flag), "{args:?}");
    // Roles in the catalog namespace let the provisioner read its pull secrets.
    let bindings = Api::<RoleBinding>::namespaced(cluster.client().unwrap(), "catalogs");
    for (name, role) in [
        ("provisioner-catalogs", "catalog-pull-secrets"),
        ("provisioner-catalog-server", "catalog-server"),
    ] {
        let binding = bindings.get(name).await.unwrap();
        assert_eq!(binding.role_ref.name, role);
        tests::assert_rows!(binding.subjects.unwrap_or_default()[0].namespace.as_deref() => Some("rukpak-system"));
    }
    // A second run succeeds with the existing objects.
    assert_eq!(apply_once(&cluster, &files).await, Vec::<String>::new());
}

async fn openshift_accepts_its_manifests(installer: &Installer) {
    let cluster = bare().await;
    let args = "--openshift-version 4.20 --catalog-source tides";
    let files = installer.render("openshift", args);
    // The bootstrap starts before the CRDs of the platform exist.
    assert!(!apply_once(&cluster, &files).await.is_empty());
    become_openshift(&cluster, "4.20.3").await;
    define_olm(&cluster, "catalogsources").await;
    for (name, files) in tests::rows![
        "github.com/prometheus-operator/prometheus-operator" => &[
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ][..];
        "github.com/openshift/api" => &["config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_featuregates.crd.yaml"];
    ] {
        define(&cluster, &module("openshift", name), files).await;
    }
    let namespaces = ["marketplace", "config", "monitoring"];
    let namespaces = namespaces.map(|name| namespace(&format!("openshift-{name}")));
    apply(&cluster, namespaces).await;
    bootstrap(&cluster, &files).await;
    let (operator, source) = operator_and_catalog(&cluster).await;
    assert_eq!(operator.spec.version.as_deref(), Some(">=1.3.0"));
    assert_eq!(source.metadata.namespace.unwrap(), "openshift-marketplace");
    let args = arguments(&cluster).await;
    let is_about_catalogs = |arg: &String| arg.starts_with("--catalog-namespaces");
    assert!(!args.iter().any(is_about_catalogs), "{args:?}");
    let namespaces = Api::<Namespace>::all(cluster.client().unwrap());
    let system = namespaces.get("rukpak-system").await.unwrap();
    tests::assert_rows!(system.metadata.labels.unwrap()["openshift.io/cluster-monitoring"] => "true");
    // If the release payload includes the provisioner, only these files remain: the FeatureGate and the PlatformOperator.
    let files = installer.render("payload", "--openshift-version 4.20 --release-payload");
    assert_eq!(files.len(), 2);
    bootstrap(&cluster, &files).await;
}
