//! Support for the tests of platform operators: a dedicated control plane with real catalog servers.

use cluster::{Cluster, Lease};
use manifests::api::{
    crds,
    platform_operator::{PlatformOperator, PlatformOperatorStatus},
};
use tempfile::TempDir;
use unpacker::{Content, registry::BundleImage};

use super::*;
use crate::support::{
    World, apply, catalog_source, define, namespace_object, notes_about, own, with_node,
};

/// A cluster with a provisioner that reads catalogs from the namespace `catalogs`.
pub(crate) struct Platform {
    pub(crate) world: World,
    _lease: Option<Lease>,
}

pub(crate) fn optional_crd(kind: &str) -> Value {
    let mut all = crds::optional_crds().into_iter();
    serde_json::to_value(all.find(|crd| crd.spec.names.kind == kind).unwrap()).unwrap()
}

impl Platform {
    pub(crate) async fn new() -> Self {
        Self::bare().await.with_crds().await
    }

    /// Like [`Platform::new`], on a control plane with these options.
    pub(crate) async fn with_options(options: &cluster::Options) -> Self {
        let cluster: &'static Cluster = Box::leak(Box::new(own(options).await));
        cluster.stand_in_node().await.unwrap();
        Self::on(cluster, None).await.with_crds().await
    }

    async fn with_crds(self) -> Self {
        for crd in crds::optional_crds() {
            self.define(&serde_json::to_value(crd).unwrap()).await;
        }
        self
    }

    /// Like [`Platform::new`], without the CRDs of PlatformOperators and CatalogSources.
    pub(crate) async fn bare() -> Self {
        let lease = with_node().await;
        Self::on(lease.cluster(), Some(lease)).await
    }

    async fn on(cluster: &'static Cluster, lease: Option<Lease>) -> Self {
        apply(cluster, &namespace_object("catalogs")).await;
        Self {
            world: World::bare(cluster),
            _lease: lease,
        }
    }

    pub(crate) async fn define(&self, crd: &Value) {
        define(self.world.cluster, crd).await;
    }

    pub(crate) async fn start(&self) -> Provisioner {
        self.start_with(Options::default()).await
    }

    /// Like [`Platform::start`], with more flags and environment variables.
    pub(crate) async fn start_with(&self, options: Options) -> Provisioner {
        let (_dir, options) = self.prepared(options);
        Provisioner::start(self.world.cluster, options).await
    }

    /// Returns the start options of a provisioner for this cluster, and a directory that must exist until the provisioner
    /// has started.
    pub(crate) fn prepared(&self, mut options: Options) -> (TempDir, Options) {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("registries.conf");
        std::fs::write(&conf, insecure_conf(self.world.registry.host())).unwrap();
        let conf = format!("--registries-conf={}", conf.display());
        let namespaces = "--catalog-namespaces=catalogs".to_owned();
        options.flags.extend([namespaces, conf]);
        (dir, options)
    }

    /// Publishes versions of an operator, and returns them as catalog entries.
    pub(crate) async fn bundles(&self, name: &str, versions: &[&str]) -> Vec<Value> {
        let mut bundles = Vec::new();
        for version in versions {
            let image = format!("{name}:v{version}");
            let image = self.push(&image, &operator(name, version, &[])).await;
            bundles.push(bundle(name, version, &image));
        }
        bundles
    }

    /// Publishes content, and returns the image with its digest.
    pub(crate) async fn push(&self, name: &str, content: &Content) -> String {
        let image = self.world.push(name, content).await;
        format!("{image}@{}", BundleImage::new(content).unwrap().digest())
    }

    /// Publishes an operator after a change of its ClusterServiceVersion, and returns its catalog entry.
    pub(crate) async fn push_changed(
        &self,
        name: &str,
        version: &str,
        change: impl FnOnce(&mut Value),
    ) -> Value {
        const CSV: &str = "manifests/csv.yaml";
        let content = operator(name, version, &[]);
        let mut csv: Value = serde_json::from_slice(content.read(CSV).unwrap()).unwrap();
        change(&mut csv);
        let content = operator(name, version, &[(CSV, csv)]);
        let image = self.push(&format!("{name}:v{version}"), &content).await;
        bundle(name, version, &image)
    }

    /// Publishes version 1.0.0 of an operator whose bundle declares this max OpenShift version, and returns the image.
    pub(crate) async fn push_limited(&self, name: &str, newest: &str) -> String {
        let limit = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
        let content = operator(name, "1.0.0", &[("metadata/properties.yaml", limit)]);
        self.push(&format!("{name}:v1.0.0"), &content).await
    }

    /// Applies a PlatformOperator with the name of its package.
    pub(crate) async fn declare(&self, spec: Value) {
        let name = spec["package"]["name"].as_str().unwrap().to_owned();
        self.declare_as(&name, spec).await;
    }

