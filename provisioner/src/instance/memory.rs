//! What is known of instances between two looks at them.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::{ResourceExt as _, core::GroupVersionKind, runtime::reflector::ObjectRef};
use manifests::{
    api::{
        bundle::Bundle,
        condition,
        instance::{BundleInstance, BundleInstanceStatus, CreatedBundle, Inventory as Listed},
    },
    object::Identity,
};
use tokio::sync::mpsc;

use super::{
    bundles,
    claims::Claims,
    index,
    install::Progress,
    outcome::{Health, Install, Outcome, Remedy, Valid},
    rollback::Unhealthy,
    rollouts::Rollouts,
    tries::Tries,
    uninstall,
    waiting::{Api, Event, Release, Waiting},
};
use crate::{bundle::BundleCache, context::Context};
use apply::{
    drift::fights::Fights,
    inventory::{Entry as Applied, Inventory},
};

/// A Bundle that takes no longer is not told to be waited for.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How often it is said how objects come up.
const PACE: Duration = Duration::from_secs(1);

/// What all reconciles share.
pub(super) struct Shared {
    pub(super) ctx: Context,
    /// Which objects are being applied at this moment.
    pub(super) claims: Arc<Claims>,
    /// The rollouts that are under way, and those that wait for them.
    pub(super) rollouts: Arc<Rollouts>,
    /// The Bundles of all instances.
    pub(super) bundles: Arc<BundleCache>,
    /// The events that instances wait for.
    waiting: Arc<Waiting>,
    wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
    memories: Mutex<HashMap<String, Slot>>,
    has_conditions: AtomicBool,
}

struct Slot {
    uid: String,
    memory: Arc<tokio::sync::Mutex<Memory>>,
    /// Beside the lock, because it is read while a reconcile holds that.
    waits: Arc<Waits>,
}

/// What is known of an instance beside the lock.
#[derive(Debug, Default)]
pub(super) struct Waits {
    name: String,
    all: Arc<Waiting>,
    /// The watch has shown that its objects are to stay when it goes: the garbage collector takes its mark off as soon as
    /// it has done its part, which may be before anybody has looked.
    orphaned: AtomicBool,
}

/// What is known of one instance.
#[derive(Default)]
pub(super) struct Memory {
    /// As it was last written, with its resourceVersion, until the watch delivers it: what that shows may be older, and
    /// nobody else writes it.
    pub(super) status: Option<Box<(u64, BundleInstanceStatus)>>,
    /// The newest resourceVersion in a response to a write of the instance; 0 before the first write.
    pub(super) version: u64,
    /// The generation that the instance had after the last write of the status.
    pub(super) written_generation: Option<i64>,
    /// The annotation that asks for another attempt, at the time of the last write; empty if there was none.
    pub(super) retry: Option<String>,
    /// The remedy of the failure after which the next attempt waits.
    pub(super) remedy: Remedy,
    /// The time of the last write of the status.
    pub(super) said: Option<Instant>,
    /// Everything that belongs to it; `None` until it was read, and while the status says it all.
    pub(super) inventory: Option<Inventory>,
    /// A revision whose record cannot be used, so that an inventory built from the records lacks its objects.
    pub(super) unread: Option<i64>,
    /// The number of recorded objects that the inventory lacks since their API is not served.
    pub(super) absent: usize,
    /// The objects in an inventory built from the records that the newest revision lacks.
    pub(super) leftovers: Vec<Identity>,
    /// The time since which a new Bundle is unpacked, until the status reports that.
    pub(super) waiting_since: Option<Instant>,
    /// The time at which the record of a revision could not be read whose uses of removed APIs are not listed.
    pub(super) unlisted: Option<Instant>,
    /// Whether the watches know about the inventory.
    pub(super) is_watched: bool,
    /// What is served when they were told, by the count of changes.
    pub(super) served: u64,
    /// Objects of the inventory whose kinds are not served, so that no watch can tell of them.
    pub(super) unserved: BTreeSet<Identity>,
    /// What it is woken for.
    pub(super) waits: Arc<Waits>,
    /// The objects that the API server refused to change, and those that are being deleted. Once the deletion of
    /// one is complete, the rollout creates the object.
    pub(super) refused: BTreeSet<Identity>,
    /// The refused objects that were deleted before the last attempt started.
    pub(super) freed: BTreeSet<Identity>,
    /// The rollout whose next step follows.
    pub(super) progress: Option<Box<Progress>>,
    /// The key of a target that the platform caused and whose rollout waits.
    pub(super) platform: Option<String>,
    /// The hash of the template that was given up, and why.
    pub(super) gave_up: Option<(String, String)>,
    /// The unhealthy objects when the rollout of the revision with this number began, as far as the rollout does not change
    /// them.
    pub(super) excused: Option<(i64, Unhealthy)>,
    /// Who sets our fields again and again.
    pub(super) fights: Fights,
    /// Installing and removing.
    pub(super) tries: Tries,
    /// Repairing, by object.
    pub(super) repairs: HashMap<Identity, Tries>,
    /// Objects that are not repaired before a time, since an upgrade is to create them in their new form.
    pub(super) postponed: HashMap<Identity, Timestamp>,
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
    pub(super) not_made: Option<bundles::Problem>,
    /// Whether the account that the objects were applied as was refused when they were to be deleted.
    pub(super) is_refused_as_applied: bool,
    /// Its finalizer was taken off: what the watch shows is older.
    pub(super) is_let_go: bool,
}

