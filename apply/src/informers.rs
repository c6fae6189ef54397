//! What is going on with applied objects: one watch for each kind (and account), started when the first instance needs
//! it and stopped with the last one. Metadata only, save for kinds with health rules; of both only what decisions need
//! is kept.
//!
//! ```text
//!  want ──► Known ──► which watches ──► stream (a task each) ──► events, reduced ──► Known ──► wakes one instance
//!              ▲                                                                       │
//!              └──── applied: our own writes, before the watch tells ── view ◄─────────┘
//! ```
//!
//! [`known`] decides, without I/O; [`stream`] only carries events to it.

mod entry;
mod known;
mod object;
mod scope;
mod stream;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use kube::Client;
use manifests::object::Identity;
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc},
    task::AbortHandle,
};

use crate::{
    account::Account,
    discovery::Kind,
    drift::Fingerprint,
    health::Health,
    informers::{
        known::{Known, Wakes},
        scope::Scope,
    },
    revision::ObjectHash,
    ssa::Applied,
};

/// How long a write of ours counts although its watch has not told of it.
const UNCONFIRMED: Duration = Duration::from_secs(10);

/// The latest that is known of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The resourceVersion; 0 if it is not a number.
    pub version: u64,
    /// Which of its fields are ours.
    pub fields: Option<Fingerprint>,
    /// The hash in its annotation: which recorded form was applied. `None` before the first revision.
    pub hash: Option<ObjectHash>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// How it is.
    pub health: Health,
    /// Which field manager besides us wrote it last, status aside: whoever is to blame when fields are ours no longer.
    pub writer: Option<Arc<str>>,
}

/// The latest that is known of an instance's objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Whether every watch has listed what there is: before, absence means nothing.
    pub synced: bool,
    /// Wanted objects that carry the instance's owner labels.
    pub objects: BTreeMap<Identity, Seen>,
    /// Wanted objects that are not there, as a watch that has listed everything knows.
    pub absent: BTreeSet<Identity>,
    /// Wanted objects that no watch can tell about now: it has not listed yet, or it does not work. Their absence from
    /// `objects` means nothing.
    pub unknown: BTreeSet<Identity>,
    /// Watches that do not work, in words: which kind, why, what to do.
    pub failing: Vec<String>,
}

/// The objects an instance wants watched, each with its kind. Custom resources are watched in full when their definition
/// is among them.
pub type Wanted = BTreeMap<Identity, Arc<Kind>>;

/// Clients with the rights of the provisioner or of a ServiceAccount.
pub trait Accounts: Send + Sync {
    /// Returns a client that acts as the account, or as the provisioner for `None`.
    ///
    /// # Errors
    /// Returns an error if the client cannot be configured.
    fn client(&self, account: Option<&Account>) -> Result<Client, kube::Error>;
}

/// The watches. They end when this is dropped.
pub struct Watches {
    shared: Arc<Shared>,
}

/// What the tasks share.
struct Shared {
    accounts: Arc<dyn Accounts>,
    woken: mpsc::UnboundedSender<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Known,
    tasks: HashMap<Arc<Scope>, Task>,
}

/// A running watch; dropping this ends it.
struct Task {
    abort: AbortHandle,
    /// Tells it to try again at once.
    retry: Arc<Notify>,
}

// === impl Watches ===

impl Watches {
    /// No watches yet. `woken` is told which instance has to be looked at.
    pub fn new(accounts: Arc<dyn Accounts>, woken: mpsc::UnboundedSender<String>) -> Self {
        Self {
            shared: Arc::new(Shared {
                accounts,
                woken,
                state: Mutex::default(),
            }),
        }
    }

    /// Says which objects an instance has; replaces what was said before. An instance with an account is watched with
    /// that account's rights, a namespace at a time. Has to be called within a runtime, where the watches then live.
    pub fn want(&self, instance: &str, account: Option<&Account>, objects: &Wanted) {
        let mut state = self.shared.state();
        let change = state.known.want(instance, account, objects);
        for scope in &change.stopped {
            state.tasks.remove(scope);
        }
        for scope in change.started {
            self.shared.start(&mut state, scope);
        }
    }

    /// What was just applied, so that a view knows it before the watches do, and our own writes are no drift.
    pub fn applied(&self, instance: &str, applied: &BTreeMap<Identity, Applied>) {
        let mut state = self.shared.state();
        let noted = state.known.applied(instance, applied);
        // A watch that failed for want of a definition need not wait for its next try.
        for scope in state.known.failing() {
            if applied.keys().any(|identity| scope.is_defined_by(identity))
                && let Some(task) = state.tasks.get(&scope)
            {
                task.retry.notify_one();
            }
        }
        drop(state);
        if let (Some(noted), Ok(runtime)) = (noted, Handle::try_current()) {
            let shared = Arc::downgrade(&self.shared);
            runtime.spawn(async move {
                tokio::time::sleep(UNCONFIRMED).await;
                if let Some(shared) = shared.upgrade() {
                    let wakes = shared.state().known.expire(noted);
                    shared.wake(wakes);
                }
            });
        }
    }

    /// The instance is gone.
    pub fn forget(&self, instance: &str) {
        let mut state = self.shared.state();
        for scope in state.known.forget(instance) {
            state.tasks.remove(&scope);
        }
    }

    /// What is known.
    pub fn view(&self, instance: &str) -> View {
        self.shared.state().known.view(instance)
    }

    /// How many watches there are.
    pub fn count(&self) -> usize {
        self.shared.state().tasks.len()
    }
}

// === impl Shared ===

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, state: &mut State, scope: Arc<Scope>) {
        let Ok(runtime) = Handle::try_current() else {
            let words = format!("{scope} cannot be watched outside of a runtime");
            state.known.failed(&scope, words, known::Data::Lost);
            return;
        };
        let retry = Arc::new(Notify::new());
        let shared: Weak<Self> = Arc::downgrade(self);
        let task = runtime.spawn(stream::run(shared, Arc::clone(&scope), Arc::clone(&retry)));
        let abort = task.abort_handle();
        state.tasks.insert(scope, Task { abort, retry });
    }

    fn wake(&self, instances: Wakes) {
        for instance in instances {
            // Nobody listens any more when the process ends.
            let _ = self.woken.send(instance.to_string());
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
