//! The Bundles as their watch delivers them, by name and by the BundleInstance they belong to: a reconcile reads the few
//! Bundles of its instance, however many Bundles the cluster has. No I/O.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use kube::{ResourceExt as _, runtime::watcher::Event};
use manifests::api::{bundle::Bundle, instance::BundleInstance, labels};

use super::template;

/// All Bundles.
#[derive(Debug, Default)]
pub(super) struct BundleIndex(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    bundles: Bundles,
    /// The Bundles of a list that is not complete.
    listing: Bundles,
}

/// Bundles, and the names of those that each key refers to.
#[derive(Debug, Default)]
struct Bundles {
    by_name: HashMap<String, Arc<Bundle>>,
    /// Sorted.
    names: HashMap<Key, Vec<String>>,
}

/// The instance that a Bundle belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The uid of a controlling owner.
    Owner(String),
    /// The name of a BundleInstance, in the labels of a Bundle without owners.
    Released(String),
}

// === impl BundleIndex ===

impl BundleIndex {
    /// Takes in what the watch delivers.
    pub(super) fn apply(&self, event: &Event<Bundle>) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => state.listing = Bundles::default(),
            Event::InitApply(bundle) => state.listing.insert(bundle.clone()),
            Event::InitDone => state.bundles = std::mem::take(&mut state.listing),
            Event::Apply(bundle) => state.bundles.insert(bundle.clone()),
            Event::Delete(bundle) => state.bundles.remove(&bundle.name_any()),
        }
    }

    /// Returns the Bundle with a name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Bundle>> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.bundles.by_name.get(name).cloned()
    }

    /// Returns the Bundles that were made for an instance and stay, by name.
    pub(super) fn owned_by(&self, instance: &BundleInstance) -> Vec<Arc<Bundle>> {
        let mut bundles = self.candidates(instance);
        bundles.retain(|bundle| template::is_of(bundle, instance));
        bundles
    }

    /// Returns the Bundles of an instance, and those that belonged to it until the garbage collector released them.
    pub(super) fn left_by(&self, instance: &BundleInstance) -> Vec<Arc<Bundle>> {
        let mut bundles = self.candidates(instance);
        bundles.retain(|bundle| template::was_of(bundle, instance));
        bundles
    }

    /// Reports whether the garbage collector has released the Bundles of an instance: all of them, and at least one.
    pub(super) fn are_released(&self, instance: &BundleInstance) -> bool {
        let bundles = self.candidates(instance);
        let refers = |bundle: &Arc<Bundle>| template::refers_to(bundle, instance);
        let was_of = |bundle: &Arc<Bundle>| template::was_of(bundle, instance);
        bundles.iter().any(was_of) && !bundles.iter().any(refers)
    }

    /// Returns the Bundles that refer to an instance in any way.
    fn candidates(&self, instance: &BundleInstance) -> Vec<Arc<Bundle>> {
        let keys = [
            Key::Owner(instance.uid().unwrap_or_default()),
            Key::Released(instance.name_any()),
        ];
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Bundles { by_name, names } = &state.bundles;
        let names = keys.iter().filter_map(|key| names.get(key)).flatten();
        names
            .filter_map(|name| by_name.get(name).cloned())
            .collect()
    }
}

// === impl Bundles ===

impl Bundles {
    fn insert(&mut self, bundle: Bundle) {
        let name = bundle.name_any();
        self.remove(&name);
        for key in keys(&bundle) {
            let names = self.names.entry(key).or_default();
            if let Err(at) = names.binary_search(&name) {
                names.insert(at, name.clone());
            }
        }
        self.by_name.insert(name, Arc::new(bundle));
    }

    fn remove(&mut self, name: &str) {
        let Some(bundle) = self.by_name.remove(name) else {
            return;
        };
        for key in keys(&bundle) {
            if let Some(names) = self.names.get_mut(&key) {
                names.retain(|other| other != name);
                if names.is_empty() {
                    self.names.remove(&key);
                }
            }
        }
    }
}

