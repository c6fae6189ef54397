//! Informers of applied objects: one watch per kind (and account), started for the first instance that needs it and stopped
//! with the last one. Kinds without health rules are watched as metadata. Only the fields that decisions need are stored.
//!
//! ```text
//!  set_watched ─► InformerCache ─► which watches ─► stream (a task each) ─► reduced events ─► InformerCache ─► wakes
//!                       ▲                                                                          │        instance
//!                       └─ record_applied: own writes, before the watch reports them    view ◄─────┘
//! ```
//!
//! [`cache`] holds the cache and decides, without I/O; [`stream`] only feeds events into it.

mod cache;
mod entry;
mod object;
mod scope;
mod stream;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use kube::Client;
use manifests::object::Identity;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc},
    task::AbortHandle,
};

use crate::{
    account::Account,
    discovery::ApiKind,
    health::Health,
    informers::{
        cache::{InformerCache, WakeSet},
        scope::Scope,
    },
    managed_fields::Fingerprint,
    revision::ObjectHash,
    ssa::AppliedObject,
};

/// Time for which a write of the provisioner is trusted before the watch confirms it.
const WRITE_NOTE_TTL: Duration = Duration::from_secs(10);

/// Latest observed state of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedObject {
    /// The resourceVersion; 0 if it is not a number.
    pub version: u64,
    /// Fingerprint of the provisioner's fields; `None` if it owns no field.
    pub fields: Option<Fingerprint>,
    /// Hash annotation of the recorded form that was applied; `None` before the first revision.
    pub hash: Option<ObjectHash>,
    /// Whether the object is terminating.
    pub deleting: bool,
    /// Health of the object.
    pub health: Health,
    /// Other field manager with the latest write, status excluded. It is the likely cause of a change of the provisioner's
    /// fields.
    pub writer: Option<Arc<str>>,
}

/// Latest observed state of an instance's objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstanceView {
    /// Whether every watch has completed its initial list. Before that, an absent object may exist.
    pub synced: bool,
    /// Watched objects that carry the owner labels of the instance.
    pub objects: BTreeMap<Identity, ObservedObject>,
    /// Watched objects that do not exist, according to a watch that has completed its initial list.
    pub absent: BTreeSet<Identity>,
    /// Watched objects of unknown state: their watch fails or has not completed its initial list. Their absence from
    /// `objects` is not evidence of a deletion.
    pub unknown: BTreeSet<Identity>,
    /// One message per failing watch: the kind, the reason and the remedy.
    pub failing: Vec<String>,
}

/// Objects to watch for an instance, each with its kind. Custom resources are watched in full if their CRD is among them.
pub type WatchedObjects = BTreeMap<Identity, Arc<ApiKind>>;

/// Clients with the permissions of the provisioner or of a ServiceAccount.
pub trait Accounts: Send + Sync {
    /// Returns a client that acts as the account, or as the provisioner for `None`.
    ///
    /// # Errors
    /// Returns an error if the client cannot be configured.
    fn client(&self, account: Option<&Account>) -> Result<Client, kube::Error>;
}

/// The informers of all instances. Dropping the value stops their watches.
pub struct Informers {
    shared: Arc<Shared>,
}

/// State shared with the watch tasks.
struct Shared {
    accounts: Arc<dyn Accounts>,
    woken: mpsc::UnboundedSender<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cache: InformerCache,
    tasks: HashMap<Arc<Scope>, Task>,
}

/// A running watch task; dropping the value stops it.
struct Task {
    abort: AbortHandle,
    /// Wakes the task from its back-off.
    retry: Arc<Notify>,
}

// === impl Informers ===

impl Informers {
    /// Creates an informer set without watches. `woken` receives the name of each instance to reconcile.
    pub fn new(accounts: Arc<dyn Accounts>, woken: mpsc::UnboundedSender<String>) -> Self {
        Self {
            shared: Arc::new(Shared {
                accounts,
                woken,
                state: Mutex::default(),
            }),
        }
    }

    /// Sets the objects of an instance; replaces earlier ones. With an account, the objects are watched with that account's
    /// permissions, one namespace per watch. The function must be called within a runtime, in which the watches then run.
    pub fn set_watched(&self, instance: &str, account: Option<&Account>, objects: &WatchedObjects) {
        let mut state = self.shared.state.lock();
        let change = state.cache.set_watched(instance, account, objects);
        for scope in &change.stopped {
            state.tasks.remove(scope);
        }
        for scope in change.started {
            self.shared.start(&mut state, scope);
        }
    }

    /// Records objects that were just applied. A view contains them before the watches report them, and the provisioner's
    /// own writes are not drift.
    pub fn record_applied(&self, instance: &str, applied: &BTreeMap<Identity, AppliedObject>) {
        let mut state = self.shared.state.lock();
        let write_note = state.cache.record_applied(instance, applied);
        // A watch that failed because its CRD was missing retries at once.
        for scope in state.cache.failing() {
            if applied.keys().any(|identity| scope.is_defined_by(identity))
                && let Some(task) = state.tasks.get(&scope)
            {
                task.retry.notify_one();
            }
        }
        drop(state);
        if let (Some(write_note), Ok(runtime)) = (write_note, Handle::try_current()) {
            let shared = Arc::downgrade(&self.shared);
            runtime.spawn(async move {
                tokio::time::sleep(WRITE_NOTE_TTL).await;
                if let Some(shared) = shared.upgrade() {
                    let wakes = shared.state.lock().cache.expire(write_note);
                    shared.wake(wakes);
                }
            });
        }
    }

    /// Drops a deleted instance and stops the watches that no other instance uses.
    pub fn forget(&self, instance: &str) {
        let mut state = self.shared.state.lock();
        for scope in state.cache.forget(instance) {
            state.tasks.remove(&scope);
        }
    }

    /// Returns the latest observed state of an instance's objects.
    pub fn view(&self, instance: &str) -> InstanceView {
        self.shared.state.lock().cache.view(instance)
    }

    /// Returns the number of running watches.
    pub fn count(&self) -> usize {
        self.shared.state.lock().tasks.len()
    }
}

// === impl Shared ===

impl Shared {
    fn start(self: &Arc<Self>, state: &mut State, scope: Arc<Scope>) {
        let Ok(runtime) = Handle::try_current() else {
            let message = format!("failed to watch {scope}: not in a Tokio runtime");
            state.cache.failed(&scope, message, cache::Staleness::Lost);
            return;
        };
        let retry = Arc::new(Notify::new());
        let shared: Weak<Self> = Arc::downgrade(self);
        let task = runtime.spawn(stream::run(shared, Arc::clone(&scope), Arc::clone(&retry)));
        let abort = task.abort_handle();
        state.tasks.insert(scope, Task { abort, retry });
    }

    fn wake(&self, instances: WakeSet) {
        for instance in instances {
            // The receiver is closed when the process exits.
            let _ = self.woken.send(instance.to_string());
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
