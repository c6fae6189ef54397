//! An index of the references of Bundles, as the watch delivers these: a Secret, a ConfigMap or content concerns the few Bundles that name
//! it, however many Bundles the cluster has. No I/O.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::{ResourceExt as _, runtime::watcher::Event};
use manifests::api::bundle::Bundle;
use unpacker::Digest;

use super::{source, status::is_unpacked, uid};

/// All Bundles.
#[derive(Debug, Default)]
pub(super) struct Index(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    bundles: Bundles,
    /// The Bundles of a list that is not complete.
    listing: Bundles,
}

#[derive(Debug, Default)]
struct Bundles {
    references: HashMap<String, BTreeSet<Reference>>,
    /// The names of the Bundles, by what they refer to.
    names: HashMap<Reference, BTreeSet<String>>,
}

/// A reference of a Bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Reference {
    /// Its own uid.
    Uid(String),
    /// The content that its status names.
    Content(Digest),
    /// The Secret that a Bundle which is not unpacked names.
    Secret(String),
    /// A ConfigMap that a Bundle which is not unpacked is made from.
    ConfigMap(String),
}

impl Index {
    /// Takes in what the watch delivers.
    pub(super) fn apply(&self, event: &Event<Bundle>) {
        let mut state = self.state();
        match event {
            Event::Init => state.listing = Bundles::default(),
            Event::InitApply(bundle) => state.listing.insert(bundle),
            Event::InitDone => state.bundles = std::mem::take(&mut state.listing),
            Event::Apply(bundle) => state.bundles.insert(bundle),
            Event::Delete(bundle) => state.bundles.remove(&bundle.name_any()),
        }
    }

    /// Reports whether the Bundle with a uid exists.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.refers(&Reference::Uid(uid.to_owned()))
    }

    /// Reports whether a Bundle names content.
    pub(super) fn names(&self, content: Digest) -> bool {
        self.refers(&Reference::Content(content))
    }

    /// Returns the names of the Bundles that wait for a Secret.
    pub(super) fn of_secret(&self, name: &str) -> Vec<String> {
        self.find(&Reference::Secret(name.to_owned()))
    }

    /// Returns the names of the Bundles that wait for a ConfigMap.
    pub(super) fn of_config_map(&self, name: &str) -> Vec<String> {
        self.find(&Reference::ConfigMap(name.to_owned()))
    }

    fn refers(&self, reference: &Reference) -> bool {
        self.state().bundles.names.contains_key(reference)
    }

    fn find(&self, reference: &Reference) -> Vec<String> {
        let state = self.state();
        let names = state.bundles.names.get(reference);
        names.into_iter().flatten().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bundles {
    fn insert(&mut self, bundle: &Bundle) {
        let name = bundle.name_any();
        let references = references(bundle);
        if self.references.get(&name) == Some(&references) {
            return;
        }
        self.remove(&name);
        for reference in &references {
            let names = self.names.entry(reference.clone()).or_default();
            names.insert(name.clone());
        }
        self.references.insert(name, references);
    }

    fn remove(&mut self, name: &str) {
        for reference in self.references.remove(name).into_iter().flatten() {
            if let Some(names) = self.names.get_mut(&reference) {
                names.remove(name);
                if names.is_empty() {
                    self.names.remove(&reference);
                }
            }
        }
    }
}

fn references(bundle: &Bundle) -> BTreeSet<Reference> {
    let mut references = BTreeSet::from([Reference::Uid(uid(bundle).to_owned())]);
    references.extend(content(bundle).map(Reference::Content));
    if !is_unpacked(bundle) {
        let spec = &bundle.spec.source;
        let secret = source::secret(spec).map(str::to_owned);
        references.extend(secret.map(Reference::Secret));
        references
            .extend(source::config_maps(spec).map(|name| Reference::ConfigMap(name.to_owned())));
    }
    references
}

/// The content that the status of a Bundle names.
pub(super) fn content(bundle: &Bundle) -> Option<Digest> {
    let digest = bundle.status.as_ref()?.content_digest.as_ref()?;
    digest.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(name: &str, source: &Value, content: Option<Digest>) -> Bundle {
        let status = content.map(|digest| {
            json!({
                "phase": "Unpacked", "contentDigest": digest.to_string(), "resolvedSource": {"type": "image"},
                "contentURL": "https://a",
                "conditions": [{
                    "type": "Unpacked", "status": "True", "reason": "UnpackSuccessful", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            })
        });
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "uid": format!("uid of {name}")},
            "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source},
            "status": status,
        }))
        .unwrap()
    }

    fn image(secret: &str) -> Value {
        json!({"type": "image", "image": {"ref": "a", "pullSecret": secret}})
    }

    #[test]
    fn bundles_are_found_by_what_they_refer_to_after_each_event() {
        let index = Index::default();
        let digest = Digest::of(b"content");
        let maps = json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "m"}}, {"configMap": {"name": "n"}}]});
        // The event; who waits for Secret s and ConfigMap n, and whether a Bundle names the content.
        for (event, of_secret, of_config_map, is_named) in vec![
            (Event::Init, "", "", false),
            (
                Event::InitApply(bundle("b", &image("s"), None)),
                "",
                "",
                false,
            ),
            (
                Event::InitApply(bundle("a", &image("s"), None)),
                "",
                "",
                false,
            ),
            (Event::InitApply(bundle("c", &maps, None)), "", "", false),
            (Event::InitDone, "a b", "c", false),
            (
                Event::Apply(bundle("d", &image("other"), Some(digest))),
                "a b",
                "c",
                true,
            ),
            // An unpacked Bundle waits for nothing.
            (
                Event::Apply(bundle("a", &image("s"), Some(digest))),
                "b",
                "c",
                true,
            ),
            (
                Event::Delete(bundle("d", &image("other"), None)),
                "b",
                "c",
                true,
            ),
            (
                Event::Delete(bundle("a", &image("s"), None)),
                "b",
                "c",
                false,
            ),
            (
                Event::Apply(bundle("b", &image("other"), None)),
                "",
                "c",
                false,
            ),
            (Event::Init, "", "c", false),
            (
                Event::InitApply(bundle("e", &image("s"), None)),
                "",
                "c",
                false,
            ),
            (Event::InitDone, "e", "", false),
        ] {
            index.apply(&event);
            let found = [index.of_secret("s"), index.of_config_map("n")];
            let found = found.map(|names| names.join(" "));
            assert_eq!(
                found,
                [of_secret, of_config_map].map(str::to_owned),
                "{event:?}"
            );
            assert_eq!(index.names(digest), is_named, "{event:?}");
        }
        assert!(index.has("uid of e") && !index.has("uid of b"));
        index.apply(&Event::Delete(bundle("e", &image("s"), None)));
        let state = index.state();
        assert!(state.bundles.references.is_empty() && state.bundles.names.is_empty());
    }
}
