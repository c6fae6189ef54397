//! What is known of instances between two looks at them.

use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use manifests::{
    api::{
        bundle::Bundle,
        condition,
        instance::{BundleInstance, BundleInstanceStatus, CreatedBundle},
    },
    object::Identity,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{
    claims::Claims,
    outcome::{Health, Install, Outcome, Valid},
    template,
    tries::Tries,
    uninstall,
};
use crate::context::Context;
use apply::{
    drift::fights::Fights,
    inventory::{self, Inventory},
};

/// A Bundle that takes no longer is not told to be waited for.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How often it is said how objects come up.
const PACE: Duration = Duration::from_secs(1);
/// How many revisions are rolled out at once, of [`super::CONCURRENCY`] workers: the others repair and delete.
const MAX_ROLLOUTS: usize = 12;

/// What all reconciles share.
pub(super) struct Shared {
    pub(super) ctx: Context,
    /// Which objects are being applied at this moment.
    pub(super) claims: Claims,
    /// The rollouts that are under way, and those that wait for them.
    rollouts: Arc<Rollouts>,
    bundles: Store<Bundle>,
    wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
    memories: Mutex<HashMap<String, Slot>>,
    has_conditions: AtomicBool,
}

/// The rollouts of all instances.
struct Rollouts {
    permits: Arc<Semaphore>,
    queue: Mutex<VecDeque<String>>,
    wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
}

/// A rollout under way; dropping it wakes the next instance that waits.
pub(super) struct Rollout {
    permit: Option<OwnedSemaphorePermit>,
    rollouts: Arc<Rollouts>,
}

impl Drop for Rollout {
    fn drop(&mut self) {
        drop(self.permit.take());
        let queue = &self.rollouts.queue;
        let next = queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        if let Some(next) = next {
            // Nobody listens any more when the process is about to end.
            let _ = self.rollouts.wake.send(ObjectRef::new(&next));
        }
    }
}

struct Slot {
    uid: String,
    memory: Arc<tokio::sync::Mutex<Memory>>,
    /// Beside the lock, because it is read while a reconcile holds that.
    waits: Arc<Waits>,
}

/// What an instance is woken for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// It lacks an API.
    apis: AtomicBool,
    /// Others have objects of its bundle, or it is not made for this cluster.
    objects: AtomicBool,
    /// The watch has shown that its objects are to stay when it goes: the garbage collector takes its mark off as soon as
    /// it has done its part, which may be before anybody has looked.
    orphaned: AtomicBool,
    /// How often it was woken because others gave up objects: each time, what failed is tried again at once.
    turn: AtomicU64,
}

/// What is known of one instance.
pub(super) struct Memory {
    /// As it was last written, with its resourceVersion, until the watch delivers it: what that shows may be older, and
    /// nobody else writes it.
    pub(super) status: Option<(u64, BundleInstanceStatus)>,
    /// When that was.
    pub(super) said: Option<Instant>,
    /// Everything that belongs to it; `None` until it was read, and while the status says it all.
    pub(super) inventory: Option<Inventory>,
    /// Since when its first Bundle is waited for, as long as nothing was said.
    pub(super) waiting_since: Option<Instant>,
    /// Whether the watches know about the inventory.
    pub(super) is_watched: bool,
    /// What is served when they were told, by the count of changes.
    pub(super) served: u64,
    /// Objects of the inventory whose kinds are not served, so that no watch can tell of them.
    pub(super) unserved: BTreeSet<Identity>,
    /// What it is woken for.
    pub(super) waits: Arc<Waits>,
    /// The objects that the API server refused to change: once one of them is deleted, the rollout creates it.
    pub(super) refused: BTreeSet<Identity>,
    /// Objects that have left the bundle, as the status lists them: their health does not count.
    pub(super) removing: Vec<String>,
    /// The hash of the template that was given up, and why.
    pub(super) gave_up: Option<(String, String)>,
    /// The objects that failed when the rollout of the revision with this number began, and that it does not change.
    pub(super) excused: Option<(i64, BTreeSet<Identity>)>,
    /// Who sets our fields again and again.
    pub(super) fights: Fights,
    /// Installing and removing.
    pub(super) tries: Tries,
    /// Repairing, by object.
    pub(super) repairs: HashMap<Identity, Tries>,
    /// Pruning.
    pub(super) prunes: Tries,
    /// Recording what an older provisioner has installed.
    pub(super) migrations: Tries,
    /// Making the Bundle of the template.
    pub(super) makings: Tries,
    /// The one that was made last: the watch shows it later.
    pub(super) made: Option<(Arc<Bundle>, Instant)>,
    /// The new value of `status.bundles`, until the next write of the status.
    pub(super) bundles: Option<Vec<CreatedBundle>>,
    /// The reason why that failed.
    pub(super) not_made: Option<String>,
    /// Whether the account that the objects were applied as was refused when they were to be deleted.
    pub(super) is_refused_as_applied: bool,
    /// Its finalizer was taken off: what the watch shows is older.
    pub(super) is_let_go: bool,
}

