//! A user whose only permissions are those on Bundles replaces the Bundles of an instance, at each moment from before their
//! creation to after a rollback, and during downtime. None of the user's content is installed.

mod records;
mod restarts;
mod upgrades;

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{Client, Config, runtime::watcher};
use manifests::api::bundle_instance::{Cause, InstalledBundle};
use tokio::task::JoinHandle;

use super::*;

/// The value that only the squatter's content has.
const FOREIGN: &str = "foreign";

/// A user with all verbs on Bundles, and no other permission.
struct Squatter<'w> {
    world: &'w World,
    /// The instance whose Bundles are replaced.
    name: String,
    bundles: Api<Bundle>,
    content: BundleSource,
}

fn is_unpacked(bundle: &Bundle) -> bool {
    let status = bundle.status.as_ref();
    status.is_some_and(|status| status.content_digest.is_some())
}

impl<'w> Squatter<'w> {
    /// Creates the user, and the foreign content for a namespace.
    async fn new(world: &'w World, name: &str, namespace: &str) -> Self {
        let user = format!("{name}-squatter");
        let rules =
            json!([{"apiGroups": ["core.rukpak.io"], "resources": ["bundles"], "verbs": ["*"]}]);
        support::grant(world.cluster, &support::user(&user), None, &user, &rules).await;
        let mut config: Config = world.cluster.config().clone();
        config.auth_info.impersonate = Some(user);
        let bundles: Api<Bundle> = Api::all(Client::try_from(config).unwrap());
        let objects = [a(namespace, FOREIGN), map(namespace, FOREIGN, &[])];
        Self {
            world,
            name: name.to_owned(),
            bundles,
            content: publish(world, &format!("{name}:foreign"), &objects).await,
        }
    }

    async fn replace_all(&self) {
        for bundle in bundles(self.world, &self.name).await {
            self.replace(&bundle).await;
        }
        self.is_unpacked().await;
    }

    async fn replace_recorded(&self, recorded: &InstalledBundle) -> Bundle {
        let all = bundles(self.world, &self.name).await;
        let bundle = all.iter().find(|bundle| recorded.is(bundle)).unwrap();
        let foreign = self.replace(bundle).await.unwrap();
        self.is_unpacked().await;
        foreign
    }

    /// Waits until the foreign Bundles are unpacked. The provisioner may delete them before.
    async fn is_unpacked(&self) {
        let is_foreign = |bundle: &&Bundle| bundle.spec.source == self.content;
        let are_unpacked = |all: &Vec<Bundle>| all.iter().filter(is_foreign).all(is_unpacked);
        bundles_become(self.world, &self.name, "unpacked", are_unpacked).await;
    }

    /// Creates the Bundle that the provisioner is going to create, with foreign content.
    async fn take_name(&self, source: &BundleSource) -> Bundle {
        let mut instance = read(self.world, &self.name).await;
        instance.spec.template.spec.source = source.clone();
        let hash = template::hash(&instance);
        let name = template::bundle_name(&instance, &hash);
        let copy = self.copy(&template::bundle(&instance, &hash, &name));
        let created = self.bundles.create(&PostParams::default(), &copy).await;
        created.unwrap()
    }

    /// Returns a Bundle with the same name, labels, annotations and ownerReferences, and foreign content.
    fn copy(&self, bundle: &Bundle) -> Bundle {
        let copy = support::bundle(&bundle.name_any(), "plain", self.content.clone());
        let metadata = bundle.metadata.clone();
        tests::with!(copy => metadata.labels: metadata.labels, metadata.annotations: metadata.annotations,
            metadata.owner_references: metadata.owner_references)
    }

