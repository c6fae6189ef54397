//! Catalogs: from images in a real registry, from real servers, from OLM, and catalogs that are created and deleted.

pub(crate) mod api_errors;
mod config_maps;
pub(crate) mod external_servers;
mod forbidden_namespaces;
pub(crate) mod images;
mod olm_takeover;
mod pods;
mod serving;
mod status;
mod templates;
mod unreadable_sources;

use std::{path::Path, sync::Arc};

use catalog::choose::{CatalogAnswer, Offer};
use cluster::{Cluster, Lease};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, Config, Resource,
    api::{DeleteParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use manifests::api::{
    catalog_source::{CatalogSource, CatalogSourceStatus},
    labels,
};
use provisioner::{
    app,
    controllers::{catalog_source, context::Context},
    runtime::settings::{NamespaceQuota, Settings},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Registry, table::matches};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use unpacker::{Store, store::Budget};

use crate::platform::support::{bundle, optional_crd, package};
use crate::support::{
    Line, apply, catalog_source, define, delete, eventually, found, insecure, list, merge,
    merge_status, namespace_object, notes_about, until, wait_deleted, wait_for, wait_part,
    without_controllers,
};

/// Namespaces whose catalogs are read.
const NAMESPACES: [&str; 2] = ["catalogs", "more-catalogs"];

/// A provisioner that reads catalogs, in this process.
struct Leader {
    ctx: Context,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    store: TempDir,
}

struct Shelf {
    reader: Leader,
    cluster: Lease,
}

async fn define_source(cluster: &Cluster) {
    define(cluster, &optional_crd("CatalogSource")).await;
}

/// Returns settings for registries without TLS and without credentials.
pub(crate) fn settings() -> Settings {
    tests::with!(Settings::default() => access: insecure(), follow_openshift: false,
        catalog_namespaces: NAMESPACES.map(str::to_owned).to_vec())
}

/// Returns the context of a provisioner that is this user, with a store in this directory.
pub(crate) fn context(
    mut config: Config,
    dir: &Path,
    user: Option<&str>,
    settings: Settings,
) -> Context {
    let (disk, memory) = (1 << 30, 1 << 20);
    let store = Store::open(dir, Budget { disk, memory }).unwrap();
    config.auth_info.impersonate = user.map(str::to_owned);
    app::context(config, settings, store).unwrap().0
}

impl Leader {
    /// Starts a provisioner that is this user, on the disk of an earlier one.
    fn run(config: Config, user: Option<&str>, settings: Settings, store: TempDir) -> Self {
        let ctx = context(config, store.path(), user, settings);
        let stop = CancellationToken::new();
        let (kinds, until) = (Arc::clone(&ctx.discovery), stop.clone());
        let kinds = tokio::spawn(async move { kinds.run(until).await });
        let catalogs = tokio::spawn(catalog_source::run(ctx.clone(), stop.clone()));
        Self {
            ctx,
            stop,
            tasks: vec![kinds, catalogs],
            store,
        }
    }

    /// Ends as a process that has lost its Lease does. The content of its disk is kept.
    async fn end(mut self) -> TempDir {
        self.stop.cancel();
        for task in self.tasks.drain(..) {
            let _ = task.await;
        }
        std::mem::replace(&mut self.store, tempfile::tempdir().unwrap())
    }

    /// Returns the offers of a package, one line per catalog.
    fn offers(&self, package: &str) -> Vec<String> {
        let offers = self.ctx.catalogs.offers(package, None);
        let line = |offer: Offer<'_>| {
            let answer = match offer.answer {
                CatalogAnswer::Package(package) => {
                    let names: Vec<&str> = package.bundles.keys().map(String::as_str).collect();
                    names.join(" ")
                }
                CatalogAnswer::NotFound => "absent".to_owned(),
                CatalogAnswer::Unavailable(why) => format!("unknown: {why}"),
                CatalogAnswer::Pending => "pending".to_owned(),
            };
            format!("{}: {answer}", offer.catalog)
        };
        offers.list().into_iter().map(line).collect()
    }

    /// Waits until the error of a catalog contains this text. A name without a namespace is one of the first namespace.
    async fn fails_with(&self, catalog: &str, text: &str) {
        let (namespace, name) = qualified(catalog);
        let catalog = format!("{namespace}/{name}");
        eventually(&format!("{catalog} reports {text}"), async || {
            let states = self.ctx.catalogs.states();
            let mut all = states.iter();
            let state = all.find(|state| state.catalog.to_string() == catalog);
            let error = state.and_then(|state| state.trouble.as_deref());
            let has_text = error.is_some_and(|error| error.contains(text));
            has_text.then_some(()).ok_or(format!("{states:?}"))
        })
        .await;
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.stop.cancel();
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shelf {
    /// Returns a cluster with the CRD of CatalogSources.
    async fn new() -> Self {
        let shelf = Self::bare().await;
        define_source(&shelf.cluster).await;
        shelf
    }

    async fn bare() -> Self {
        let cluster = without_controllers().await;
        let config = cluster.config().clone();
        Self::run(cluster, config, None).await
    }

    /// Returns a cluster whose provisioner runs as this user, and reaches the API server through a [`Line`].
    async fn behind_line(user: &str) -> (Self, Line) {
        let cluster = without_controllers().await;
        let (line, config) = Line::to(cluster.config().clone()).await;
        (Self::run(cluster, config, Some(user)).await, line)
    }

    async fn run(cluster: Lease, config: Config, user: Option<&str>) -> Self {
        for namespace in NAMESPACES.into_iter().chain(["elsewhere"]) {
            apply(&cluster, &namespace_object(namespace)).await;
        }
        let store = tempfile::tempdir().unwrap();
        Self {
            reader: Leader::run(config, user, settings(), store),
            cluster,
        }
    }

    async fn apply(&self, object: &Value) {
        apply(&self.cluster, object).await;
    }

    /// Declares a catalog in an image, in the first namespace.
    async fn image(&self, name: &str, image: &str) {
        let spec = json!({"image": image});
        self.declare(NAMESPACES[0], name, spec).await;
    }

    /// Waits until the catalogs of the first namespace offer these versions of the package `tide`: `name: 1.0.0 1.1.0`.
    async fn tide(&self, expected: &[&str]) {
        let offer = |line: &&str| format!("{}/{}", NAMESPACES[0], line.replace(' ', " tide.v"));
        let offers: Vec<String> = expected.iter().map(offer).collect();
        let offers: Vec<&str> = offers.iter().map(String::as_str).collect();
        self.offers_become(&offers).await;
    }

    async fn fails_with(&self, catalog: &str, text: &str) {
        self.reader.fails_with(catalog, text).await;
    }

    /// Deletes catalogs of the first namespace, and waits until no catalog offers the package `tide`.
    async fn forget(&self, names: &[&str]) {
        let sources = self.sources(NAMESPACES[0]);
        for name in names {
            delete(&sources, name).await;
        }
        self.offers_become(&[]).await;
    }

    async fn declare(&self, namespace: &str, name: &str, spec: Value) {
        self.declare_with(namespace, name, spec, json!({})).await;
    }

    async fn declare_with(&self, namespace: &str, name: &str, spec: Value, annotations: Value) {
        let mut source = catalog_source(namespace, name, &spec);
        source["spec"]["sourceType"] = "grpc".into();
        source["metadata"]["annotations"] = annotations;
        self.apply(&source).await;
    }

    fn client(&self) -> Client {
        self.cluster.client().unwrap()
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), namespace)
    }

    fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        self.api(namespace)
    }

    async fn becomes(
        &self,
        name: &str,
        description: &str,
        is_expected: impl Fn(&CatalogSource) -> bool,
    ) -> CatalogSource {
        wait_for(self.sources(NAMESPACES[0]), name, description, |source| {
            is_expected(source).then_some(())
        })
        .await
    }

    async fn reports(&self, source: &str, part: Value) -> CatalogSourceStatus {
        let (namespace, name) = qualified(source);
        let source = wait_part(self.sources(namespace), name, json!({"status": part})).await;
        source.status.unwrap_or_default()
    }

    /// Creates an OLM whose Deployment reports this number of available pods.
    async fn olm(&self, available: i32) {
        let labels = json!({"app": "catalog-operator"});
        let containers = json!([{"name": "catalog-operator", "image": "example.com/olm:v0.38.0"}]);
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "catalog-operator", "namespace": "olm"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        });
        for object in [namespace_object("olm"), deployment] {
            self.apply(&object).await;
        }
        let status = json!({"status": {"replicas": 1, "availableReplicas": available, "readyReplicas": available}});
        merge_status(&self.api::<Deployment>("olm"), "catalog-operator", &status).await;
    }

    fn offers(&self, package: &str) -> Vec<String> {
        self.reader.offers(package)
    }

    /// Waits until these are the offers of the package `tide`, in which `*` is any text.
    async fn offers_become(&self, expected: &[&str]) {
        let is_expected = |offers: &Vec<String>| {
            let mut pairs = offers.iter().zip(expected);
            let is_same = |(offer, expected): (&String, &&str)| matches(expected, offer);
            offers.len() == expected.len() && pairs.all(is_same)
        };
        let offers = async || self.offers("tide");
        until(&format!("{expected:?}"), offers, is_expected).await;
    }

    fn metric(&self, namespace: &str, name: &str) -> Option<String> {
        let key = format!("rukpak_catalog_available{{namespace=\"{namespace}\",name=\"{name}\"}} ");
        metric(&self.reader.ctx, &key)
    }
}

fn metric(ctx: &Context, begin: &str) -> Option<String> {
    let text = ctx.metrics.render();
    let found = text.lines().find_map(|line| line.strip_prefix(begin));
    found.map(str::to_owned)
}

/// Returns the namespace and the name of a catalog. A name without a namespace is one of the first namespace.
fn qualified(catalog: &str) -> (&str, &str) {
    catalog.split_once('/').unwrap_or((NAMESPACES[0], catalog))
}

fn write_documents(dir: &Path, documents: &[Value]) {
    let text: Vec<String> = documents.iter().map(Value::to_string).collect();
    std::fs::write(dir.join("catalog.json"), text.join("\n")).unwrap();
}

/// Returns the documents of a package `tide` in which each version replaces the one before.
fn tide(versions: &[&str]) -> Vec<Value> {
    let tide = |version: &&str| {
        let image = format!("example.com/tide@sha256:{:0>64}", version.replace('.', ""));
        bundle("tide", version, &image)
    };
    let bundles: Vec<Value> = versions.iter().map(tide).collect();
    package("tide", &bundles)
}
