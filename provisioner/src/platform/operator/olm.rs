//! What an OLM manages: its Subscriptions and ClusterServiceVersions, where there are any.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, ResourceExt,
    core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher, watcher::Event},
};
use serde_json::Value;
use tokio::sync::watch;
use tracing::warn;

use crate::platform::{conflict::Managed, gate::Operator};
use apply::{backoff::Pauses, discovery::Kinds};

const GROUP: &str = "operators.coreos.com";
const VERSION: &str = "v1alpha1";
/// The kinds that name a package, one in its spec and one in the properties that OLM writes.
const KINDS: [&str; 2] = ["Subscription", CSV];
const CSV: &str = "ClusterServiceVersion";
/// How many are listed at once. Their annotations hold examples of all that they define.
const PAGE: u32 = 50;

/// Which package an object manages, by its kind and its name.
type Packages = BTreeMap<(&'static str, String), String>;

/// What is known of it.
#[derive(Debug)]
pub(super) struct Olm {
    managed: Mutex<Packages>,
    changes: watch::Sender<u64>,
    /// Of which kinds it is not known yet what there is, and why not, if that is known.
    unlisted: Mutex<BTreeMap<&'static str, Option<String>>>,
}

impl Default for Olm {
    fn default() -> Self {
        Self {
            managed: Mutex::default(),
            changes: watch::Sender::default(),
            unlisted: Mutex::new(KINDS.map(|kind| (kind, None)).into()),
        }
    }
}

impl Olm {
    /// Which packages are managed, and by what.
    pub(super) fn managed(&self) -> Vec<Managed> {
        let managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        managed
            .iter()
            .map(|((kind, name), package)| Managed {
                package: package.clone(),
                by: format!("{kind} {name}"),
            })
            .collect()
    }

    /// Counts the changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Why it is not known which packages are managed, as long as that is so.
    pub(super) fn unknown(&self) -> Option<String> {
        let (kind, why) = {
            let unlisted = self.unlisted();
            let (kind, why) = unlisted.first_key_value()?;
            (*kind, why.clone())
        };
        Some(match why {
            Some(why) => format!("its {kind}s cannot be listed: {why}"),
            None => format!("its {kind}s have not been listed yet"),
        })
    }

    /// Follows both kinds, whenever they are served.
    pub(super) async fn follow(&self, client: &Client, kinds: &Kinds) {
        stream::iter(KINDS)
            .for_each_concurrent(None, |kind| self.follow_kind(client, kinds, kind))
            .await;
    }

    async fn follow_kind(&self, client: &Client, kinds: &Kinds, kind: &'static str) {
        let wanted = GroupVersionKind::gvk(GROUP, VERSION, kind);
        kinds
            .while_served(&wanted, |served| async move {
                match served {
                    Some(served) => self.watch(client, &served.resource, kind).await,
                    None => self.list(kind, Packages::new()),
                }
            })
            .await;
    }

    async fn watch(&self, client: &Client, resource: &ApiResource, kind: &'static str) {
        let config = watcher::Config::default().page_size(PAGE);
        if kind == CSV {
            // They are large, copied into each namespace, and say in their metadata what counts.
            let api: Api<PartialObjectMeta<DynamicObject>> =
                Api::all_with(client.clone(), resource);
            let events = watcher(api, config.labels("!olm.copiedFrom"));
            self.learn(kind, events, |csv| of_csv(&csv.metadata)).await;
        } else {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
            self.learn(kind, watcher(api, config), of_subscription)
                .await;
        }
    }

    async fn learn<K: ResourceExt + Send>(
        &self,
        kind: &'static str,
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
        package: impl Fn(&K) -> Option<String> + Send,
    ) {
        let mut events = pin!(events.backoff(Pauses::default()));
        let mut seen = Packages::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(package) = package(&object) {
                        seen.insert((kind, name(&object)), package);
                    }
                }
                Ok(Event::InitDone) => self.list(kind, std::mem::take(&mut seen)),
                Ok(Event::Apply(object)) => self.set(kind, name(&object), package(&object)),
                Ok(Event::Delete(object)) => self.set(kind, name(&object), None),
                Err(error) => {
                    warn!(kind, %error, "a watch of OLM's objects failed; it is taken up again");
                    self.cannot(kind, unpacker::job::chain(&error));
                }
            }
        }
    }

    /// A kind cannot be listed. What is known already counts as long as that is so.
    fn cannot(&self, kind: &'static str, error: String) {
        let differs = match self.unlisted().get_mut(kind) {
            Some(why) if why.as_ref() != Some(&error) => {
                *why = Some(error);
                true
            }
            _ => false,
        };
        self.changed(differs);
    }

    /// This is all there is of a kind.
    fn list(&self, kind: &'static str, seen: Packages) {
        {
            let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
            let before = managed.iter().filter(|((of, _), _)| *of == kind);
            let differs = !before.eq(&seen);
            managed.retain(|(of, _), _| *of != kind);
            managed.extend(seen);
            let is_first = self.unlisted().remove(kind).is_some();
            self.changed(differs || is_first);
        }
    }

    fn unlisted(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object manages this package now, or none.
    fn set(&self, kind: &'static str, name: String, package: Option<String>) {
        let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name);
        let differs = managed.get(&key) != package.as_ref();
        match package {
            Some(package) => drop(managed.insert(key, package)),
            None => drop(managed.remove(&key)),
        }
        self.changed(differs);
    }

    fn changed(&self, differs: bool) {
        if differs {
            self.changes.send_modify(|it| *it = it.wrapping_add(1));
        }
    }
}

fn name(object: &impl ResourceExt) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}", object.name_any())
}

fn of_subscription(subscription: &DynamicObject) -> Option<String> {
    let name = subscription.data.pointer("/spec/name")?;
    Some(name.as_str()?.to_owned())
}

/// The package of a ClusterServiceVersion; a copy in another namespace manages none.
fn of_csv(metadata: &ObjectMeta) -> Option<String> {
    Operator::of_csv(metadata, None)?;
    let annotations = metadata.annotations.as_ref()?;
    let properties = annotations.get("operatorframework.io/properties")?;
    let properties: Value = serde_json::from_str(properties).ok()?;
    let properties = properties.get("properties")?.as_array()?;
    let package = properties
        .iter()
        .find(|it| it.get("type").is_some_and(|it| it == "olm.package"))?;
    Some(package.pointer("/value/packageName")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests;
