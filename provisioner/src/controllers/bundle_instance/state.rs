//! State of the controller: per instance, kept between reconciles, and shared by all reconciles.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::{ResourceExt as _, core::GroupVersionKind, runtime::reflector::ObjectRef};
use manifests::{
    api::{
        bundle::Bundle,
        bundle_instance::{
            BundleInstance, BundleInstanceStatus, CreatedBundle, Inventory as Listed,
        },
        condition,
    },
    object::Identity,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{
    apply_locks::ApplyLocks,
    attempt_backoff::RolloutBackoff,
    bundles, inventory_status,
    outcome::{HealthState, Outcome, Remedy, RolloutState, TemplateState},
    rollback::Unhealthy,
    rollout::Progress,
    rollout_slots::Rollouts,
    uninstall,
    waiting::{Api, Event, Release, Waiting},
};
use crate::controllers::{bundle::BundleCache, context::Context};
use apply::{
    field_conflicts::FieldConflicts,
    inventory::{Entry as Applied, Inventory},
};

/// Time that the content of a Bundle may take to unpack before the status reports it as pending.
const QUIET_PERIOD: Duration = Duration::from_secs(1);
/// Minimum interval between writes of the status that report only the progress of a rollout.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// State that all reconciles share.
pub(crate) struct InstanceContext {
    pub(crate) ctx: Context,
    /// Locks of the objects that are being applied.
    pub(crate) apply_locks: Arc<ApplyLocks>,
    /// Running rollouts, and the queue of instances that wait for one.
    pub(crate) rollouts: Arc<Rollouts>,
    /// Bundles of all instances.
    pub(crate) bundles: Arc<BundleCache>,
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
pub(crate) struct WakeConditions {
    name: String,
    all: Arc<Waiting>,
    /// Whether the watch has shown that the instance is deleted with `--cascade=orphan`. The garbage collector removes its
    /// finalizer once it has finished, which may be before the next reconcile.
    orphaned: AtomicBool,
}

/// State of one instance.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the facts about an instance are independent"
)]
pub(crate) struct InstanceState {
    /// Status of the last write with its resourceVersion, until the watch delivers it. The watch may deliver an older
    /// status in between, and no other client writes the status.
    pub(crate) status: Option<Box<(u64, BundleInstanceStatus)>>,
    /// Newest resourceVersion in a response to a write of the instance; 0 before the first write.
    pub(crate) version: u64,
    /// Generation of the instance after the last write of the status.
    pub(crate) written_generation: Option<i64>,
    /// Value of the annotation that requests another attempt, at the time of the last write; empty if it was not set.
    pub(crate) retry: Option<String>,
    /// Remedy of the failure after which the next attempt waits; `None` if it waits for content without which the installed
    /// objects remain as declared.
    pub(crate) remedy: Option<Remedy>,
    /// Whether the last attempt could not load the content of the Bundle, or used a record with earlier inputs instead.
    pub(crate) lacks_content: bool,
    /// Time of the last write of the status.
    pub(crate) last_published: Option<Instant>,
    /// Complete inventory; `None` until it is read, and while the status lists all of it.
    pub(crate) inventory: Option<Inventory>,
    /// Number of a revision whose record cannot be used, so that an inventory built from the records lacks its objects.
    pub(crate) unread: Option<i64>,
    /// Number of a revision whose record a rollout cannot use. The next repair removes the revision from the list.
    pub(crate) lost: Option<i64>,
    /// Number of recorded objects that the inventory lacks since their API is not served.
    pub(crate) absent: usize,
    /// Objects of an inventory built from the records that the newest revision lacks.
    pub(crate) leftovers: Vec<Identity>,
    /// Time since which a new Bundle is being unpacked; `None` once the status reports that.
    pub(crate) waiting_since: Option<Instant>,
    /// Time of the last failure to read the record of a revision whose uses of removed APIs are not listed.
    pub(crate) unlisted: Option<Instant>,
    /// Whether the watches have the objects of the inventory.
    pub(crate) is_watched: bool,
    /// Delay before the next attempt to pass the objects to the watches; `None` if the last one succeeded.
    pub(crate) watch_retry_delay: Option<Duration>,
    /// Number of API changes when the inventory was passed to the watches.
    pub(crate) served: u64,
    /// Objects of the inventory whose kinds are not served, so that no watch reports them.
    pub(crate) unserved: BTreeSet<Identity>,
    /// Events that wake the instance.
    pub(crate) waits: Arc<WakeConditions>,
    /// Objects that the API server did not let the provisioner change, and those that are terminating. The rollout creates
    /// such an object once its deletion is complete.
    pub(crate) refused: BTreeSet<Identity>,
    /// Objects of `refused` that were deleted before the last attempt started.
    pub(crate) freed: BTreeSet<Identity>,
    /// Rollout whose next step follows.
    pub(crate) progress: Option<Box<Progress>>,
    /// Key of a target that the platform caused and whose rollout waits.
    pub(crate) platform: Option<String>,
    /// Hash of the template that was given up, and the reason.
    pub(crate) failed_template: Option<(String, String)>,
    /// Number of a revision, and the objects that were unhealthy when its rollout started and that the rollout does not
    /// change.
    pub(crate) excused: Option<(i64, Unhealthy)>,
    /// Conflicts with field managers that repeatedly change the provisioner's fields.
    pub(crate) conflicts: FieldConflicts,
    /// Back-off of rollouts and uninstalls.
    pub(crate) backoff: RolloutBackoff,
    /// Back-off of repairs, by object.
    pub(crate) repairs: BTreeMap<Identity, RolloutBackoff>,
    /// Objects that are not repaired before a time, since an upgrade is to create them in their new form.
    pub(crate) postponed: BTreeMap<Identity, Timestamp>,
    /// Back-off of prunes.
    pub(crate) prunes: RolloutBackoff,
    /// Back-off of recording the objects that an older provisioner has installed.
    pub(crate) migrations: RolloutBackoff,
    /// Back-off of creating the Bundle of the template.
    pub(crate) creation_backoff: RolloutBackoff,
    /// Bundle that was created last, which the watch may not have delivered, with the time of its creation.
    pub(crate) created_bundle: Option<(Arc<Bundle>, Instant)>,
    /// New value of `status.bundles`, until the next write of the status.
    pub(crate) bundles: Option<Vec<CreatedBundle>>,
    /// Problem of the last attempt to create the Bundle of the template.
    pub(crate) creation_problem: Option<bundles::Problem>,
    /// Whether the service account that applied the objects was forbidden to delete them.
    pub(crate) is_refused_as_applied: bool,
    /// Whether the finalizer was removed. The watch may still deliver an older version of the instance.
    pub(crate) is_finalizer_removed: bool,
}

