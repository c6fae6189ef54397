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

use catalog::choose::CatalogAnswer;
use cluster::{Cluster, Lease};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, Config, Resource,
    api::{DeleteParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use manifests::api::{
    catalog_source::{CatalogSource, CatalogSourceStatus},
    crds,
    platform_operator::CatalogRef,
};
use provisioner::{
    app,
    controllers::{catalog_source, context::Context},
    runtime::settings::{NamespaceQuota, Namespaces, Ports, Serving, Settings},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use unpacker::{Store, store::Budget};

pub(crate) use crate::support::{apply, delete, merge, merge_status, until};
use crate::support::{
    catalog_source, define, eventually, found, insecure, list, namespace_object, notes_about,
    wait_deleted, wait_for, without_controllers,
};

/// Namespaces whose catalogs are read.
const NAMESPACES: [&str; 2] = ["catalogs", "more-catalogs"];

/// A cluster, and its catalogs that are read.
struct Shelf {
    cluster: Lease,
    ctx: Context,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    _store: TempDir,
}

/// Creates the CRD of CatalogSources.
async fn define_source(cluster: &Cluster) {
    let mut all = crds::optional_crds().into_iter();
    let definition = all.find(|crd| crd.spec.names.kind == "CatalogSource");
    define(cluster, &serde_json::to_value(definition.unwrap()).unwrap()).await;
}

/// Returns settings for registries without TLS and without credentials.
fn settings() -> Settings {
    Settings {
        access: insecure(),
        follow_openshift: false,
        ..Settings::default()
    }
}

/// Returns the context of a provisioner that is this user, with a store in this directory.
fn context(mut config: Config, dir: &Path, user: Option<&str>, settings: Settings) -> Context {
    let budget = Budget {
        disk: 1 << 30,
        memory: 1 << 20,
    };
    let store = Store::open(dir, budget).unwrap();
    config.auth_info.impersonate = user.map(str::to_owned);
    app::context(config, settings, store).unwrap().0
}

/// Reads catalogs until the token is cancelled.
fn run(ctx: &Context, stop: &CancellationToken) -> Vec<JoinHandle<()>> {
    let (kinds, until) = (Arc::clone(&ctx.discovery), stop.clone());
    let kinds = tokio::spawn(async move { kinds.run(until).await });
    let catalogs = tokio::spawn(catalog_source::run(ctx.clone(), stop.clone()));
    vec![kinds, catalogs]
}

impl Shelf {
    /// Returns a cluster with the CRD of CatalogSources.
    async fn new() -> Self {
        Self::defined(settings()).await
    }

    /// Returns a cluster without the CRD.
    async fn bare() -> Self {
        Self::for_user(None).await
    }

    /// Returns a cluster where the provisioner is this user, with that user's permissions.
    async fn for_user(user: Option<&str>) -> Self {
        Self::with(user, settings()).await
    }

    /// Returns a cluster where catalogs are also served.
    async fn serving() -> Self {
        let serving = Serving {
            address: [192, 0, 2, 1].into(), // nobody's
            ports: Ports::Any,
            namespaces: Namespaces::All,
            pods: false,
            share: NamespaceQuota::default(),
        };
        Self::defined(Settings {
            serving: Some(serving),
            ..settings()
        })
        .await
    }

    /// Returns a cluster with the CRD and these settings.
    async fn defined(settings: Settings) -> Self {
        let this = Self::with(None, settings).await;
        this.define().await;
        this
    }

    async fn with(user: Option<&str>, settings: Settings) -> Self {
        let cluster = without_controllers().await;
        for namespace in NAMESPACES.into_iter().chain(["elsewhere"]) {
            apply(&cluster, &namespace_object(namespace)).await;
        }
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            catalog_namespaces: NAMESPACES.map(str::to_owned).to_vec(),
            ..settings
        };
        let ctx = context(cluster.config().clone(), dir.path(), user, settings);
        let stop = CancellationToken::new();
        Self {
            cluster,
            tasks: run(&ctx, &stop),
            ctx,
            stop,
            _store: dir,
        }
    }

    async fn define(&self) {
        define_source(&self.cluster).await;
    }

    async fn apply(&self, object: &Value) {
        apply(&self.cluster, object).await;
    }

    /// Declares a catalog in an image, in the first namespace.
    async fn image(&self, name: &str, image: &str) {
        self.declare(NAMESPACES[0], name, json!({ "image": image }))
            .await;
    }

    /// Waits until the catalogs of the first namespace offer these versions of the package `tide`: `name: 1.0.0 1.1.0`.
    async fn tide(&self, expected: &[&str]) {
        let offer = |line: &&str| {
            let (name, answer) = line.split_once(": ").unwrap();
            let is_version = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
            let full = |word: &str| {
                if is_version(word) {
                    format!("tide.v{word}")
                } else {
                    word.to_owned()
                }
            };
            let names: Vec<String> = answer.split(' ').map(full).collect();
            format!("{}/{name}: {}", NAMESPACES[0], names.join(" "))
        };
        let offers: Vec<String> = expected.iter().map(offer).collect();
        let offers: Vec<&str> = offers.iter().map(String::as_str).collect();
        self.offers_become("tide", &offers).await;
    }

    /// Waits until the error of a catalog in the first namespace contains this text.
    async fn fails_with(&self, name: &str, text: &str) {
        self.catalog_fails_with(&format!("{}/{name}", NAMESPACES[0]), &[text])
            .await;
    }

    /// Deletes catalogs of the first namespace, and waits until no catalog offers the package `tide`.
    async fn forget(&self, names: &[&str]) {
        let sources = self.sources(NAMESPACES[0]);
        for name in names {
            delete(&sources, name).await;
        }
        self.offers_become("tide", &[]).await;
    }

    /// Declares a catalog, or changes it.
    async fn declare(&self, namespace: &str, name: &str, spec: Value) {
        self.declare_with(namespace, name, spec, json!({})).await;
    }

    /// Declares a catalog with annotations, or changes it.
    async fn declare_with(&self, namespace: &str, name: &str, spec: Value, annotations: Value) {
        let mut source = catalog_source(namespace, name, &spec);
        source["spec"]["sourceType"] = "grpc".into();
        source["metadata"]["annotations"] = annotations;
        self.apply(&source).await;
    }

    fn client(&self) -> Client {
        self.cluster.client().unwrap()
    }

    /// Returns the API of a kind in a namespace.
    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), namespace)
    }

    fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        self.api(namespace)
    }

    /// Waits until a catalog of the first namespace matches.
    async fn becomes(
        &self,
        name: &str,
        description: &str,
        is_expected: impl Fn(&CatalogSource) -> bool,
    ) -> CatalogSource {
        let api = self.sources(NAMESPACES[0]);
        wait_for(api, name, description, |source| {
            is_expected(source).then_some(())
        })
        .await
    }

    /// Waits until the status of a catalog has this part: null is an absent field, `*` is any text, and a list contains the
    /// elements. A name without a namespace is one of the first namespace.
    async fn reports(&self, source: &str, part: Value) -> CatalogSourceStatus {
        let (namespace, name) = source.split_once('/').unwrap_or((NAMESPACES[0], source));
        let is_reported = |source: &CatalogSource| {
            let status = serde_json::to_value(&source.status).unwrap();
            is_part(&part, &status).then_some(())
        };
        let api = self.sources(namespace);
        let source = wait_for(api, name, &part.to_string(), is_reported).await;
        source.status.unwrap_or_default()
    }

    /// Creates an OLM whose Deployment reports this number of available pods.
    async fn olm(&self, available: i32) {
        let labels = json!({"app": "catalog-operator"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "catalog-operator", "namespace": "olm"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "catalog-operator", "image": "example.com/olm:v0.38.0"}]},
                },
            },
        });
        for object in [namespace_object("olm"), deployment] {
            self.apply(&object).await;
        }
        let status = json!({"status": {"replicas": 1, "availableReplicas": available, "readyReplicas": available}});
        let deployments = self.api::<Deployment>("olm");
        merge_status(&deployments, "catalog-operator", &status).await;
    }

    /// Returns the offers of a package, one line per catalog.
    fn offers(&self, package: &str) -> Vec<String> {
        offers_of(&self.ctx, package)
    }

    /// Waits until these are the offers of a package.
    async fn offers_become(&self, package: &str, expected: &[&str]) {
        let is_expected = |offers: &Vec<String>| {
            let mut pairs = offers.iter().zip(expected);
            offers.len() == expected.len()
                && pairs.all(|(offer, expected)| match expected.strip_suffix('…') {
                    Some(begin) => offer.starts_with(begin),
                    None => offer == expected,
                })
        };
        let offers = async || self.offers(package);
        until(&format!("{expected:?}"), offers, is_expected).await;
    }

    /// Waits until the error of a catalog contains these texts.
    async fn catalog_fails_with(&self, catalog: &str, texts: &[&str]) {
        eventually(&format!("{catalog} says {texts:?}"), async || {
            let states = self.ctx.catalogs.states();
            let state = states
                .iter()
                .find(|state| state.catalog.to_string() == catalog);
            let error = state
                .and_then(|state| state.trouble.clone())
                .unwrap_or_default();
            let says_all = texts.iter().all(|text| error.contains(text));
            says_all.then_some(()).ok_or(format!("{states:?}"))
        })
        .await;
    }

    /// Returns the value of a catalog's metric.
    fn metric(&self, namespace: &str, name: &str) -> Option<String> {
        let line =
            format!("rukpak_catalog_available{{namespace=\"{namespace}\",name=\"{name}\"}} ");
        metric(&self.ctx, &line)
    }
}

