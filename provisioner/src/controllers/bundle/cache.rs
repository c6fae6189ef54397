//! Cache of the Bundles of the cluster: one watch and one copy of each Bundle for all controllers, with an index of their
//! references. A Secret, a ConfigMap, content or a BundleInstance concerns only the few Bundles that refer to it.
//!
//! The watch runs in a separate task: either controller may be disabled, and neither depends on how often the other is
//! polled.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures::{
    StreamExt as _,
    channel::mpsc::{self, UnboundedReceiver, UnboundedSender},
    future,
};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use manifests::api::{bundle::Bundle, labels};
use parking_lot::Mutex;
use tracing::warn;
use unpacker::Digest;

use super::{source, status::is_unpacked, uid};
use apply::{api_error, backoff::WatchBackoff};

/// All Bundles as reported by the watch.
#[derive(Debug)]
pub struct BundleCache {
    store: Store<Bundle>,
    state: Mutex<State>,
}

/// A change of the cache.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// The cache has all Bundles of the cluster.
    Listed(Vec<Arc<Bundle>>),
    /// A Bundle was created or updated.
    Applied(Arc<Bundle>),
    /// A Bundle was deleted.
    Deleted(Arc<Bundle>),
}

#[derive(Debug, Default)]
struct State {
    index: Index,
    /// Index of the list that the watch is receiving.
    listing: Index,
    /// Bundles before that list.
    former: Vec<Arc<Bundle>>,
    is_listed: bool,
    subscribers: Vec<UnboundedSender<Change>>,
}

#[derive(Debug, Default)]
struct Index {
    /// Sorted references of each Bundle by its name.
    references: HashMap<Arc<str>, Box<[Reference]>>,
    /// References with the name of a Bundle that has them. Most references belong to one Bundle, so one set needs less memory
    /// than a set of names per reference.
    names: BTreeSet<(Reference, Arc<str>)>,
}

/// A reference of a Bundle. Clones share the value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Reference {
    /// Uid of the Bundle itself.
    Uid(Arc<str>),
    /// Uid of the controlling owner.
    Owner(Arc<str>),
    /// Name of a BundleInstance, in the labels of a Bundle without owners.
    Released(Arc<str>),
    /// Content that the status references.
    Content(Arc<Digest>),
    /// A Secret in the spec of a Bundle that is not unpacked.
    Secret(Arc<str>),
    /// A source ConfigMap of a Bundle that is not unpacked.
    ConfigMap(Arc<str>),
}

/// Returns an empty cache, and the future that keeps it in sync.
pub fn watch(client: Client) -> (Arc<BundleCache>, impl Future<Output = ()> + Send) {
    let (cache, writer) = BundleCache::new();
    let cache = Arc::new(cache);
    let run = run(client, Arc::clone(&cache), writer);
    (cache, run)
}

async fn run(client: Client, cache: Arc<BundleCache>, writer: Writer<Bundle>) {
    watcher(Api::<Bundle>::all(client), watcher::Config::default())
        .backoff(WatchBackoff::default())
        .modify(|bundle| bundle.metadata.managed_fields = None)
        .reflect(writer)
        .for_each(|event| {
            match event {
                Ok(event) => cache.apply(event),
                Err(error) => {
                    let error = api_error::chain(&error);
                    warn!(error, "failed to watch Bundles; retrying");
                }
            }
            future::ready(())
        })
        .await;
}

// === impl BundleCache ===

impl BundleCache {
    fn new() -> (Self, Writer<Bundle>) {
        let (store, writer) = reflector::store();
        let cache = Self {
            store,
            state: Mutex::default(),
        };
        (cache, writer)
    }

    /// Updates the index and notifies the subscribers. The store has applied the event already.
    fn apply(&self, event: Event<Bundle>) {
        let mut state = self.state.lock();
        match event {
            Event::Init => {
                state.listing = Index::default();
                state.former = self.all();
            }
            Event::InitApply(bundle) => state.listing.insert(&bundle),
            Event::InitDone => {
                state.index = std::mem::take(&mut state.listing);
                state.is_listed = true;
                // The watch reports no deletion that happened while it was interrupted.
                for former in std::mem::take(&mut state.former) {
                    let current = self.get(&former.name_any());
                    if current.is_none_or(|current| current.metadata.uid != former.metadata.uid) {
                        state.send(&Change::Deleted(former));
                    }
                }
                state.send(&Change::Listed(self.all()));
            }
            Event::Apply(bundle) => {
                state.index.insert(&bundle);
                if let Some(bundle) = self.get(&bundle.name_any()) {
                    state.send(&Change::Applied(bundle));
                }
            }
            Event::Delete(bundle) => {
                state.index.remove(&bundle.name_any());
                state.send(&Change::Deleted(Arc::new(bundle)));
            }
        }
    }

