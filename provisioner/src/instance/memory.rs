//! State of the controller: per instance, kept between reconciles, and shared by all reconciles.

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
    claims::ApplyLocks,
    index,
    install::Progress,
    outcome::{Health, Install, Outcome, Remedy, TemplateState},
    rollback::Unhealthy,
    rollouts::Rollouts,
    tries::RolloutBackoff,
    uninstall,
    waiting::{Api, Event, Release, Waiting},
};
use crate::{bundle::BundleCache, context::Context};
use apply::{
    drift::fights::FieldConflicts,
    inventory::{Entry as Applied, Inventory},
};

/// Time that the content of a Bundle may take to unpack before the status reports it as pending.
const QUIET_PERIOD: Duration = Duration::from_secs(1);
/// Minimum interval between writes of the status that report only the progress of a rollout.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// State that all reconciles share.
pub(super) struct InstanceContext {
    pub(super) ctx: Context,
    /// Locks of the objects that are being applied.
    pub(super) apply_locks: Arc<ApplyLocks>,
    /// Running rollouts, and the queue of instances that wait for one.
    pub(super) rollouts: Arc<Rollouts>,
    /// Bundles of all instances.
    pub(super) bundles: Arc<BundleCache>,
    /// Events that instances wait for.
    waiting: Arc<Waiting>,
    wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
    states: Mutex<HashMap<String, StateSlot>>,
    has_conditions: AtomicBool,
}

struct StateSlot {
    uid: String,
    state: Arc<tokio::sync::Mutex<InstanceState>>,
    /// Stored outside of the lock, because it is read while a reconcile holds the lock.
    waits: Arc<WakeConditions>,
}

/// Wake conditions of an instance, readable without the lock on its state.
#[derive(Debug, Default)]
pub(super) struct WakeConditions {
    name: String,
    all: Arc<Waiting>,
    /// Whether the watch has shown that the instance is deleted with `--cascade=orphan`. The garbage collector removes its
    /// finalizer once it has finished, which may be before the next reconcile.
    orphaned: AtomicBool,
}