fn keys(bundle: &Bundle) -> Vec<Key> {
    let owners = bundle.owner_references();
    if owners.is_empty() {
        let name = bundle.labels().get(labels::OWNER_NAME);
        return name.cloned().map(Key::Released).into_iter().collect();
    }
    let owners = owners.iter().filter(|owner| owner.controller == Some(true));
    owners.map(|owner| Key::Owner(owner.uid.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn instance(name: &str, uid: &str) -> BundleInstance {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
            "metadata": {"name": name, "uid": uid},
            "spec": {
                "provisionerClassName": "core-rukpak-io-plain",
                "template": {"spec": {"source": {"type": "image", "image": {"ref": "a"}}}},
            },
        }))
        .unwrap()
    }

    fn bundle(name: &str, metadata: &Value) -> Bundle {
        let mut bundle = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": metadata,
            "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": {"type": "image"}},
        });
        bundle["metadata"]["name"] = name.into();
        serde_json::from_value(bundle).unwrap()
    }

    /// A Bundle of an instance.
    fn owned(name: &str, uid: &str) -> Bundle {
        let owner = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "name": "any", "uid": uid, "controller": true,
        });
        bundle(name, &json!({"ownerReferences": [owner]}))
    }

    /// A Bundle that the garbage collector has released.
    fn released(name: &str, instance: &str) -> Bundle {
        let labels = json!({
            labels::OWNER_KIND: "BundleInstance", labels::OWNER_NAME: instance, labels::TEMPLATE_HASH: "a",
        });
        bundle(name, &json!({"labels": labels}))
    }

    fn names(bundles: &[Arc<Bundle>]) -> Vec<String> {
        bundles.iter().map(|bundle| bundle.name_any()).collect()
    }

    #[test]
    fn bundles_are_found_by_their_instances_after_each_event() {
        let index = BundleIndex::default();
        let (one, two) = (instance("one", "1"), instance("two", "2"));
        let mut leaving = owned("leaving", "1");
        leaving.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        );
        // The event; the Bundles of instance one, those that it leaves behind, and whether they are released; those of two.
        for (event, of, left_by, are_released, of_two) in vec![
            (Event::Init, "", "", false, ""),
            (Event::InitApply(owned("b", "1")), "", "", false, ""),
            (Event::InitApply(owned("a", "1")), "", "", false, ""),
            (Event::InitApply(owned("c", "2")), "", "", false, ""),
            (Event::InitDone, "a b", "a b", false, "c"),
            (Event::Apply(owned("d", "1")), "a b d", "a b d", false, "c"),
            // Another client takes one over, and gives it back.
            (Event::Apply(owned("d", "2")), "a b", "a b", false, "c d"),
            (Event::Apply(owned("d", "1")), "a b d", "a b d", false, "c"),
            (Event::Apply(leaving.clone()), "a b d", "a b d", false, "c"),
            (
                Event::Apply(released("d", "one")),
                "a b",
                "a b d",
                false,
                "c",
            ),
            (Event::Delete(owned("a", "1")), "b", "b d", false, "c"),
            // One of another instance, or of none, makes no difference.
            (Event::Apply(released("e", "two")), "b", "b d", false, "c"),
            (
                Event::Apply(bundle("f", &json!({}))),
                "b",
                "b d",
                false,
                "c",
            ),
            (Event::Delete(owned("b", "1")), "", "d", false, "c"),
            (Event::Delete(leaving), "", "d", true, "c"),
            (Event::Init, "", "d", true, "c"),
            (Event::InitApply(owned("g", "1")), "", "d", true, "c"),
            (Event::InitDone, "g", "g", false, ""),
        ] {
            index.apply(&event);
            let found = [
                index.owned_by(&one),
                index.left_by(&one),
                index.owned_by(&two),
            ];
            let found = found.map(|bundles| names(&bundles).join(" "));
            assert_eq!(found, [of, left_by, of_two].map(str::to_owned), "{event:?}");
            assert_eq!(index.are_released(&one), are_released, "{event:?}");
        }
        assert!(index.get("g").is_some() && index.get("a").is_none());
        // Deleted Bundles leave nothing behind.
        index.apply(&Event::Delete(owned("g", "1")));
        let state = index.0.read().unwrap();
        assert!(state.bundles.by_name.is_empty() && state.bundles.names.is_empty());
    }
}
