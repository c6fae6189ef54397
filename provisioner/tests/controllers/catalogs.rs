//! Catalogs: of images in a real registry, of real servers, of OLM's making, and those that come and go.
//!
//! The acceptance list of CatalogSources (E.4). What it asks of pods holds for catalogs that have one.
//!
//! | row | tried by |
//! | --- | --- |
//! | 66 what is invalid, and what comes of it | `what_is_wrong_is_told_and_put_right_and_others_conditions_stay`, `what_says_no_place_or_several_is_refused_in_words`, `a_status_tells_what_is` |
//! | 67 ConfigMaps that are missing, change, or are replaced | `a_config_map_is_read_served_and_followed` |
//! | 68 what is around a pod, and names with dots | `the_objects_around_the_pod_are_olms`, `names_that_no_service_can_have_are_refused` |
//! | 69 addresses, also beside an image | `the_status_of_an_address_tells_whether_somebody_answers_there`, `either_form_says_where_a_catalog_is` |
//! | 70 what was deleted or changed is repaired | `a_catalog_gets_a_pod_and_what_belongs_to_it_and_both_are_repaired`, `secrets_follow_the_catalog_and_those_of_others_stay` |
//! | 71 another hash, another image, a dead pod | `pods_are_made_kept_replaced_and_removed`, `another_pod_has_another_hash_and_the_same_one_has_the_same` |
//! | 72 pull secrets | `what_changes_is_followed_without_a_gap`, `the_objects_around_the_pod_are_olms` |
//! | 73 annotations | `an_image_that_serves_by_itself_has_the_pod_that_olm_makes`, `the_annotation_of_the_priority_counts_before_the_option` |
//! | 74 options of pods | `options_replace_what_is_usual`, `memory_is_told_to_go_in_the_units_that_it_knows` |
//! | 75 `extractContent`: our program reads in place, and nothing is copied | `our_program_serves_among_the_files_of_the_image` |
//! | 76 who decides about security | `the_namespace_decides_about_security_unless_the_catalog_does`, `pods_fit_into_restricted_namespaces_and_what_does_not_is_told` |
//! | 77 when it is looked again | `it_is_looked_again_when_the_interval_is_over_and_each_quarter_of_an_hour` |
//! | 78 intervals that are none | `intervals_are_read_as_go_reads_them`, `what_is_wrong_is_told_and_put_right_and_others_conditions_stay` |
//! | 79 update pods | `pods_are_made_kept_replaced_and_removed`, `a_pod_is_followed_and_a_tag_that_has_moved_is_noticed` |
//! | 80 what a pod says of its image | `pods_are_read_whatever_they_tell` |
//! | 81 `updateStrategy: {}` | `what_makes_no_sense_is_told_and_replaced`, `a_catalog_source_says_in_one_way_where_the_catalog_is` |
//! | 82 another address, another leader, a catalog that is broken | `the_status_of_an_address_tells_whether_somebody_answers_there`, `another_leader_takes_over_and_other_namespaces_are_only_served`, `what_comes_first_and_is_not_read_yet_is_not_overruled` |
//! | 83 a catalog that is deleted | `a_catalog_that_is_gone_hands_nothing_to_another_one`, `catalogs_come_in_any_order_and_nothing_worse_is_chosen_while_one_is_away` |
//! | 84 which catalog comes first | `catalogs_are_asked_by_priority_then_name_in_whatever_order_they_come`, `a_catalog_without_a_namespace_is_looked_for_in_the_order_of_the_namespaces` |
//! | 85 the truth table, and conversion | `a_catalog_source_says_in_one_way_where_the_catalog_is`, `what_was_stored_before_can_still_be_written`, `catalog_sources_are_there_in_both_versions_and_stored_in_the_old_one`, `what_is_stored_is_the_same_after_v1`, `either_form_becomes_the_other_and_is_the_same_again` |
//! | 86 templates | `a_template_in_the_image_becomes_one_or_is_told`, `annotations_have_the_words_that_olm_shipped`, `as_a_cluster_admin_i_upgrade_my_cluster_and_its_catalogs_are_upgraded`, `as_a_catalog_creator_i_provide_catalogs_for_each_release_of_openshift`, `conditions_of_others_stay_where_they_are` |

mod broken;
mod config_maps;
mod denied;
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
use cluster::{Cluster, Controllers, DryRun, Options};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use manifests::api::{catalog_source::CatalogSource, definitions, platform::CatalogRef};
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
use unpacker::{
    Access, Store,
    access::{Trust, Verify},
    store::Budget,
};

use crate::support::{eventually, wait_for};

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

/// Everything outside, for a provisioner that is this user and follows the catalogs of these namespaces.
fn context(
    cluster: &Cluster,
    folder: &Path,
    namespaces: &[&str],
    user: Option<&str>,
    serving: Option<Serving>,
) -> Context {
    let budget = Budget {
        disk: 1 << 30,
        memory: 1 << 20,
    };
    let store = Store::open(folder, budget).unwrap();
    let settings = Settings {
        catalog_namespaces: namespaces.iter().map(|&it| it.to_owned()).collect(),
        access: Access {
            trust: Trust {
                verify: Verify::Never,
                ..Trust::default()
            },
            ..Access::default()
        },
        follow_openshift: false,
        serving,
        ..Settings::default()
    };
    let mut config = cluster.config().clone();
    config.auth_info.impersonate = user.map(str::to_owned);
    let (ctx, _) = process::context(config, settings, store).unwrap();
    ctx
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
        Self::with(user, None).await
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
        let this = Self::with(None, Some(serving)).await;
        this.define().await;
        this
    }

    async fn with(user: Option<&str>, serving: Option<Serving>) -> Self {
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
        let ctx = context(&cluster, folder.path(), &NAMESPACES, user, serving);
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
        self.declare_with(namespace, name, spec, json!({})).await;
    }

    /// The same, with annotations.
    async fn declare_with(&self, namespace: &str, name: &str, spec: Value, annotations: Value) {
        let mut spec = spec;
        spec["sourceType"] = "grpc".into();
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": spec,
        });
        self.cluster.apply(&source, DryRun::No).await.unwrap();
    }

    fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        Api::namespaced(self.cluster.client().unwrap(), namespace)
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

    /// An OLM that runs, as far as its Deployment tells, or one that has no pods.
    async fn olm(&self, available: i32) {
        let client = self.cluster.client().unwrap();
        let labels = json!({"app": "catalog-operator"});
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olm"}});
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
        for object in [namespace, deployment] {
            self.cluster.apply(&object, DryRun::No).await.unwrap();
        }
        let status = json!({"status": {"replicas": 1, "availableReplicas": available, "readyReplicas": available}});
        let deployments: Api<Deployment> = Api::namespaced(client, "olm");
        deployments
            .patch_status(
                "catalog-operator",
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await
            .unwrap();
    }

    /// What is offered of a package, a line a catalog.
    fn offers(&self, package: &str) -> Vec<String> {
        offers_of(&self.ctx, package)
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
