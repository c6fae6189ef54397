//! Catalogs: of images in a real registry, of real servers, of OLM's making, and those that come and go.

pub(crate) mod images;
mod refused;
pub(crate) mod served;

use std::{path::Path, sync::Arc};

use catalog::choose::Answer;
use cluster::{Cluster, Controllers, DryRun, Options};
use kube::Api;
use manifests::api::{catalog_source::CatalogSource, definitions, platform::CatalogRef};
use provisioner::{catalogs, context::Context, process, settings::Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use unpacker::{
    Access, Store,
    access::{Trust, Verify},
    store::Budget,
};

use crate::support::eventually;

/// Where catalogs are taken from, the first namespace first.
const NAMESPACES: [&str; 2] = ["catalogs", "more-catalogs"];

/// A cluster, and the catalogs of it that are followed.
struct Shelf {
    cluster: Cluster,
    ctx: Context,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    _store: TempDir,
}

impl Shelf {
    /// A cluster with the definition of CatalogSources.
    async fn new() -> Self {
        let this = Self::bare().await;
        this.define().await;
        this
    }

    /// One without.
    async fn bare() -> Self {
        Self::of(None).await
    }

    /// One where the provisioner is this user, with what rights it has.
    async fn of(user: Option<&str>) -> Self {
        let options = Options {
            controllers: Controllers::Off,
            ..Options::default()
        };
        let cluster = Cluster::start_with(&options).await.unwrap();
        for namespace in NAMESPACES.into_iter().chain(["elsewhere"]) {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            cluster.apply(&namespace, DryRun::No).await.unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let budget = Budget {
            disk: 1 << 30,
            memory: 1 << 20,
        };
        let store = Store::open(folder.path(), budget).unwrap();
        let settings = Settings {
            catalog_namespaces: NAMESPACES.map(str::to_owned).to_vec(),
            access: Access {
                trust: Trust {
                    verify: Verify::Never,
                    ..Trust::default()
                },
                ..Access::default()
            },
            follow_openshift: false,
            ..Settings::default()
        };
        let mut config = cluster.config().clone();
        config.auth_info.impersonate = user.map(str::to_owned);
        let (ctx, _) = process::context(config, settings, store).unwrap();
        let stop = CancellationToken::new();
        let kinds = {
            let (kinds, stop) = (Arc::clone(&ctx.kinds), stop.clone());
            tokio::spawn(async move { kinds.run(stop).await })
        };
        let catalogs = tokio::spawn(catalogs::run(ctx.clone(), stop.clone()));
        Self {
            cluster,
            ctx,
            stop,
            tasks: vec![kinds, catalogs],
            _store: folder,
        }
    }

    async fn define(&self) {
        let definition = definitions::foreign()
            .into_iter()
            .find(|it| it.spec.names.kind == "CatalogSource")
            .unwrap();
        let definition = serde_json::to_value(definition).unwrap();
        self.cluster.apply(&definition, DryRun::No).await.unwrap();
        self.cluster
            .wait_established("catalogsources.operators.coreos.com")
            .await
            .unwrap();
    }

    /// Declares a catalog, or changes it.
    async fn declare(&self, namespace: &str, name: &str, spec: Value) {
        let mut spec = spec;
        spec["sourceType"] = "grpc".into();
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        });
        self.cluster.apply(&source, DryRun::No).await.unwrap();
    }

    fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        Api::namespaced(self.cluster.client().unwrap(), namespace)
    }

    /// What is offered of a package, a line a catalog.
    fn offers(&self, package: &str) -> Vec<String> {
        let offers = self.ctx.catalogs.offers(package, None);
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

    /// Waits until this is what is offered of the package.
    async fn offers_become(&self, package: &str, expected: &[&str]) {
        eventually(&format!("{expected:?}"), async || {
            let offers = self.offers(package);
            let is_as_expected = offers.len() == expected.len()
                && offers.iter().zip(expected).all(|(offer, expected)| {
                    match expected.strip_suffix('…') {
                        Some(begin) => offer.starts_with(begin),
                        None => offer == expected,
                    }
                });
            is_as_expected.then_some(()).ok_or(format!("{offers:?}"))
        })
        .await;
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
        let text = self.ctx.metrics.render();
        let found = text.lines().find_map(|it| it.strip_prefix(&line));
        found.map(str::to_owned)
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.stop.cancel();
        for task in &self.tasks {
            task.abort();
        }
    }
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

#[tokio::test]
async fn catalogs_are_waited_for_until_their_definition_is_there() {
    let shelf = Shelf::bare().await;
    // Whoever asks before is not told that there are none for ever.
    eventually("there are none", async || {
        let listed = shelf.ctx.catalogs.are_listed();
        listed.then_some(()).ok_or("not listed".to_owned())
    })
    .await;
    assert!(shelf.offers("tide").is_empty());
    shelf.define().await;
    let spec = json!({"address": "127.0.0.1:1"});
    shelf.declare("catalogs", "mine", spec).await;
    shelf
        .offers_become("tide", &["catalogs/mine: unknown: …"])
        .await;
}

#[tokio::test]
async fn catalogs_of_other_namespaces_count_for_nothing() {
    let shelf = Shelf::new().await;
    let spec = json!({"address": "127.0.0.1:1"});
    for namespace in ["elsewhere", "more-catalogs", "catalogs"] {
        shelf.declare(namespace, "mine", spec.clone()).await;
    }
    shelf
        .offers_become(
            "tide",
            &[
                "catalogs/mine: unknown: …",
                "more-catalogs/mine: unknown: …",
            ],
        )
        .await;
    let named = CatalogRef {
        name: "mine".to_owned(),
        namespace: None,
    };
    let offers = shelf.ctx.catalogs.offers("tide", Some(&named));
    let names: Vec<&str> = offers.list().iter().map(|it| it.catalog).collect();
    assert_eq!(names, ["catalogs/mine"]);
    let foreign = CatalogRef {
        namespace: Some("elsewhere".to_owned()),
        ..named
    };
    let offers = shelf.ctx.catalogs.offers("tide", Some(&foreign));
    assert!(offers.list().is_empty());
}