/// State of one instance.
#[derive(Default)]
pub(super) struct InstanceState {
    /// Status of the last write with its resourceVersion, until the watch delivers it. The watch may deliver an older
    /// status in between, and no other client writes the status.
    pub(super) status: Option<Box<(u64, BundleInstanceStatus)>>,
    /// Newest resourceVersion in a response to a write of the instance; 0 before the first write.
    pub(super) version: u64,
    /// Generation of the instance after the last write of the status.
    pub(super) written_generation: Option<i64>,
    /// Value of the annotation that requests another attempt, at the time of the last write; empty if it was not set.
    pub(super) retry: Option<String>,
    /// Remedy of the failure after which the next attempt waits.
    pub(super) remedy: Remedy,
    /// Time of the last write of the status.
    pub(super) last_published: Option<Instant>,
    /// Complete inventory; `None` until it is read, and while the status lists all of it.
    pub(super) inventory: Option<Inventory>,
    /// Number of a revision whose record cannot be used, so that an inventory built from the records lacks its objects.
    pub(super) unread: Option<i64>,
    /// Number of recorded objects that the inventory lacks since their API is not served.
    pub(super) absent: usize,
    /// Objects of an inventory built from the records that the newest revision lacks.
    pub(super) leftovers: Vec<Identity>,
    /// Time since which a new Bundle is being unpacked; `None` once the status reports that.
    pub(super) waiting_since: Option<Instant>,
    /// Time of the last failure to read the record of a revision whose uses of removed APIs are not listed.
    pub(super) unlisted: Option<Instant>,
    /// Whether the watches have the objects of the inventory.
    pub(super) is_watched: bool,
    /// Number of API changes when the inventory was passed to the watches.
    pub(super) served: u64,
    /// Objects of the inventory whose kinds are not served, so that no watch reports them.
    pub(super) unserved: BTreeSet<Identity>,
    /// Events that wake the instance.
    pub(super) waits: Arc<WakeConditions>,
    /// Objects that the API server did not let the provisioner change, and those that are terminating. The rollout creates
    /// such an object once its deletion is complete.
    pub(super) refused: BTreeSet<Identity>,
    /// Objects of `refused` that were deleted before the last attempt started.
    pub(super) freed: BTreeSet<Identity>,
    /// Rollout whose next step follows.
    pub(super) progress: Option<Box<Progress>>,
    /// Key of a target that the platform caused and whose rollout waits.
    pub(super) platform: Option<String>,
    /// Hash of the template that was given up, and the reason.
    pub(super) failed_template: Option<(String, String)>,
    /// Number of a revision, and the objects that were unhealthy when its rollout started and that the rollout does not
    /// change.
    pub(super) excused: Option<(i64, Unhealthy)>,
    /// Conflicts with field managers that repeatedly change the provisioner's fields.
    pub(super) conflicts: FieldConflicts,
    /// Back-off of rollouts and uninstalls.
    pub(super) backoff: RolloutBackoff,
    /// Back-off of repairs, by object.
    pub(super) repairs: HashMap<Identity, RolloutBackoff>,
    /// Objects that are not repaired before a time, since an upgrade is to create them in their new form.
    pub(super) postponed: HashMap<Identity, Timestamp>,
    /// Back-off of prunes.
    pub(super) prunes: RolloutBackoff,
    /// Back-off of recording the objects that an older provisioner has installed.
    pub(super) migrations: RolloutBackoff,
    /// Back-off of creating the Bundle of the template.
    pub(super) creation_backoff: RolloutBackoff,
    /// Bundle that was created last, which the watch may not have delivered, with the time of its creation.
    pub(super) created_bundle: Option<(Arc<Bundle>, Instant)>,
    /// New value of `status.bundles`, until the next write of the status.
    pub(super) bundles: Option<Vec<CreatedBundle>>,
    /// Problem of the last attempt to create the Bundle of the template.
    pub(super) creation_problem: Option<bundles::Problem>,
    /// Whether the service account that applied the objects was forbidden to delete them.
    pub(super) is_refused_as_applied: bool,
    /// Whether the finalizer was removed. The watch may still deliver an older version of the instance.
    pub(super) is_finalizer_removed: bool,
}

impl InstanceContext {
    pub(super) fn new(
        ctx: Context,
        bundles: Arc<BundleCache>,
        wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
    ) -> Self {
        Self {
            ctx,
            apply_locks: Arc::default(),
            rollouts: Arc::new(Rollouts::new(wake.clone())),
            bundles,
            waiting: Arc::default(),
            wake,
            states: Mutex::default(),
            has_conditions: AtomicBool::new(false),
        }
    }

    /// Reports whether the API server serves OperatorConditions.
    pub(super) fn has_conditions(&self) -> bool {
        self.has_conditions.load(Ordering::Relaxed)
    }

    /// Records whether the API server serves OperatorConditions. A change wakes every instance, since it changes the
    /// rendered objects.
    pub(super) fn set_conditions_served(&self, found: bool) {
        if self.has_conditions.swap(found, Ordering::Relaxed) == found {
            return;
        }
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for name in states.keys() {
            let _ = self.wake.send(ObjectRef::new(name));
        }
    }

    /// Returns the state of an instance; an empty one for a new instance with an old name.
    pub(super) fn state(
        &self,
        instance: &BundleInstance,
    ) -> Arc<tokio::sync::Mutex<InstanceState>> {
        self.slot(instance, |slot| Arc::clone(&slot.state))
    }