impl Shared {
    pub(super) fn new(
        ctx: Context,
        bundles: Arc<BundleCache>,
        wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
    ) -> Self {
        Self {
            ctx,
            claims: Arc::default(),
            rollouts: Arc::new(Rollouts::new(wake.clone())),
            bundles,
            waiting: Arc::default(),
            wake,
            memories: Mutex::default(),
            has_conditions: AtomicBool::new(false),
        }
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
        let status = instance.status.as_ref();
        self.rollouts
            .observe(&instance.name_any(), version(instance), status);
        // Without our finalizer nothing is left to do, and nobody would forget it again.
        if uninstall::is_orphaned(instance) && uninstall::is_awaited(instance) {
            self.slot(instance, |slot| {
                slot.waits.orphaned.store(true, Ordering::Relaxed);
            });
        }
    }

    fn slot<T>(&self, instance: &BundleInstance, read: impl FnOnce(&Slot) -> T) -> T {
        let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
        let new = || {
            self.waiting.forget(&name);
            Slot::new(uid.clone(), name.clone(), Arc::clone(&self.waiting))
        };
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = memories
            .entry(name.clone())
            .and_modify(|slot| {
                if slot.uid != uid {
                    *slot = new();
                }
            })
            .or_insert_with(new);
        read(slot)
    }

    /// An instance is gone, unless there is another one of its name already. However it went: its objects are watched no
    /// longer.
    pub(super) fn is_gone(&self, instance: &BundleInstance) {
        let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        match memories.entry(name.clone()) {
            Entry::Occupied(slot) if slot.get().uid == uid => {
                slot.remove();
                drop(memories);
                self.ctx.watches.forget(&name);
                self.ended(&name);
            }
            // It was never reconciled.
            Entry::Vacant(_) => self.rollouts.forget(&name),
            Entry::Occupied(_) => {}
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
                self.ended(name);
            }
            stays
        });
        drop(memories);
        self.rollouts.retain(is_there);
    }

    /// The instance is gone, and its objects with it.
    pub(super) fn forget(&self, name: &str) {
        self.memories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        self.ended(name);
    }

    fn ended(&self, name: &str) {
        self.rollouts.forget(name);
        self.waiting.forget(name);
        self.released(name);
    }

    /// Wakes the instances that wait for objects which this one has given up.
    pub(super) fn released(&self, name: &str) {
        let of = Release::Of(name.to_owned());
        self.wake_for(&[Event::Release(of), Event::Release(Release::Any)]);
    }

    /// Wakes the instances that were refused because of the cluster's version.
    pub(super) fn wake_those_refused(&self) {
        self.wake_for(&[Event::Version]);
    }

    /// Wakes the instances that lack an API which is served now.
    pub(super) async fn wake_those_missing_apis(&self) {
        let kinds = self.waiting.kinds();
        let served: Vec<GroupVersionKind> = match self.ctx.kinds.find(kinds.iter().cloned()).await {
            Ok(found) => found
                .into_iter()
                .filter_map(|(kind, found)| found.and(Some(kind)))
                .collect(),
            // Each of them finds out by itself.
            Err(_) => kinds,
        };
        let served = served.iter().map(Api::from).chain([Api::Any]);
        let events: Vec<Event> = served.map(Event::Api).collect();
        self.wake_for(&events);
    }

    fn wake_for(&self, events: &[Event]) {
        for name in self.waiting.wake(events) {
            // Nobody listens any more when the process is about to end.
            let _ = self.wake.send(ObjectRef::new(&name));
        }
    }
}