impl Shared {
    pub(super) fn new(
        ctx: Context,
        bundles: Store<Bundle>,
        wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
    ) -> Self {
        Self {
            ctx,
            claims: Claims::default(),
            rollouts: Arc::new(Rollouts {
                permits: Arc::new(Semaphore::new(MAX_ROLLOUTS)),
                queue: Mutex::default(),
                wake: wake.clone(),
            }),
            bundles,
            wake,
            memories: Mutex::default(),
            has_conditions: AtomicBool::new(false),
        }
    }

    /// Returns a permit for a rollout; without one, the instance is woken when another rollout ends.
    pub(super) fn begin_rollout(&self, instance: &str) -> Option<Rollout> {
        let rollouts = &self.rollouts;
        let Ok(permit) = Arc::clone(&rollouts.permits).try_acquire_owned() else {
            let mut queue = rollouts
                .queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if !queue.iter().any(|queued| queued == instance) {
                queue.push_back(instance.to_owned());
            }
            return None;
        };
        Some(Rollout {
            permit: Some(permit),
            rollouts: Arc::clone(rollouts),
        })
    }

    /// Reports whether the cluster has OperatorConditions.
    pub(super) fn has_conditions(&self) -> bool {
        self.has_conditions.load(Ordering::Relaxed)
    }

    /// The cluster has OperatorConditions, or has none: that shapes what is installed, so every instance is looked at.
    pub(super) fn find_conditions(&self, found: bool) {
        if self.has_conditions.swap(found, Ordering::Relaxed) == found {
            return;
        }
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        for name in memories.keys() {
            let _ = self.wake.send(ObjectRef::new(name));
        }
    }

    /// The memory of an instance; an empty one for a new instance of an old name.
    pub(super) fn memory(&self, instance: &BundleInstance) -> Arc<tokio::sync::Mutex<Memory>> {
        self.slot(instance, |slot| Arc::clone(&slot.memory))
    }

    /// Takes in what the watch shows of an instance, also what was true for a moment only.
    pub(super) fn sees(&self, instance: &BundleInstance) {
        // Without our finalizer nothing is left to do, and nobody would forget it again.
        if uninstall::is_orphaned(instance) && uninstall::is_awaited(instance) {
            self.slot(instance, |slot| {
                slot.waits.orphaned.store(true, Ordering::Relaxed);
            });
        }
    }

    fn slot<T>(&self, instance: &BundleInstance, read: impl FnOnce(&Slot) -> T) -> T {
        let uid = instance.uid().unwrap_or_default();
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = memories
            .entry(instance.name_any())
            .and_modify(|slot| {
                if slot.uid != uid {
                    *slot = Slot::new(uid.clone());
                }
            })
            .or_insert_with(|| Slot::new(uid.clone()));
        read(slot)
    }

    /// An instance is gone, unless there is another one of its name already. However it went: its objects are watched no
    /// longer.
    pub(super) fn is_gone(&self, instance: &BundleInstance) {
        let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
        let memories = &self.memories;
        let mut memories = memories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(slot) = memories.entry(name.clone())
            && slot.get().uid == uid
        {
            slot.remove();
            drop(memories);
            self.ctx.watches.forget(&name);
            self.wake_those_refused();
        }
    }

    /// Forgets instances that went while nobody watched.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let memories = &self.memories;
        let mut memories = memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.retain(|name, _| {
            let stays = is_there(name);
            if !stays {
                self.ctx.watches.forget(name);
            }
            stays
        });
    }

    /// The instance is gone, and its objects with it.
    pub(super) fn forget(&self, name: &str) {
        self.memories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        self.wake_those_refused();
    }

    /// The Bundles that were made for an instance and stay.
    pub(super) fn bundles_of(&self, instance: &BundleInstance) -> Vec<Arc<Bundle>> {
        let mut bundles = self.bundles.state();
        bundles.retain(|bundle| template::is_of(bundle, instance));
        bundles
    }

    /// Returns the Bundle with a name, also one without a reference to an instance.
    pub(super) fn bundle(&self, name: &str) -> Option<Arc<Bundle>> {
        self.bundles.get(&ObjectRef::new(name))
    }

    /// The Bundles of an instance, and those that were until it let go of what it has.
    pub(super) fn bundles_left_by(&self, instance: &BundleInstance) -> Vec<Arc<Bundle>> {
        let mut bundles = self.bundles.state();
        bundles.retain(|bundle| template::was_of(bundle, instance));
        bundles
    }

    /// Whether the garbage collector has taken the reference to an instance off its Bundles: off all of them, and there
    /// are some.
    pub(super) fn lets_bundles_go(&self, instance: &BundleInstance) -> bool {
        let bundles = self.bundles.state();
        let refers = |bundle: &Arc<Bundle>| template::refers_to(bundle, instance);
        bundles
            .iter()
            .any(|bundle| template::was_of(bundle, instance))
            && !bundles.iter().any(refers)
    }

    /// Has every instance looked at that lacks an API.
    pub(super) fn wake_those_missing_apis(&self) {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, slot) in memories.iter() {
            if slot.waits.apis.load(Ordering::Relaxed) {
                // Nobody listens any more when the process is about to end.
                let _ = self.wake.send(ObjectRef::new(name));
            }
        }
    }

    /// Objects have become free, or the cluster another one: has every instance looked at that was refused for them.
    pub(super) fn wake_those_refused(&self) {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, slot) in memories.iter() {
            if slot.waits.objects.load(Ordering::Relaxed) {
                slot.waits.turn.fetch_add(1, Ordering::Relaxed);
                let _ = self.wake.send(ObjectRef::new(name));
            }
        }
    }
}