    /// Records an observed state of the instance, including states that are superseded before the next reconcile.
    pub(super) fn observe(&self, instance: &BundleInstance) {
        let status = instance.status.as_ref();
        self.rollouts
            .observe(&instance.name_any(), version(instance), status);
        // Without the finalizer of the provisioner no reconcile follows that would remove the slot.
        if uninstall::is_orphaned(instance) && uninstall::has_finalizer(instance) {
            self.slot(instance, |slot| {
                slot.waits.orphaned.store(true, Ordering::Relaxed);
            });
        }
    }

    fn slot<T>(&self, instance: &BundleInstance, read: impl FnOnce(&StateSlot) -> T) -> T {
        let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
        let new = || {
            self.waiting.forget(&name);
            StateSlot::new(uid.clone(), name.clone(), Arc::clone(&self.waiting))
        };
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = states
            .entry(name.clone())
            .and_modify(|slot| {
                if slot.uid != uid {
                    *slot = new();
                }
            })
            .or_insert_with(new);
        read(slot)
    }

    /// Removes the state of a deleted instance unless a new instance with its name exists. The watches of its objects end.
    pub(super) fn forget_deleted(&self, instance: &BundleInstance) {
        let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        match states.entry(name.clone()) {
            Entry::Occupied(slot) if slot.get().uid == uid => {
                slot.remove();
                drop(states);
                self.ctx.watches.forget(&name);
                self.ended(&name);
            }
            // The instance was never reconciled.
            Entry::Vacant(_) => self.rollouts.forget(&name),
            Entry::Occupied(_) => {}
        }
    }

    /// Removes the state of instances that were deleted while the watch was interrupted.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let states = &self.states;
        let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|name, _| {
            let exists = exists(name);
            if !exists {
                self.ctx.watches.forget(name);
                self.ended(name);
            }
            exists
        });
        drop(states);
        self.rollouts.retain(exists);
    }

    /// Removes the state of an instance whose uninstall is complete.
    pub(super) fn forget(&self, name: &str) {
        self.states
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

    /// Wakes the instances that wait for objects which this instance has released.
    pub(super) fn released(&self, name: &str) {
        let of = Release::Of(name.to_owned());
        self.wake_for(&[Event::Release(of), Event::Release(Release::Any)]);
    }

    /// Wakes the instances that are blocked by the version of the cluster.
    pub(super) fn wake_blocked(&self) {
        self.wake_for(&[Event::Version]);
    }

    /// Wakes the instances that lack an API which is served now.
    pub(super) async fn wake_missing_apis(&self) {
        let kinds = self.waiting.kinds();
        let served: Vec<GroupVersionKind> = match self.ctx.kinds.find(kinds.iter().cloned()).await {
            Ok(found) => found
                .into_iter()
                .filter_map(|(kind, found)| found.and(Some(kind)))
                .collect(),
            // The reconcile of each instance determines that.
            Err(_) => kinds,
        };
        let served = served.iter().map(Api::from).chain([Api::Any]);
        let events: Vec<Event> = served.map(Event::Api).collect();
        self.wake_for(&events);
    }

    fn wake_for(&self, events: &[Event]) {
        for name in self.waiting.wake(events) {
            // The receiver is dropped only at the end of the process.
            let _ = self.wake.send(ObjectRef::new(&name));
        }
    }
}

impl StateSlot {
    fn new(uid: String, name: String, waiting: Arc<Waiting>) -> Self {
        let waits = Arc::new(WakeConditions {
            name,
            all: waiting,
            orphaned: AtomicBool::new(false),
        });
        Self {
            uid,
            state: Arc::new(tokio::sync::Mutex::new(InstanceState {
                waits: Arc::clone(&waits),
                ..InstanceState::default()
            })),
            waits,
        }
    }
}

/// Returns the resourceVersion as a number to compare. A missing or malformed one is greater than all others.
pub(super) fn version(instance: &BundleInstance) -> u64 {
    let version = instance.metadata.resource_version.as_deref();
    version
        .and_then(|text| text.parse().ok())
        .unwrap_or(u64::MAX)
}

