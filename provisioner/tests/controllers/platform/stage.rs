//! What the tests of platform operators are played on: a control plane of its own, with catalogs that are served for real.

use std::fmt::Debug;

use cluster::{Cluster, Lease};
use kube::{Api, Resource};
use manifests::api::{
    catalog_source::CatalogSource,
    condition::{HEALTHY, INSTALLED},
    definitions,
    instance::BundleInstance,
    platform::{PlatformOperator, PlatformOperatorStatus},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use unpacker::{Content, registry::BundleImage};

use crate::{
    catalogs::served::Server,
    support::{
        Options, Provisioner, World, apply, catalog_source, condition, define, delete, has, merge,
        namespace_object, notes_about, operator, own, wait_for, with_node,
    },
};

/// A cluster with a provisioner that takes catalogs from the namespace `catalogs`.
pub(crate) struct Platform {
    pub(crate) world: World,
    _lease: Option<Lease>,
}

impl Platform {
    pub(crate) async fn new() -> Self {
        Self::bare().await.with_definitions().await
    }

    /// The same on a control plane with these options.
    pub(crate) async fn of(options: &cluster::Options) -> Self {
        let cluster: &'static Cluster = Box::leak(Box::new(own(options).await));
        cluster.stand_in_node().await.unwrap();
        Self::on(cluster, None).await.with_definitions().await
    }

    async fn with_definitions(self) -> Self {
        for definition in definitions::foreign() {
            let definition = serde_json::to_value(definition).unwrap();
            self.define(&definition).await;
        }
        self
    }

    /// One where nobody has defined PlatformOperators and CatalogSources.
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

    pub(crate) async fn define(&self, definition: &Value) {
        define(self.world.cluster, definition).await;
    }

    /// Our own definition of a kind.
    pub(crate) async fn define_kind(&self, kind: &str) {
        let mut all = definitions::foreign().into_iter();
        let definition = all.find(|it| it.spec.names.kind == kind).unwrap();
        let definition = serde_json::to_value(definition).unwrap();
        self.define(&definition).await;
    }

    pub(crate) async fn start(&self) -> Provisioner {
        self.start_with(Options::default()).await
    }

    /// The same, with more flags and environment.
    pub(crate) async fn start_with(&self, options: Options) -> Provisioner {
        let (_folder, options) = self.prepared(options);
        Provisioner::start(self.world.cluster, options).await
    }

    /// With what a provisioner of this cluster is to be started, and a folder that has to be there until it has.
    pub(crate) fn prepared(&self, mut options: Options) -> (TempDir, Options) {
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("registries.conf");
        let text = format!(
            "[[registry]]\nlocation = \"{}\"\ninsecure = true\n",
            self.world.registry.host()
        );
        std::fs::write(&conf, text).unwrap();
        options.flags.extend([
            "--catalog-namespaces=catalogs".to_owned(),
            format!("--registries-conf={}", conf.display()),
        ]);
        (folder, options)
    }

    /// Publishes versions of an operator, and tells them as a catalog has them.
    pub(crate) async fn bundles(&self, name: &str, versions: &[&str]) -> Vec<Value> {
        let mut bundles = Vec::new();
        for version in versions {
            let image = format!("{name}:v{version}");
            let image = self.push(&image, &operator(name, version, &[])).await;
            bundles.push(bundle(name, version, &image));
        }
        bundles
    }

    /// Publishes content, and tells its image with the digest.
    pub(crate) async fn push(&self, name: &str, content: &Content) -> String {
        let image = self.world.push(name, content).await;
        format!("{image}@{}", BundleImage::new(content).unwrap().digest())
    }

    /// The operator of a package's name.
    pub(crate) async fn want(&self, spec: Value) {
        let name = spec["package"]["name"].as_str().unwrap().to_owned();
        self.want_as(&name, spec).await;
    }

    pub(crate) async fn want_as(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
            "metadata": {"name": name}, "spec": spec,
        });
        self.world.apply(&object).await;
    }

    /// A catalog that somebody serves.
    pub(crate) async fn serve(&self, name: &str, server: &Server) {
        self.source(name, json!({"address": server.address.to_string()}))
            .await;
    }

    /// Serves a catalog as `mine`.
    pub(crate) async fn serve_mine(&self, documents: &[Value]) -> Server {
        let server = Server::of(None, documents).await;
        self.serve("mine", &server).await;
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

    pub(crate) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        delete(&self.world.api::<K>(), name).await;
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        merge(&self.world.api(), name, &patch).await
    }

    /// Applies any object as the administrator.
    pub(crate) async fn apply(&self, object: &Value) {
        self.world.apply(object).await;
    }

    /// Creates a BundleInstance of an image with a registry bundle, and waits until it is installed.
    pub(crate) async fn install(&self, name: &str, image: &str) {
        let source = crate::support::image(image);
        self.world.instance(name, "registry", source).await;
        self.installed(name).await;
    }

    /// Waits until a BundleInstance is installed.
    pub(crate) async fn installed(&self, name: &str) {
        self.world.wait_instance(name, INSTALLED, "True").await;
    }

    /// Changes a PlatformOperator.
    pub(crate) async fn edit(&self, name: &str, patch: Value) {
        self.patch::<PlatformOperator>(name, patch).await;
    }

    /// Waits until what an operator stands for is installed, with these words in the message.
    pub(crate) async fn succeeds(&self, name: &str, words: &str) {
        self.becomes(name, "True", "InstallSuccessful", words).await;
    }

    /// Waits until a BundleInstance is healthy, or not.
    pub(crate) async fn is_healthy(&self, name: &str, status: &str) {
        self.world.wait_instance(name, HEALTHY, status).await;
    }

    pub(crate) async fn no_source(&self, name: &str) {
        let sources: Api<CatalogSource> = Api::namespaced(self.world.client(), "catalogs");
        delete(&sources, name).await;
    }

    /// Waits until this version is installed.
    pub(crate) async fn has(&self, name: &str, version: &str) {
        wait_for(self.instances(), name, version, |it| {
            let status = it.status.as_ref()?;
            let is_there = has(&status.conditions, INSTALLED, "True");
            (is_there && status.facts.version.as_deref() == Some(version)).then_some(())
        })
        .await;
    }

    /// Waits until this version is what is next, and waits for this.
    pub(crate) async fn waits(
        &self,
        name: &str,
        next: &str,
        words: &str,
    ) -> PlatformOperatorStatus {
        let what = format!("{next} {words}");
        let operator = wait_for(self.operators(), name, &what, |it| {
            let waiting = it.status.as_ref()?.next_available.as_ref()?;
            let why = waiting.waits_for.as_deref()?;
            (waiting.version == next && why.contains(words)).then_some(())
        })
        .await;
        operator.status.unwrap()
    }

    /// The versions that were chosen for an operator, one after the other, as events tell.
    pub(crate) async fn choices(&self, name: &str) -> Vec<String> {
        let chosen = notes_about(&self.world.client(), "default", name, "BundleChosen").await;
        let version = |note: &String| note.split(' ').nth(2).unwrap().to_owned();
        chosen.iter().map(version).collect()
    }

    pub(crate) async fn becomes(&self, name: &str, status: &str, reason: &str, words: &str) {
        self.says(name, INSTALLED, (status, reason, words)).await;
    }

    /// Waits until a condition has this status and reason, and these words in its message.
    pub(crate) async fn says(&self, name: &str, type_: &str, said: (&str, &str, &str)) {
        wait_for(self.operators(), name, &format!("{said:?}"), |operator| {
            let conditions = &operator.status.as_ref()?.conditions;
            let it = condition(conditions, type_)?;
            let (status, reason, words) = said;
            let is = it.status == status && it.reason == reason && it.message.contains(words);
            is.then_some(())
        })
        .await;
    }
}

/// A catalog of one package, in which each bundle replaces the one before.
pub(crate) fn package(name: &str, bundles: &[Value]) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut before: Option<Value> = None;
    for bundle in bundles {
        let mut entry = json!({"name": bundle["name"]});
        if let Some(before) = before {
            entry["replaces"] = before;
        }
        before = Some(bundle["name"].clone());
        entries.push(entry);
    }
    let mut documents = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    documents.extend(bundles.iter().cloned());
    documents
}

/// Several such packages.
pub(crate) fn packages<'a>(
    all: impl IntoIterator<Item = &'a (&'a str, impl AsRef<[Value]> + 'a)>,
) -> Vec<Value> {
    let all = all.into_iter();
    all.flat_map(|(name, bundles)| package(name, bundles.as_ref()))
        .collect()
}

/// A bundle as a catalog has it.
pub(crate) fn bundle(name: &str, version: &str, image: &str) -> Value {
    json!({
        "schema": "olm.bundle", "package": name, "name": format!("{name}.v{version}"), "image": image,
        "properties": [
            {"type": "olm.package", "value": {"packageName": name, "version": version}},
            {"type": "olm.csv.metadata", "value": {"displayName": name}},
        ],
    })
}
