//! What an OLM manages: its Subscriptions and ClusterServiceVersions, where there are any.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use futures::{StreamExt as _, stream};
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{WatchStreamExt as _, watcher, watcher::Event},
};
use serde_json::Value;
use tokio::sync::watch;
use tracing::warn;

use crate::{
    kinds::Kinds,
    platform::{conflict::Managed, gate::Operator},
    watches::Pauses,
};

const GROUP: &str = "operators.coreos.com";
const VERSION: &str = "v1alpha1";
/// The kinds that name a package, one in its spec and one in the properties that OLM writes.
const KINDS: [&str; 2] = ["Subscription", "ClusterServiceVersion"];

/// Which package an object manages, by its kind and its name.
type Packages = BTreeMap<(&'static str, String), String>;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Olm {
    managed: Mutex<Packages>,
    changes: watch::Sender<u64>,
    /// The kinds of which it is known what there is.
    listed: watch::Sender<BTreeSet<&'static str>>,
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

    /// Waits until it is known what there is of both kinds.
    pub(super) async fn is_listed(&self) {
        let mut listed = self.listed.subscribe();
        // The sender is this one's own.
        let _ = listed.wait_for(|it| it.len() == KINDS.len()).await;
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
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        let mut events = watcher(api, watcher::Config::default())
            .backoff(Pauses::default())
            .boxed();
        let mut seen = Packages::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(package) = package(kind, &object) {
                        seen.insert((kind, name(&object)), package);
                    }
                }
                Ok(Event::InitDone) => self.list(kind, std::mem::take(&mut seen)),
                Ok(Event::Apply(object)) => self.set(kind, &object, package(kind, &object)),
                Ok(Event::Delete(object)) => self.set(kind, &object, None),
                Err(error) => {
                    warn!(kind, %error, "a watch of OLM's objects failed; it is taken up again");
                }
            }
        }
    }

    /// This is all there is of a kind.
    fn list(&self, kind: &'static str, seen: Packages) {
        {
            let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
            let before = managed.iter().filter(|((of, _), _)| *of == kind);
            let differs = !before.eq(&seen);
            managed.retain(|(of, _), _| *of != kind);
            managed.extend(seen);
            self.changed(differs);
        }
        self.listed.send_if_modified(|listed| listed.insert(kind));
    }

    /// An object manages this package now, or none.
    fn set(&self, kind: &'static str, object: &DynamicObject, package: Option<String>) {
        let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name(object));
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

fn name(object: &DynamicObject) -> String {
    let metadata = &object.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

/// The package that an object manages; a copy of a ClusterServiceVersion in another namespace manages none.
fn package(kind: &str, object: &DynamicObject) -> Option<String> {
    let package = if kind == "Subscription" {
        object.data.pointer("/spec/name")?
    } else {
        let reason = object.data.pointer("/status/reason");
        Operator::of_csv(&object.metadata, reason.and_then(Value::as_str))?;
        let annotations = object.metadata.annotations.as_ref()?;
        let properties = annotations.get("operatorframework.io/properties")?;
        let properties: Value = serde_json::from_str(properties).ok()?;
        let properties = properties.get("properties")?.as_array()?;
        let package = properties
            .iter()
            .find(|it| it.get("type").is_some_and(|it| it == "olm.package"))?;
        &package.pointer("/value/packageName")?.clone()
    };
    Some(package.as_str()?.to_owned())
}

#[cfg(test)]
mod tests;