impl Slot {
    fn new(uid: String, name: String, waiting: Arc<Waiting>) -> Self {
        let waits = Arc::new(Waits {
            name,
            all: waiting,
            orphaned: AtomicBool::new(false),
        });
        Self {
            uid,
            memory: Arc::new(tokio::sync::Mutex::new(Memory {
                waits: Arc::clone(&waits),
                ..Memory::default()
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
            .take_if(|known| known.0 <= seen && seen < u64::MAX);
    }

    /// Lets go of what the status says as well: an instance at rest has thousands beside it.
    pub(super) fn rest(&mut self, status: &BundleInstanceStatus) {
        let listed = status.inventory.as_ref();
        let listed = listed.filter(|listed| listed.more.is_none() && listed.is_whole());
        let Some(listed) = listed else {
            return;
        };
        self.inventory
            .take_if(|inventory| index::parse(&listed.kinds).eq(entries(inventory)));
    }

    /// Lists the inventory for the status.
    pub(super) fn listed(&self, before: &BundleInstanceStatus) -> Listed {
        let nothing = Inventory::new();
        let inventory = self.inventory.as_ref().unwrap_or(&nothing);
        index::of(inventory, self.absent, self.unread, before)
    }

    /// Records the APIs that the instance waits for.
    pub(super) fn await_apis(&self, apis: impl IntoIterator<Item = Api>) {
        self.waits.all.await_apis(&self.waits.name, apis);
    }

    /// Records what else the instance waits for: objects of others, or another version of the cluster.
    pub(super) fn await_objects(&self, events: impl IntoIterator<Item = Event>) {
        self.waits.all.await_objects(&self.waits.name, events);
    }

    /// Returns how long the status need not be written while the Bundle of a new instance or template is unpacked: that takes
    /// less than a second for most Bundles, and the write before the rollout records the Bundle. After a crash before that
    /// write, the next process creates another Bundle.
    pub(super) fn has_nothing_to_say(
        &mut self,
        instance: &BundleInstance,
        before: &BundleInstanceStatus,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_unchanged = matches!(outcome.install, Install::Unchanged)
            && outcome.kept.is_none()
            && outcome.fights.is_empty()
            && outcome.replaced.is_none();
        let created = self.bundles.as_ref().and_then(|created| created.last());
        // A Bundle with the name of the installed one would pass for another client's after a crash.
        let is_next = created
            .is_some_and(|created| before.installed_bundle_name.as_ref() != Some(&created.name));
        // The client that uploads the content waits for the record.
        let is_upload = instance.spec.template.spec.source.type_ == "upload";
        let is_awaited = is_upload && self.bundles.is_some();
        let is_new = before.conditions.is_empty() || is_next && is_unchanged;
        if !is_new || is_awaited || !matches!(outcome.valid, Valid::Pending { .. }) {
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
        self.waits.all.turn(&self.waits.name)
    }
}

/// The objects of an inventory in order.
fn entries(inventory: &Inventory) -> impl Iterator<Item = (Identity, Applied)> {
    inventory
        .iter()
        .map(|(identity, entry)| (identity.clone(), entry.clone()))
}