    /// Deletes a Bundle and creates its foreign copy.
    async fn replace(&self, bundle: &Bundle) -> Option<Bundle> {
        let (name, copy) = (bundle.name_any(), self.copy(bundle));
        for _attempt in 0..5 {
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
        let mut events = watcher(maps.clone(), watcher::Config::default()).boxed();
        // The watch begins at the end of the list.
        let is_end = |event: &watcher::Event<ConfigMap>| matches!(event, watcher::Event::InitDone);
        while !is_end(&events.try_next().await.unwrap().unwrap()) {}
        let observed = tokio::spawn(async move {
            let mut observed = BTreeSet::new();
            while let Some(event) = events.try_next().await.unwrap() {
                let (watcher::Event::Apply(map) | watcher::Event::Delete(map)) = event else {
                    panic!("{event:?}");
                };
                let name = map.name_any();
                if name == Self::LAST {
                    break;
                }
                let value = map.data.and_then(|data| data.get("v").cloned());
                observed.extend(value.map(|value| format!("{name}={value}")));
                observed.insert(name);
            }
            observed
        });
        Self { maps, observed }
    }

    /// Fails if the squatter's content was ever in the cluster, or one of these `name=value` was not.
    async fn finish(self, expected: &[&str]) {
        let last = tests::with!(ConfigMap::default() => metadata.name: Some(Self::LAST.to_owned()));
        let params = PostParams::default();
        self.maps.create(&params, &last).await.unwrap();
        let observed = self.observed.await.unwrap();
        tests::assert_rows!(observed.iter().any(|object| object.contains(FOREIGN)) => false, "{observed:?}");
        for map in expected {
            assert!(observed.contains(*map), "{map} of {observed:?}");
        }
    }
}

/// Installs objects in a new namespace, and starts a squatter and an observer.
async fn squatted<'w>(
    world: &'w World,
    prefix: &str,
    objects: impl FnOnce(&str) -> Vec<Value>,
) -> (String, TempNamespace, Squatter<'w>, Observer) {
    let (name, space) = fresh(world, prefix).await;
    install(world, &name, &objects(space.name())).await;
    let squatter = Squatter::new(world, &name, space.name()).await;
    let observer = Observer::new(world, space.name()).await;
    (name, space, squatter, observer)
}

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

async fn store(world: &World, name: &str, objects: &[Value]) {
    let file = |(number, object): (usize, &Value)| (format!("{number}.yaml"), object.to_string());
    let data: BTreeMap<String, String> = objects.iter().enumerate().map(file).collect();
    let mut config_map = map(support::SYSTEM, name, &[]);
    config_map["immutable"] = json!(true);
    config_map["data"] = json!(data);
    world.apply(&config_map).await;
}

fn stored_in(name: &str) -> BundleSource {
    let sources = json!([{"configMap": {"name": name}, "path": "manifests"}]);
    serde_json::from_value(json!({"type": "configMaps", "configMaps": sources})).unwrap()
}

async fn delete_stored(world: &World, name: &str) {
    support::delete(&maps(world, support::SYSTEM), name).await;
}

/// Waits until the Bundle that is recorded as installed exists with the recorded uid and the applied content.
async fn installed_is_recorded(world: &World, name: &str) -> InstalledBundle {
    eventually("the installed Bundle is the recorded one", async || {
        let status = read(world, name).await.status.unwrap();
        let recorded = status.installed.ok_or("nothing is recorded")?;
        let all = bundles(world, name).await;
        let is_created = status
            .bundles
            .iter()
            .any(|created| created.uid == recorded.uid);
        let exists = all.iter().any(|bundle| recorded.is(bundle));
        let found = (is_created && exists).then_some(recorded);
        found.ok_or_else(|| format!("{all:?}"))
    })
    .await
}

/// Waits until a version is applied and its Bundle is recorded, and returns the record.
async fn is_installed(world: &World, name: &str, space: &str, version: &str) -> InstalledBundle {
    has_value(world, space, "a", "v", version).await;
    wait_reason(world, name, "Installed", "InstallationSucceeded").await;
    installed_is_recorded(world, name).await
}

async fn is_deleted(world: &World, name: &str, bundle: &Bundle) {
    let is_deleted = |left: &Vec<Bundle>| left.iter().all(|left| left.uid() != bundle.uid());
    bundles_become(world, name, "without the Bundle", is_deleted).await;
}
