//! A user whose only permissions are those on Bundles replaces the Bundles of an instance. None of the user's content is
//! installed.
//!
//! | moment at which a Bundle is replaced | test |
//! | --- | --- |
//! | before it is created: its name is taken | [`upgrades::foreign_content_is_never_applied_during_an_upgrade`] |
//! | created, and not recorded | [`restarts::restarts_install_no_foreign_bundle`] |
//! | recorded, and not unpacked | [`upgrades::foreign_content_is_never_applied_during_an_upgrade`] |
//! | unpacked, and not applied | [`upgrades::foreign_content_is_never_applied_during_an_upgrade`] |
//! | applied in part | [`upgrades::foreign_content_is_never_applied_during_an_upgrade`] |
//! | applied, and not healthy | [`health::unhealthy_and_rolled_back_bundles_are_not_replaced`] |
//! | applied and healthy | [`upgrades::foreign_content_is_never_applied_during_an_upgrade`] |
//! | before a rollback | [`records::a_rollback_does_not_lead_to_a_squatted_bundle`] |
//! | after a rollback | [`health::unhealthy_and_rolled_back_bundles_are_not_replaced`] |
//! | while the provisioner is down | [`restarts::restarts_install_no_foreign_bundle`] |
//! | not adopted yet, and the status cannot be written | [`restarts::restarts_install_no_foreign_bundle`] |
//! | all the time | [`upgrades::restless_squatter_gets_nothing_installed`] |

mod health;
mod records;
mod restarts;
mod upgrades;

use std::collections::BTreeSet;

use cluster::TempNamespace;

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Client, Config, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, PostParams, WatchEvent, WatchParams},
};
use manifests::api::{
    bundle::{BundleSpec, ConfigMapName, ConfigMapSource},
    bundle_instance::InstalledBundle,
};
use provisioner::controllers::bundle_instance::template;
use tokio::task::JoinHandle;

use super::*;

/// The value that only the squatter's content has.
const FOREIGN: &str = "foreign";
/// The number of attempts of the squatter to take a name.
const ATTEMPTS: usize = 5;

/// A user with all verbs on Bundles, and no other permission.
struct Squatter {
    bundles: Api<Bundle>,
    content: BundleSource,
}

/// Creates a user with all verbs on Bundles and no other permission, and returns the user's API.
pub(super) async fn squatter(world: &World, name: &str) -> Api<Bundle> {
    let user = format!("{name}-squatter");
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    let rules =
        json!([{"apiGroups": ["core.rukpak.io"], "resources": ["bundles"], "verbs": ["*"]}]);
    support::grant(world.cluster, &subject, None, &user, &rules).await;
    let mut config: Config = world.cluster.config().clone();
    config.auth_info.impersonate = Some(user);
    let bundles = Api::all(Client::try_from(config).unwrap());
    support::eventually("the squatter may list Bundles", async || {
        let listed = bundles.list(&ListParams::default().limit(1)).await;
        listed.map(drop).map_err(|error| error.to_string())
    })
    .await;
    bundles
}

impl Squatter {
    /// Creates the user, and the foreign content for a namespace.
    async fn new(world: &World, name: &str, namespace: &str) -> Self {
        let bundles = squatter(world, name).await;
        let objects = [
            map(namespace, "a", &[("v", FOREIGN)]),
            map(namespace, FOREIGN, &[]),
        ];
        let content = publish(world, &format!("{name}:foreign"), &objects).await;
        Self { bundles, content }
    }

    /// Replaces all Bundles of an instance, and waits until the foreign content is unpacked where possible.
    async fn replace_all(&self, world: &World, name: &str) {
        for bundle in bundles(world, name).await {
            self.replace(&bundle).await;
        }
        bundles_become(world, name, "without pending foreign content", |bundles| {
            let is_settled = |bundle: &Bundle| {
                let status = bundle.status.as_ref();
                bundle.spec.source != self.content
                    || status.is_some_and(|status| status.content_digest.is_some())
            };
            bundles.iter().all(is_settled)
        })
        .await;
    }