    /// Returns the changes from now on. The first change is [`Change::Listed`], which each relist repeats.
    pub(crate) fn subscribe(&self) -> UnboundedReceiver<Change> {
        let (subscriber, changes) = mpsc::unbounded();
        let mut state = self.state.lock();
        if state.is_listed {
            // The receiver exists.
            let _ = subscriber.unbounded_send(Change::Listed(self.all()));
        }
        state.subscribers.push(subscriber);
        changes
    }

    /// Returns the store, for the controller of Bundles.
    pub(super) fn store(&self) -> Store<Bundle> {
        self.store.clone()
    }

    /// Returns all Bundles.
    pub(super) fn all(&self) -> Vec<Arc<Bundle>> {
        self.store.state()
    }

    /// Returns the Bundle with a name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Bundle>> {
        self.store.get(&ObjectRef::new(name))
    }

    /// Returns the Bundles whose controlling owner has a uid, and the Bundles without owners whose labels name a
    /// BundleInstance.
    pub(crate) fn of_instance(&self, uid: &str, name: &str) -> Vec<Arc<Bundle>> {
        let mut names = self.find(&Reference::Owner(uid.into()));
        names.extend(self.find(&Reference::Released(name.into())));
        names.iter().filter_map(|name| self.get(name)).collect()
    }

    /// Reports whether the Bundle with a uid exists.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.refers(&Reference::Uid(uid.into()))
    }

    /// Reports whether a Bundle references content.
    pub(super) fn names(&self, content: Digest) -> bool {
        self.refers(&Reference::Content(Arc::new(content)))
    }

    /// Returns the names of the Bundles that wait for a Secret.
    pub(super) fn of_secret(&self, name: &str) -> Vec<String> {
        self.find(&Reference::Secret(name.into()))
    }

    /// Returns the names of the Bundles that wait for a ConfigMap.
    pub(super) fn of_config_map(&self, name: &str) -> Vec<String> {
        self.find(&Reference::ConfigMap(name.into()))
    }

    fn refers(&self, reference: &Reference) -> bool {
        let state = self.state.lock();
        state.index.find(reference).next().is_some()
    }

    fn find(&self, reference: &Reference) -> Vec<String> {
        let state = self.state.lock();
        state.index.find(reference).map(str::to_owned).collect()
    }
}

// === impl State ===

impl State {
    /// Sends a change to all subscribers, and removes those that were dropped.
    fn send(&mut self, change: &Change) {
        self.subscribers
            .retain(|subscriber| subscriber.unbounded_send(change.clone()).is_ok());
    }
}

// === impl Index ===

impl Index {
    fn insert(&mut self, bundle: &Bundle) {
        let name = bundle.name_any();
        let references = references(bundle);
        if self.references.get(name.as_str()) == Some(&references) {
            return;
        }
        self.remove(&name);
        let name: Arc<str> = name.into();
        for reference in &references {
            self.names.insert((reference.clone(), Arc::clone(&name)));
        }
        self.references.insert(name, references);
    }

    fn remove(&mut self, name: &str) {
        let Some((name, references)) = self.references.remove_entry(name) else {
            return;
        };
        for reference in references {
            self.names.remove(&(reference, Arc::clone(&name)));
        }
    }

    /// Returns the names of the Bundles with a reference, in order.
    fn find<'a>(&'a self, reference: &'a Reference) -> impl Iterator<Item = &'a str> {
        let first = (reference.clone(), Arc::<str>::default());
        self.names
            .range(first..)
            .take_while(move |(found, _)| found == reference)
            .map(|(_, name)| &**name)
    }
}

/// Returns the references of a Bundle, sorted and without duplicates.
fn references(bundle: &Bundle) -> Box<[Reference]> {
    let mut references = vec![Reference::Uid(uid(bundle).into())];
    let owners = bundle.owner_references();
    let owner = owners.iter().filter(|owner| owner.controller == Some(true));
    references.extend(owner.map(|owner| Reference::Owner(owner.uid.as_str().into())));
    if owners.is_empty() {
        let instance = bundle.labels().get(labels::OWNER_NAME);
        references.extend(instance.map(|name| Reference::Released(name.as_str().into())));
    }
    references.extend(content(bundle).map(|content| Reference::Content(Arc::new(content))));
    if !is_unpacked(bundle) {
        let spec = &bundle.spec.source;
        references.extend(source::secret(spec).map(|name| Reference::Secret(name.into())));
        references.extend(source::config_maps(spec).map(|name| Reference::ConfigMap(name.into())));
    }
    references.sort_unstable();
    references.dedup();
    references.into_boxed_slice()
}

/// Returns the content that the status of a Bundle references.
pub(super) fn content(bundle: &Bundle) -> Option<Digest> {
    let digest = bundle.status.as_ref()?.content_digest.as_ref()?;
    digest.parse().ok()
}

#[cfg(test)]
mod tests;
