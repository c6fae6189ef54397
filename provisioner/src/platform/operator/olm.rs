//! What an OLM manages: its Subscriptions and ClusterServiceVersions, where there are any.

use std::{
    collections::BTreeMap,
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

use crate::{kinds::Kinds, platform::conflict::Managed, watches::Pauses};

const GROUP: &str = "operators.coreos.com";
const VERSION: &str = "v1alpha1";
/// The kinds that name a package, one in its spec and one in the properties that OLM writes.
const KINDS: [&str; 2] = ["Subscription", "ClusterServiceVersion"];

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Olm {
    managed: Mutex<BTreeMap<(String, String), String>>,
    changes: watch::Sender<u64>,
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
                    None => self.change(|managed| managed.retain(|(of, _), _| of != kind)),
                }
            })
            .await;
    }

    async fn watch(&self, client: &Client, resource: &ApiResource, kind: &'static str) {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        let mut events = watcher(api, watcher::Config::default())
            .backoff(Pauses::default())
            .boxed();
        let mut seen = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some((name, package)) = managed(kind, &object) {
                        seen.insert((kind.to_owned(), name), package);
                    }
                }
                Ok(Event::InitDone) => self.change(|managed| {
                    managed.retain(|(of, _), _| of != kind);
                    managed.append(&mut seen);
                }),
                Ok(Event::Apply(object)) => self.change(|all| {
                    let key = (kind.to_owned(), name(&object));
                    match managed(kind, &object) {
                        Some((_, package)) => all.insert(key, package),
                        None => all.remove(&key),
                    };
                }),
                Ok(Event::Delete(object)) => self.change(|managed| {
                    managed.remove(&(kind.to_owned(), name(&object)));
                }),
                Err(error) => {
                    warn!(kind, %error, "a watch of OLM's objects failed; it is taken up again");
                }
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<(String, String), String>)) {
        let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = managed.clone();
        change(&mut managed);
        if *managed != before {
            self.changes.send_modify(|it| *it = it.wrapping_add(1));
        }
    }
}

fn name(object: &DynamicObject) -> String {
    let metadata = &object.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

/// The name of an object and the package that it manages.
fn managed(kind: &str, object: &DynamicObject) -> Option<(String, String)> {
    let package = if kind == "Subscription" {
        object.data.pointer("/spec/name")?.as_str()?.to_owned()
    } else {
        let annotations = object.metadata.annotations.as_ref()?;
        let is_copied = object
            .metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key("olm.copiedFrom"));
        if is_copied {
            return None;
        }
        let properties = annotations.get("operatorframework.io/properties")?;
        let properties: Value = serde_json::from_str(properties).ok()?;
        let properties = properties.get("properties")?.as_array()?;
        let package = properties
            .iter()
            .find(|it| it.get("type").is_some_and(|it| it == "olm.package"))?;
        package.pointer("/value/packageName")?.as_str()?.to_owned()
    };
    Some((name(object), package))
}