    /// Creates the Bundle that the provisioner is going to create, with foreign content.
    async fn take_name(&self, world: &World, name: &str, source: &BundleSource) -> Bundle {
        let mut instance = read(world, name).await;
        instance.spec.template.spec.source = source.clone();
        let hash = template::hash(&instance);
        let name = template::bundle_name(&instance, &hash);
        let copy = self.copy(&template::bundle(&instance, &hash, &name));
        let created = self.bundles.create(&PostParams::default(), &copy).await;
        created.unwrap()
    }

    /// Returns a Bundle with the same name, labels, annotations and ownerReferences, and foreign content.
    fn copy(&self, bundle: &Bundle) -> Bundle {
        Bundle {
            metadata: ObjectMeta {
                name: bundle.metadata.name.clone(),
                labels: bundle.metadata.labels.clone(),
                annotations: bundle.metadata.annotations.clone(),
                owner_references: bundle.metadata.owner_references.clone(),
                ..ObjectMeta::default()
            },
            spec: BundleSpec {
                provisioner_class_name: "core-rukpak-io-plain".to_owned(),
                source: self.content.clone(),
            },
            status: None,
        }
    }

    /// Deletes a Bundle and creates its foreign copy.
    async fn replace(&self, bundle: &Bundle) -> Option<Bundle> {
        let copy = self.copy(bundle);
        for _ in 0..ATTEMPTS {
            let name = bundle.name_any();
            let _ = self.bundles.delete(&name, &DeleteParams::default()).await;
            if let Ok(created) = self.bundles.create(&PostParams::default(), &copy).await {
                return Some(created);
            }
        }
        None
    }
}

/// Collects the names and values of all ConfigMaps that a watch of a namespace reports.
struct Observer {
    maps: Api<ConfigMap>,
    observed: JoinHandle<BTreeSet<String>>,
}

impl Observer {
    const LAST: &str = "last";

    async fn new(world: &World, namespace: &str) -> Self {
        let maps = maps(world, namespace);
        let listed = maps.list(&ListParams::default()).await.unwrap();
        let mut version = listed.metadata.resource_version.unwrap();
        let watched = maps.clone();
        let observed = tokio::spawn(async move {
            let mut observed = BTreeSet::new();
            loop {
                let params = WatchParams::default().timeout(290);
                let mut events = watched.watch(&params, &version).await.unwrap().boxed();
                while let Some(event) = events.try_next().await.unwrap() {
                    match event {
                        WatchEvent::Added(map)
                        | WatchEvent::Modified(map)
                        | WatchEvent::Deleted(map) => {
                            version = map.resource_version().unwrap();
                            let name = map.name_any();
                            if name == Self::LAST {
                                return observed;
                            }
                            let value = map.data.and_then(|data| data.get("v").cloned());
                            observed.extend(value.map(|value| format!("{name}={value}")));
                            observed.insert(name);
                        }
                        WatchEvent::Bookmark(bookmark) => {
                            version = bookmark.metadata.resource_version;
                        }
                        WatchEvent::Error(error) => panic!("{error}"),
                    }
                }
            }
        });
        Self { maps, observed }
    }

    /// Fails if the squatter's content was ever in the cluster. Returns `name` and `name=value` of all observed ConfigMaps.
    async fn finish(self) -> BTreeSet<String> {
        let last = json!({"metadata": {"name": Self::LAST}});
        let last = serde_json::from_value(last).unwrap();
        let params = PostParams::default();
        self.maps.create(&params, &last).await.unwrap();
        let observed = self.observed.await.unwrap();
        let foreign: Vec<_> = observed
            .iter()
            .filter(|object| object.contains(FOREIGN))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?} of {observed:?}");
        observed
    }
}

/// Installs objects in a new namespace, and starts a squatter and an observer.
async fn squatted(
    world: &World,
    prefix: &str,
    objects: impl FnOnce(&str) -> Vec<Value>,
) -> (String, TempNamespace, Squatter, Observer) {
    let (name, space) = fresh(world, prefix).await;
    install(world, &name, &objects(space.name())).await;
    let squatter = Squatter::new(world, &name, space.name()).await;
    let observer = Observer::new(world, space.name()).await;
    (name, space, squatter, observer)
}