    pub(crate) async fn declare_as(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
            "metadata": {"name": name}, "spec": spec,
        });
        self.world.apply(&object).await;
    }

    pub(crate) async fn serve_mine(&self, documents: &[Value]) -> Server {
        let server = Server::with_documents(None, documents).await;
        let spec = json!({"address": server.address.to_string()});
        self.source("mine", spec).await;
        server
    }

    pub(crate) async fn source(&self, name: &str, spec: Value) {
        let mut source = catalog_source("catalogs", name, &spec);
        source["spec"]["sourceType"] = "grpc".into();
        self.world.apply(&source).await;
    }

    pub(crate) fn operators(&self) -> Api<PlatformOperator> {
        self.world.api()
    }

    pub(crate) fn instances(&self) -> Api<BundleInstance> {
        self.world.api()
    }

    /// Creates a BundleInstance of an image with a registry bundle, and waits until the bundle is installed.
    pub(crate) async fn install(&self, name: &str, image: &str) {
        let source = crate::support::image(image);
        self.world.instance(name, "registry", source).await;
        self.world.wait_instance(name, INSTALLED, "True").await;
    }

    pub(crate) async fn edit(&self, name: &str, patch: Value) {
        merge(&self.operators(), name, &patch).await;
    }

    /// Waits until an operator is installed, with this part in the message.
    pub(crate) async fn succeeds(&self, name: &str, part: &str) {
        self.becomes(name, "True", "InstallSuccessful", part).await;
    }

    pub(crate) async fn has(&self, name: &str, version: &str) {
        let installed = json!({"type": INSTALLED, "status": "True"});
        let status = json!({"version": version, "conditions": [installed]});
        wait_part(self.instances(), name, json!({"status": status})).await;
    }

    /// Waits until an operator has recorded these minor versions of the cluster and of its package.
    pub(crate) async fn has_minors(&self, name: &str, expected: &str) {
        wait_for(self.operators(), name, expected, |operator| {
            (operator.approved_minors()?.to_string() == expected).then_some(())
        })
        .await;
    }

    /// Waits until this version is the next available one, with this part in its reason.
    pub(crate) async fn waits(&self, name: &str, next: &str, part: &str) -> PlatformOperatorStatus {
        let next = json!({"version": next, "waitsFor": format!("*{part}*")});
        let waiting = json!({"status": {"nextAvailable": next}});
        let operator = wait_part(self.operators(), name, waiting).await;
        operator.status.unwrap()
    }

    /// Waits until the Events about chosen bundles have these versions. An Event follows the change of the BundleInstance.
    pub(crate) async fn has_chosen(&self, name: &str, versions: &[&str]) {
        let choices = async || self.choices(name).await;
        until("the choices", choices, |choices| choices == versions).await;
    }

    /// Lists the versions that were chosen for an operator, in the order of the Events.
    pub(crate) async fn choices(&self, name: &str) -> Vec<String> {
        let chosen = notes_about(&self.world.client(), "default", name, "BundleChosen").await;
        let version = |note: &String| note.split(' ').nth(2).unwrap().to_owned();
        chosen.iter().map(version).collect()
    }

    pub(crate) async fn becomes(&self, name: &str, status: &str, reason: &str, part: &str) {
        self.wait_condition(name, INSTALLED, (status, reason, part))
            .await;
    }

    /// Waits until a condition has this status and reason, and this part in its message.
    pub(crate) async fn wait_condition(&self, name: &str, ty: &str, expected: (&str, &str, &str)) {
        let (status, reason, part) = expected;
        let message = format!("*{part}*");
        let condition = json!({"type": ty, "status": status, "reason": reason, "message": message});
        let expected = json!({"status": {"conditions": [condition]}});
        wait_part(self.operators(), name, expected).await;
    }
}

/// Returns a registries.conf for a registry without TLS.
pub(crate) fn insecure_conf(host: &str) -> String {
    format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n")
}

/// Returns a catalog of one package, in which each bundle replaces the previous one.
pub(crate) fn package(name: &str, bundles: &[Value]) -> Vec<Value> {
    let entries = bundles.iter().map(|bundle| json!({"name": bundle["name"]}));
    let mut entries: Vec<Value> = entries.collect();
    for (entry, previous) in entries.iter_mut().skip(1).zip(bundles) {
        entry["replaces"] = previous["name"].clone();
    }
    let mut documents = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    documents.extend_from_slice(bundles);
    documents
}

pub(crate) fn packages<'a>(
    all: impl IntoIterator<Item = &'a (&'a str, impl AsRef<[Value]> + 'a)>,
) -> Vec<Value> {
    let all = all.into_iter();
    all.flat_map(|(name, bundles)| package(name, bundles.as_ref()))
        .collect()
}

pub(crate) fn bundle(name: &str, version: &str, image: &str) -> Value {
    json!({
        "schema": "olm.bundle", "package": name, "name": format!("{name}.v{version}"), "image": image,
        "properties": [
            {"type": "olm.package", "value": {"packageName": name, "version": version}},
            {"type": "olm.csv.metadata", "value": {"displayName": name}},
        ],
    })
}

pub(crate) fn with_maximum(mut bundle: Value, maximum: &str) -> Value {
    let properties = bundle["properties"].as_array_mut().unwrap();
    properties.push(json!({"type": "olm.maxOpenShiftVersion", "value": maximum}));
    bundle
}