/// Returns the value of the metric with this name and these labels.
fn metric(ctx: &Context, begin: &str) -> Option<String> {
    let text = ctx.metrics.render();
    let found = text.lines().find_map(|line| line.strip_prefix(begin));
    found.map(str::to_owned)
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.stop.cancel();
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(parts), Value::Object(_)) => {
            parts.iter().all(|(name, part)| is_part(part, &whole[name]))
        }
        (Value::Array(parts), Value::Array(all)) => parts
            .iter()
            .all(|part| all.iter().any(|element| is_part(part, element))),
        (Value::String(pattern), Value::String(text)) => tests::table::matches(pattern, text),
        _ => part == whole,
    }
}

fn offers_of(ctx: &Context, package: &str) -> Vec<String> {
    let offers = ctx.catalogs.offers(package, None);
    let list = offers.list();
    list.iter()
        .map(|offer| {
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
        })
        .collect()
}

/// Writes a catalog.
fn write_documents(dir: &Path, documents: &[Value]) {
    let text: Vec<String> = documents.iter().map(Value::to_string).collect();
    std::fs::write(dir.join("catalog.json"), text.join("\n")).unwrap();
}

/// Returns the documents of a package `tide` in which each version replaces the one before.
fn tide(versions: &[&str]) -> Vec<Value> {
    let entries: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, version)| {
            let mut entry = json!({"name": format!("tide.v{version}")});
            if let Some(before) = at.checked_sub(1).and_then(|at| versions.get(at)) {
                entry["replaces"] = format!("tide.v{before}").into();
            }
            entry
        })
        .collect();
    let mut documents = vec![
        json!({"schema": "olm.package", "name": "tide", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "tide", "name": "stable", "entries": entries}),
    ];
    for version in versions {
        documents.push(json!({
            "schema": "olm.bundle", "package": "tide", "name": format!("tide.v{version}"),
            "image": format!("example.com/tide@sha256:{}", version.replace('.', "").repeat(30)
                .chars().take(64).collect::<String>().replace(|c: char| !c.is_ascii_hexdigit(), "0")),
            "properties": [
                {"type": "olm.package", "value": {"packageName": "tide", "version": version}},
                {"type": "olm.maxOpenShiftVersion", "value": "4.15"},
                {"type": "olm.csv.metadata", "value": {"minKubeVersion": "1.25.0", "displayName": "Tide"}},
            ],
        }));
    }
    documents
}