impl InstanceState {
    /// Discards the stored status once the watch delivers it or a later one.
    pub(super) fn observe_status(&mut self, instance: &BundleInstance) {
        let observed = version(instance);
        self.status
            .take_if(|written| written.0 <= observed && observed < u64::MAX);
    }

    /// Discards the inventory if the status lists all of it, which saves memory with thousands of instances.
    pub(super) fn release_memory(&mut self, status: &BundleInstanceStatus) {
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
        let empty = Inventory::new();
        let inventory = self.inventory.as_ref().unwrap_or(&empty);
        index::build(inventory, self.absent, self.unread, before)
    }

    /// Records the APIs that the instance waits for.
    pub(super) fn await_apis(&self, apis: impl IntoIterator<Item = Api>) {
        self.waits.all.await_apis(&self.waits.name, apis);
    }

    /// Records the other events that the instance waits for: the release of objects, or a new version of the cluster.
    pub(super) fn await_objects(&self, events: impl IntoIterator<Item = Event>) {
        self.waits.all.await_objects(&self.waits.name, events);
    }

    /// Returns the time for which the status is not written while the Bundle of a new instance or template is unpacked.
    /// That takes less than a second for most Bundles, and the write before the rollout records the Bundle. After a crash
    /// before that write, the next process creates another Bundle.
    pub(super) fn quiet_period(
        &mut self,
        instance: &BundleInstance,
        before: &BundleInstanceStatus,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_unchanged = matches!(outcome.install, Install::Unchanged)
            && outcome.repaired.is_none()
            && outcome.conflicts.is_empty()
            && outcome.replaced.is_none();
        let created = self.bundles.as_ref().and_then(|created| created.last());
        // After a crash, a Bundle with the name of the installed one would look like another client's.
        let is_next = created
            .is_some_and(|created| before.installed_bundle_name.as_ref() != Some(&created.name));
        // The client that uploads the content waits for this record.
        let is_upload = instance.spec.template.spec.source.type_ == "upload";
        let is_awaited = is_upload && self.bundles.is_some();
        let is_new = before.conditions.is_empty() || is_next && is_unchanged;
        if !is_new || is_awaited || !matches!(outcome.valid, TemplateState::Pending { .. }) {
            self.waiting_since = None;
            return None;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        QUIET_PERIOD
            .checked_sub(since.elapsed())
            .filter(|left| !left.is_zero())
    }

    /// Returns the time for which the progress of objects is not written to the status. Each write costs a request, and an
    /// event for every watch of the instance.
    pub(super) fn status_throttle(
        &self,
        before: &BundleInstanceStatus,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_progressing = matches!(outcome.install, Install::Unchanged)
            && matches!(outcome.health, Health::NotObserved | Health::Progressing(_))
            && matches!(outcome.valid, TemplateState::Unpacked { .. })
            && outcome.conflicts.is_empty();
        let was_progressing = before.conditions.iter().any(|c| {
            c.type_ == condition::HEALTHY && c.status == "Unknown"
                || c.reason == condition::reason::WAITING_FOR_HEALTH
        });
        let published = self
            .last_published
            .filter(|_| is_progressing && was_progressing)?;
        STATUS_INTERVAL
            .checked_sub(published.elapsed())
            .filter(|left| !left.is_zero())
    }

    /// Reports whether the instance is deleted without its objects (`--cascade=orphan`).
    pub(super) fn is_orphaned(&self) -> bool {
        self.waits.orphaned.load(Ordering::Relaxed)
    }

    /// Returns a number that changes when an attempt may succeed, since other instances have released objects.
    pub(super) fn retry_epoch(&self) -> u64 {
        self.waits.all.retry_epoch(&self.waits.name)
    }
}

/// Returns the objects of an inventory in order.
fn entries(inventory: &Inventory) -> impl Iterator<Item = (Identity, Applied)> {
    inventory
        .iter()
        .map(|(identity, entry)| (identity.clone(), entry.clone()))
}