impl Slot {
    fn new(uid: String) -> Self {
        let waits = Arc::<Waits>::default();
        Self {
            uid,
            memory: Arc::new(tokio::sync::Mutex::new(Memory {
                status: None,
                said: None,
                inventory: None,
                waiting_since: None,
                is_watched: false,
                served: 0,
                unserved: BTreeSet::new(),
                waits: Arc::clone(&waits),
                refused: BTreeSet::new(),
                removing: Vec::new(),
                gave_up: None,
                excused: None,
                fights: Fights::default(),
                tries: Tries::default(),
                repairs: HashMap::new(),
                prunes: Tries::default(),
                migrations: Tries::default(),
                makings: Tries::default(),
                made: None,
                bundles: None,
                not_made: None,
                is_refused_as_applied: false,
                is_let_go: false,
            })),
            waits,
        }
    }
}

/// A resourceVersion to compare. What is no number is later than everything that is seen.
pub(super) fn version(instance: &BundleInstance) -> u64 {
    let version = instance.metadata.resource_version.as_deref();
    version
        .and_then(|text| text.parse().ok())
        .unwrap_or(u64::MAX)
}

impl Memory {
    /// Forgets the status that was written last once the watch delivers it, or a later one.
    pub(super) fn has_seen(&mut self, instance: &BundleInstance) {
        let seen = version(instance);
        self.status
            .take_if(|(written, _)| *written <= seen && seen < u64::MAX);
    }

    /// Lets go of what the status says as well: an instance at rest has thousands beside it.
    pub(super) fn rest(&mut self, status: &BundleInstanceStatus) {
        let listed = status.inventory.as_ref();
        let Some(listed) = listed.filter(|listed| listed.more.is_none()) else {
            return;
        };
        self.inventory
            .take_if(|inventory| inventory::parse(&listed.kinds).eq(entries(inventory)));
    }

    /// Notes whether an API is missing.
    pub(super) fn misses_apis(&self, missing: bool) {
        self.waits.apis.store(missing, Ordering::Relaxed);
    }

    /// Notes whether others have objects of the bundle, or it is not made for this cluster.
    pub(super) fn is_refused(&self, refused: bool) {
        self.waits.objects.store(refused, Ordering::Relaxed);
    }

    /// For how long there is nothing worth saying of a new instance: most Bundles are unpacked before anybody has looked.
    pub(super) fn has_nothing_to_say(
        &mut self,
        before: &BundleInstanceStatus,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_new = before.conditions.is_empty();
        if !is_new || !matches!(outcome.valid, Valid::Pending { .. }) {
            self.waiting_since = None;
            return None;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        AT_ONCE
            .checked_sub(since.elapsed())
            .filter(|left| !left.is_zero())
    }

    /// For how long it need not be said how objects come up: each of their steps would be a request, of us and of all who
    /// watch.
    pub(super) fn has_just_said(
        &self,
        before: &BundleInstanceStatus,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_on_its_way = matches!(outcome.install, Install::Unchanged)
            && matches!(outcome.health, Health::NotLooked | Health::Progressing(_))
            && matches!(outcome.valid, Valid::Unpacked { .. })
            && outcome.fights.is_empty();
        let was_on_its_way = before.conditions.iter().any(|c| {
            c.type_ == condition::HEALTHY && c.status == "Unknown"
                || c.reason == condition::reason::WAITING_FOR_HEALTH
        });
        let said = self.said.filter(|_| is_on_its_way && was_on_its_way)?;
        PACE.checked_sub(said.elapsed())
            .filter(|left| !left.is_zero())
    }

    /// Reports whether its objects are to stay when it goes.
    pub(super) fn is_orphaned(&self) -> bool {
        self.waits.orphaned.load(Ordering::Relaxed)
    }

    /// Changes when it is worth trying again, since others have given up objects.
    pub(super) fn turn(&self) -> u64 {
        self.waits.turn.load(Ordering::Relaxed)
    }
}

/// The objects of an inventory in order.
fn entries(inventory: &Inventory) -> impl Iterator<Item = (Identity, inventory::Entry)> {
    inventory
        .iter()
        .map(|(identity, entry)| (identity.clone(), entry.clone()))
}
