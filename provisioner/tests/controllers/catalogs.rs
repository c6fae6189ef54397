//! Catalogs: of images in a real registry, of real servers, of OLM's making, and those that come and go.

mod config_maps;
pub(crate) mod denied;
pub(crate) mod images;
mod pods;
mod refused;
mod rival;
pub(crate) mod served;
mod serving;
mod status;
mod templates;
mod unread;

use std::{path::Path, sync::Arc};

use catalog::choose::Answer;
use cluster::{Cluster, Lease};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, Config, Resource,
    api::{DeleteParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use manifests::api::{
    catalog_source::{CatalogSource, CatalogSourceStatus},
    definitions,
    platform::CatalogRef,
};
use provisioner::{
    catalogs,
    context::Context,
    process,
    settings::{Namespaces, Ports, Serving, Settings, Share},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use unpacker::{Store, store::Budget};

pub(crate) use crate::support::{apply, delete, merge, merge_status, until};
use crate::support::{
    catalog_source, define, eventually, found, gone, insecure, list, namespace_object, notes_about,
    wait_for, without_controllers,
};

/// Where catalogs are taken from, the first namespace first.
const NAMESPACES: [&str; 2] = ["catalogs", "more-catalogs"];

/// A cluster, and the catalogs of it that are followed.
struct Shelf {
    cluster: Lease,
    ctx: Context,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    _store: TempDir,
}

/// Defines CatalogSources.
async fn define_source(cluster: &Cluster) {
    let mut all = definitions::foreign().into_iter();
    let definition = all.find(|it| it.spec.names.kind == "CatalogSource");
    define(cluster, &serde_json::to_value(definition.unwrap()).unwrap()).await;
}

/// Access to registries without TLS and without accounts.
fn settings() -> Settings {
    Settings {
        access: insecure(),
        follow_openshift: false,
        ..Settings::default()
    }
}

/// Everything outside, for a provisioner that is this user, with a store in this folder.
fn context(mut config: Config, folder: &Path, user: Option<&str>, settings: Settings) -> Context {
    let budget = Budget {
        disk: 1 << 30,
        memory: 1 << 20,
    };
    let store = Store::open(folder, budget).unwrap();
    config.auth_info.impersonate = user.map(str::to_owned);
    process::context(config, settings, store).unwrap().0
}

/// Follows catalogs until the token ends that.
fn run(ctx: &Context, stop: &CancellationToken) -> Vec<JoinHandle<()>> {
    let (kinds, until) = (Arc::clone(&ctx.kinds), stop.clone());
    let kinds = tokio::spawn(async move { kinds.run(until).await });
    let catalogs = tokio::spawn(catalogs::run(ctx.clone(), stop.clone()));
    vec![kinds, catalogs]
}

impl Shelf {
    /// A cluster with the definition of CatalogSources.
    async fn new() -> Self {
        Self::defined(settings()).await
    }

    /// One without.
    async fn bare() -> Self {
        Self::of(None).await
    }

    /// One where the provisioner is this user, with what rights it has.
    async fn of(user: Option<&str>) -> Self {
        Self::with(user, settings()).await
    }

    /// One where catalogs are served, too.
    async fn serving() -> Self {
        let serving = Serving {
            address: [192, 0, 2, 1].into(), // nobody's
            ports: Ports::Any,
            namespaces: Namespaces::All,
            pods: false,
            share: Share::default(),
        };
        Self::defined(Settings {
            serving: Some(serving),
            ..settings()
        })
        .await
    }

    /// One with the definition and these settings.
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
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            catalog_namespaces: NAMESPACES.map(str::to_owned).to_vec(),
            ..settings
        };
        let ctx = context(cluster.config().clone(), folder.path(), user, settings);
        let stop = CancellationToken::new();
        Self {
            cluster,
            tasks: run(&ctx, &stop),
            ctx,
            stop,
            _store: folder,
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

    /// Waits until this is offered of the package `tide`: `name: 1.0.0 1.1.0`, in the first namespace.
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
            let words: Vec<String> = answer.split(' ').map(full).collect();
            format!("{}/{name}: {}", NAMESPACES[0], words.join(" "))
        };
        let offers: Vec<String> = expected.iter().map(offer).collect();
        let offers: Vec<&str> = offers.iter().map(String::as_str).collect();
        self.offers_become("tide", &offers).await;
    }

    /// Waits until it is said why a catalog of the first namespace cannot be read.
    async fn trouble(&self, name: &str, words: &str) {
        self.is_in_trouble(&format!("{}/{name}", NAMESPACES[0]), &[words])
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

    /// The same, with annotations.
    async fn declare_with(&self, namespace: &str, name: &str, spec: Value, annotations: Value) {
        let mut source = catalog_source(namespace, name, &spec);
        source["spec"]["sourceType"] = "grpc".into();
        source["metadata"]["annotations"] = annotations;
        self.apply(&source).await;
    }

    fn client(&self) -> Client {
        self.cluster.client().unwrap()
    }

    /// The objects of a kind in a namespace.
    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), namespace)
    }

    fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        self.api(namespace)
    }

    /// Waits until a catalog of the first namespace is as wanted.
    async fn becomes(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&CatalogSource) -> bool,
    ) -> CatalogSource {
        let api = self.sources(NAMESPACES[0]);
        wait_for(api, name, what, |it| wanted(it).then_some(())).await
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

    /// An OLM that runs, as far as its Deployment tells, or one that has no pods.
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

    /// What is offered of a package, a line a catalog.
    fn offers(&self, package: &str) -> Vec<String> {
        offers_of(&self.ctx, package)
    }

    /// Waits until this is what is offered of the package.
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

    /// Waits until it is said of a catalog why it cannot be read.
    async fn is_in_trouble(&self, catalog: &str, words: &[&str]) {
        eventually(&format!("{catalog} says {words:?}"), async || {
            let states = self.ctx.catalogs.states();
            let state = states.iter().find(|it| it.catalog.to_string() == catalog);
            let trouble = state
                .and_then(|state| state.trouble.clone())
                .unwrap_or_default();
            let says_all = words.iter().all(|word| trouble.contains(word));
            says_all.then_some(()).ok_or(format!("{states:?}"))
        })
        .await;
    }

    /// The line of a catalog's metric.
    fn metric(&self, namespace: &str, name: &str) -> Option<String> {
        let line =
            format!("rukpak_catalog_available{{namespace=\"{namespace}\",name=\"{name}\"}} ");
        metric(&self.ctx, &line)
    }
}

/// The value of the metric with this name and these labels.
fn metric(ctx: &Context, begin: &str) -> Option<String> {
    let text = ctx.metrics.render();
    let found = text.lines().find_map(|it| it.strip_prefix(begin));
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
                Answer::Package(package) => {
                    let names: Vec<&str> = package.bundles.keys().map(String::as_str).collect();
                    names.join(" ")
                }
                Answer::Absent => "absent".to_owned(),
                Answer::Unknown(why) => format!("unknown: {why}"),
                Answer::Pending => "pending".to_owned(),
            };
            format!("{}: {answer}", offer.catalog)
        })
        .collect()
}

/// Writes a catalog.
fn write_documents(folder: &Path, documents: &[Value]) {
    let text: Vec<String> = documents.iter().map(Value::to_string).collect();
    std::fs::write(folder.join("catalog.json"), text.join("\n")).unwrap();
}

/// A package `tide` that has these versions, one after the other.
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
