//! Packages that OLM manages, from its Subscriptions and ClusterServiceVersions.

use std::{collections::BTreeMap, pin::pin};

use convert::olm;
use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, ResourceExt,
    core::{GroupVersionKind, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher, watcher::Event},
};
use manifests::api::{
    catalog_source::GROUP,
    olm::{ClusterServiceVersion, Subscription},
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use super::package_owner::OlmPackage;
use crate::controllers::cluster_operator::upgradeable::InstalledOperator;
use apply::{api_error, backoff::WatchBackoff, discovery::Discovery};

const VERSION: &str = "v1alpha1";
/// Kinds that name a package, the first in its spec and the second in the properties that OLM writes.
const KINDS: [&str; 2] = ["Subscription", CSV];
const CSV: &str = "ClusterServiceVersion";
/// Page size of lists. The annotations of the objects include examples of all their APIs.
const PAGE_SIZE: u32 = 50;

/// Managed packages by kind and name of the object.
type Packages = BTreeMap<(&'static str, String), String>;

/// Cache of the packages that OLM manages.
#[derive(Debug)]
pub(crate) struct OlmPackages {
    managed: Mutex<Packages>,
    changes: watch::Sender<u64>,
    /// Kinds that are not listed yet, with the reason if one is known.
    list_errors: Mutex<BTreeMap<&'static str, Option<String>>>,
}

impl Default for OlmPackages {
    fn default() -> Self {
        Self {
            managed: Mutex::default(),
            changes: watch::Sender::default(),
            list_errors: Mutex::new(KINDS.map(|kind| (kind, None)).into()),
        }
    }
}

impl OlmPackages {
    /// Returns the managed packages, and the objects that manage them.
    pub(crate) fn managed(&self) -> Vec<OlmPackage> {
        let managed = self.managed.lock();
        managed
            .iter()
            .map(|((kind, name), package)| OlmPackage {
                package: package.clone(),
                by: format!("{kind} {name}"),
            })
            .collect()
    }

    /// Returns a counter of the changes of the managed packages.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the reason why the managed packages are not known; `None` if they are.
    pub(crate) fn unknown(&self) -> Option<String> {
        let (kind, why) = {
            let list_errors = self.list_errors.lock();
            let (kind, why) = list_errors.first_key_value()?;
            (*kind, why.clone())
        };
        Some(match why {
            Some(why) => format!("failed to list {kind}s: {why}"),
            None => format!("{kind}s have not been listed yet"),
        })
    }

    /// Watches both kinds while they are served.
    pub(crate) async fn follow(&self, client: &Client, kinds: &Discovery) {
        stream::iter(KINDS)
            .for_each_concurrent(None, |kind| self.follow_kind(client, kinds, kind))
            .await;
    }

    async fn follow_kind(&self, client: &Client, kinds: &Discovery, kind: &'static str) {
        let gvk = GroupVersionKind::gvk(GROUP, VERSION, kind);
        kinds
            .while_served(&gvk, |served| async move {
                match served {
                    Some(_) => self.watch(client, kind).await,
                    None => self.list(kind, Packages::new()),
                }
            })
            .await;
    }

    async fn watch(&self, client: &Client, kind: &'static str) {
        let config = watcher::Config::default().page_size(PAGE_SIZE);
        if kind == CSV {
            // The objects are large and copied into every namespace, and their metadata is sufficient.
            let api: Api<PartialObjectMeta<ClusterServiceVersion>> = Api::all(client.clone());
            let events = watcher(api, config.labels("!olm.copiedFrom"));
            self.learn(kind, events, |csv| of_csv(&csv.metadata)).await;
        } else {
            let api: Api<Subscription> = Api::all(client.clone());
            let package = |subscription: &Subscription| {
                Some(subscription.spec.name.clone()).filter(|name| !name.is_empty())
            };
            self.learn(kind, watcher(api, config), package).await;
        }
    }

    async fn learn<K: ResourceExt + Send>(
        &self,
        kind: &'static str,
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
        package: impl Fn(&K) -> Option<String> + Send,
    ) {
        let mut events = pin!(events.backoff(WatchBackoff::default()));
        let mut listed = Packages::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(package) = package(&object) {
                        listed.insert((kind, name(&object)), package);
                    }
                }
                Ok(Event::InitDone) => self.list(kind, std::mem::take(&mut listed)),
                Ok(Event::Apply(object)) => self.set(kind, name(&object), package(&object)),
                Ok(Event::Delete(object)) => self.set(kind, name(&object), None),
                Err(error) => {
                    let error = api_error::chain(&error);
                    warn!(kind, error, "watch of OLM objects failed; reconnecting");
                    self.record_error(kind, error);
                }
            }
        }
    }

    /// Records that a kind cannot be listed. Objects that were listed before remain valid.
    fn record_error(&self, kind: &'static str, error: String) {
        let differs = match self.list_errors.lock().get_mut(kind) {
            Some(why) if why.as_ref() != Some(&error) => {
                *why = Some(error);
                true
            }
            _ => false,
        };
        self.changed(differs);
    }

    /// Replaces all objects of a kind.
    fn list(&self, kind: &'static str, listed: Packages) {
        {
            let mut managed = self.managed.lock();
            let before = managed.iter().filter(|((of, _), _)| *of == kind);
            let differs = !before.eq(&listed);
            managed.retain(|(of, _), _| *of != kind);
            managed.extend(listed);
            let is_first = self.list_errors.lock().remove(kind).is_some();
            self.changed(differs || is_first);
        }
    }

    /// Records the package that an object manages; `None` for none.
    fn set(&self, kind: &'static str, name: String, package: Option<String>) {
        let mut managed = self.managed.lock();
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
            self.changes
                .send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

fn name(object: &impl ResourceExt) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}", object.name_any())
}

/// Returns the package of a ClusterServiceVersion. A copy in another namespace manages none.
fn of_csv(metadata: &ObjectMeta) -> Option<String> {
    InstalledOperator::of_csv(metadata, None)?;
    let annotations = metadata.annotations.as_ref()?;
    olm::package(|key| annotations.get(key).map(String::as_str))
}

#[cfg(test)]
mod tests;