impl InstanceContext {
    pub(crate) fn new(
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
    pub(crate) fn has_conditions(&self) -> bool {
        self.has_conditions.load(Ordering::Relaxed)
    }

    /// Records whether the API server serves OperatorConditions. A change wakes every instance, since it changes the
    /// rendered objects.
    pub(crate) fn set_conditions_served(&self, found: bool) {
        if self.has_conditions.swap(found, Ordering::Relaxed) == found {
            return;
        }
        let states = self.states.lock();
        for name in states.keys() {
            let _ = self.wake.send(ObjectRef::new(name));
        }
    }

    /// Returns the state of an instance; an empty one for a new instance with an old name.
    pub(crate) fn state(
        &self,
        instance: &BundleInstance,
    ) -> Arc<tokio::sync::Mutex<InstanceState>> {
        self.slot(instance, |slot| Arc::clone(&slot.state))
    }

    /// Records an observed state of the instance, including states that are superseded before the next reconcile.
    pub(crate) fn observe(&self, instance: &BundleInstance) {
        let status = instance.status.as_ref();
        let now = (self.ctx.now)();
        self.rollouts
            .observe(instance, version(instance), status, now);
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
        let mut states = self.states.lock();
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
    pub(crate) fn forget_deleted(&self, instance: &BundleInstance) {
        let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
        let mut states = self.states.lock();
        match states.entry(name.clone()) {
            Entry::Occupied(slot) if slot.get().uid == uid => {
                slot.remove();
                drop(states);
                self.ctx.informers.forget(&name);
                self.ended(&name);
            }
            // The instance was never reconciled.
            Entry::Vacant(_) => self.rollouts.forget(&name),
            Entry::Occupied(_) => {}
        }
    }

    /// Removes the state of instances that were deleted while the watch was interrupted.
    pub(crate) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let states = &self.states;
        let mut states = states.lock();
        states.retain(|name, _| {
            let exists = exists(name);
            if !exists {
                self.ctx.informers.forget(name);
                self.ended(name);
            }
            exists
        });
        drop(states);
        self.rollouts.retain(exists);
    }

    /// Removes the state of an instance whose uninstall is complete.
    pub(crate) fn forget(&self, name: &str) {
        self.states.lock().remove(name);
        self.ended(name);
    }

    fn ended(&self, name: &str) {
        self.rollouts.forget(name);
        self.waiting.forget(name);
        self.released(name);
    }

    /// Wakes the instances that wait for objects which this instance has released.
    pub(crate) fn released(&self, name: &str) {
        let of = Release::Of(name.to_owned());
        self.wake_for(&[Event::Release(of), Event::Release(Release::Any)]);
    }

    /// Wakes the instances that are blocked by the version of the cluster.
    pub(crate) fn wake_blocked(&self) {
        self.wake_for(&[Event::Version]);
    }

    /// Wakes the instances that lack an API which is served now.
    pub(crate) async fn wake_missing_apis(&self) {
        let kinds = self.waiting.kinds();
        let served: Vec<GroupVersionKind> =
            match self.ctx.discovery.find(kinds.iter().cloned()).await {
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
pub(crate) fn version(instance: &BundleInstance) -> u64 {
    let version = instance.metadata.resource_version.as_deref();
    version
        .and_then(|text| text.parse().ok())
        .unwrap_or(u64::MAX)
}

impl InstanceState {
    /// Stores a status that the next write records.
    pub(crate) fn store_unwritten(
        &mut self,
        instance: &BundleInstance,
        status: BundleInstanceStatus,
    ) {
        let written = self.status.as_ref().map(|written| written.0);
        let written = written.unwrap_or_else(|| version(instance));
        self.status = Some(Box::new((written, status)));
    }

    /// Resets the back-off of rollouts after a success.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff.succeeded();
        self.remedy = None;
        self.lacks_content = false;
    }

    /// Discards the stored status once the watch delivers it or a later one.
    pub(crate) fn observe_status(&mut self, instance: &BundleInstance) {
        let observed = version(instance);
        self.status
            .take_if(|written| written.0 <= observed && observed < u64::MAX);
    }

    /// Returns the newest known status with its resourceVersion: the last written one, or else the one that the watch
    /// delivered.
    pub(crate) fn newest_status<'a>(
        &'a self,
        instance: &'a BundleInstance,
    ) -> (u64, Option<&'a BundleInstanceStatus>) {
        match &self.status {
            Some(written) => (written.0, Some(&written.1)),
            None => (version(instance), instance.status.as_ref()),
        }
    }

    /// Discards the inventory if the status lists all of it, which saves memory with thousands of instances.
    pub(crate) fn release_memory(&mut self, status: &BundleInstanceStatus) {
        let listed = status.inventory.as_ref();
        let listed = listed.filter(|listed| listed.more.is_none() && listed.is_whole());
        let Some(listed) = listed else {
            return;
        };
        self.inventory
            .take_if(|inventory| inventory_status::parse(&listed.kinds).eq(entries(inventory)));
    }

    /// Lists the inventory for the status.
    pub(crate) fn listed(&self, before: &BundleInstanceStatus) -> Listed {
        let empty = Inventory::new();
        let inventory = self.inventory.as_ref().unwrap_or(&empty);
        inventory_status::build(inventory, self.absent, self.unread, before)
    }

    /// Records the APIs that the instance waits for.
    pub(crate) fn await_apis(&self, apis: impl IntoIterator<Item = Api>) {
        self.waits.all.await_apis(&self.waits.name, apis);
    }

    /// Records the other events that the instance waits for: the release of objects, or a new version of the cluster.
    pub(crate) fn await_objects(&self, events: impl IntoIterator<Item = Event>) {
        self.waits.all.await_objects(&self.waits.name, events);
    }

    /// Returns the time for which the status is not written while the Bundle of a new instance or template is unpacked.
    /// That takes less than a second for most Bundles, and the write before the rollout records the Bundle. After a crash
    /// before that write, the next process creates another Bundle.
    pub(crate) fn quiet_period(
        &mut self,
        instance: &BundleInstance,
        before: &BundleInstanceStatus,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_unchanged = matches!(outcome.install, RolloutState::Unchanged)
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
    /// event for every watch of the instance. Changes by repairs are always written, because they are reported only once.
    pub(crate) fn status_throttle(
        &self,
        before: &BundleInstanceStatus,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_progressing = matches!(outcome.install, RolloutState::Unchanged)
            && matches!(
                outcome.health,
                HealthState::NotObserved | HealthState::Progressing(_)
            )
            && matches!(outcome.valid, TemplateState::Unpacked { .. })
            && outcome.conflicts.is_empty()
            && outcome.repaired.is_none();
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
    pub(crate) fn is_orphaned(&self) -> bool {
        self.waits.orphaned.load(Ordering::Relaxed)
    }

    /// Returns a number that changes when an attempt may succeed, since other instances have released objects.
    pub(crate) fn retry_epoch(&self) -> u64 {
        self.waits.all.retry_epoch(&self.waits.name)
    }
}

/// Returns the objects of an inventory in order.
fn entries(inventory: &Inventory) -> impl Iterator<Item = (Identity, Applied)> {
    inventory
        .iter()
        .map(|(identity, entry)| (identity.clone(), entry.clone()))
}