/// Returns the ConfigMap `a` with a version.
fn a(namespace: &str, version: &str) -> Value {
    map(namespace, "a", &[("v", version)])
}

/// Returns only the ConfigMap `a`.
fn only_a(namespace: &str) -> Vec<Value> {
    vec![a(namespace, "1")]
}

/// Returns a Deployment whose pods run or fail, and a ConfigMap `a` with the version.
fn web(namespace: &str, version: &str, fate: &str) -> Vec<Value> {
    vec![
        deployment(namespace, "web", 1, version, fate),
        a(namespace, version),
    ]
}

/// Stores objects in a ConfigMap of the system namespace, and returns the ConfigMap as a source.
async fn store(world: &World, name: &str, objects: &[Value]) -> BundleSource {
    let data: BTreeMap<String, String> = objects
        .iter()
        .enumerate()
        .map(|(number, object)| (format!("{number}.yaml"), object.to_string()))
        .collect();
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {"name": name, "namespace": support::SYSTEM}, "data": data,
    });
    world.apply(&config_map).await;
    stored_in(name)
}

/// Returns the ConfigMap of that name as a source.
fn stored_in(name: &str) -> BundleSource {
    BundleSource {
        type_: "configMaps".to_owned(),
        config_maps: Some(vec![ConfigMapSource {
            config_map: ConfigMapName {
                name: name.to_owned(),
            },
            path: Some("manifests".to_owned()),
        }]),
        ..BundleSource::default()
    }
}

/// Deletes the ConfigMap that [`store`] has created.
async fn delete_stored(world: &World, name: &str) {
    support::delete(&maps(world, support::SYSTEM), name).await;
}

/// Waits until the Bundle that is recorded as installed exists with the recorded uid and the applied content.
async fn installed_is_recorded(world: &World, name: &str) -> InstalledBundle {
    support::eventually("the installed Bundle is the recorded one", async || {
        let status = read(world, name).await.status.unwrap();
        let recorded = status.installed.ok_or("nothing is recorded")?;
        let all = bundles(world, name).await;
        let mut created = status.bundles.iter();
        let is_created = created.any(|created| created.uid == recorded.uid);
        (is_created && all.iter().any(|bundle| recorded.is(bundle)))
            .then_some(recorded)
            .ok_or_else(|| format!("{all:?}"))
    })
    .await
}

/// Waits until no Bundle has this uid.
async fn is_deleted(world: &World, name: &str, bundle: &Bundle) {
    bundles_become(world, name, "without the Bundle", |left| {
        left.iter().all(|left| left.uid() != bundle.uid())
    })
    .await;
}

// parity: rukpak-11
#[tokio::test]
async fn a_squatted_bundle_is_reported_and_not_installed() {
    let (world, name, space) = start("squat").await;
    let objects = [a(space.name(), "1")];
    let source = store(world, &name, &objects).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let squatter = Squatter::new(world, &name, space.name()).await;
    let observer = Observer::new(world, space.name()).await;

    // The Bundle of the template cannot be unpacked again for now.
    delete_stored(world, &name).await;
    let installed = bundles(world, &name).await.remove(0);
    let foreign = squatter.replace(&installed).await.unwrap();
    assert_eq!(foreign.metadata.name, installed.metadata.name);
    let replaced = wait_reason(world, &name, "Installed", "InstalledBundleReplaced").await;
    assert_eq!(line(&replaced, "Installed"), "True InstalledBundleReplaced");
    let parts = [
        &format!("Bundle {} was replaced", installed.name_any()),
        "by another client",
        "nothing is applied or repaired from it",
        "delete Bundle",
        "bundles.core.rukpak.io",
    ];
    assert_message(&replaced, "Installed", &parts);
    world
        .wait_bundle(&foreign.name_any(), "Unpacked", "True")
        .await;
    support::delete(&maps(world, space.name()), "a").await;
    store(world, &name, &objects).await;
    has_value(world, space.name(), "a", "v", "1").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    is_deleted(world, &name, &foreign).await;

    observer.finish().await;
    delete(world, &name).await;
    delete_stored(world, &name).await;
}
