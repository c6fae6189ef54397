//! What is counted. Labels come from enums; of objects only catalogs and platform operators are named, which are few
//! and an admin's own.
//!
//! | metric                                             | counts                                        |
//! | -------------------------------------------------- | --------------------------------------------- |
//! | `rukpak_reconciles_total{controller}`              | reconciles that have begun                    |
//! | `rukpak_reconciles_in_flight{controller}`          | those that have not ended                     |
//! | `rukpak_reconcile_duration_seconds{controller}`    | how long they took                            |
//! | `rukpak_reconcile_failures_total{controller,reason}` | those that failed, by a condition's reason  |
//! | `rukpak_queue_length{controller}`                  | objects that wait for their turn              |
//! | `rukpak_objects_applied_total`                     | objects that were applied and really changed  |
//! | `rukpak_objects_repaired_total`                    | objects that somebody had changed or deleted  |
//! | `rukpak_unpacked_bytes_total`                      | bytes of content                              |
//! | `rukpak_pull_configuration_problems{source}`       | what cannot be followed of the cluster        |
//! | `rukpak_admission_policies_missing`                | admission policies and bindings of the install file that do not exist |
//! | `rukpak_catalog_available{namespace,name}`         | 1 for a catalog that can be read, 0 otherwise |
//! | `rukpak_catalog_polls_total{outcome}`              | questions to registries for images of catalogs |
//! | `rukpak_catalogs_served_by_olm`                    | 1 while OLM serves them, 0 while we do        |
//! | `rukpak_catalog_served{namespace,name}`            | 1 for one that clients find, 0 otherwise      |
//! | `rukpak_catalog_requests_total{rpc,code}`          | requests to catalogs that are served here     |
//! | `rukpak_catalog_request_duration_seconds{rpc}`     | how long they took                            |
//! | `rukpak_instances_with_apis_that_go`               | instances that use what the next minor of Kubernetes does not serve |
//! | `rukpak_upgradeable{reason}`                       | 1 while the cluster may be upgraded           |
//! | `rukpak_upgrade_concerns{effect}`                  | what is to be said about that, by its effect  |
//! | `rukpak_platform_operators{state}`                 | platform operators, by how they are           |
//! | `rukpak_platform_operator_installed{name}`         | 1 for one that is installed, 0 otherwise      |
//! | `rukpak_report_written{name}`                      | 1 while what is concluded stands in that status |
//! | `rukpak_leader`                                    | 1 while this process may work                 |
//! | `rukpak_build_info{version}`                       | 1                                             |
//! | `process_start_time_seconds`                       | since when                                    |

mod calls;
mod platform;
mod queue;

use std::{sync::atomic::AtomicU64, time::Instant};

use jiff::Timestamp;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

pub use platform::Polled;
pub use queue::Queue;

use self::{calls::Requests, platform::Platform};
use crate::pulling::Source;

/// From a look that finds nothing to do to a download that hits its time limit.
const SECONDS: [f64; 12] = [
    0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0,
];

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<Of, Counter>,
    in_flight: Family<Of, Gauge>,
    durations: Family<Of, Histogram>,
    failures: Family<Failure, Counter>,
    queued: Family<Of, Gauge>,
    bundles: Queue,
    instances: Queue,
    operators: Queue,
    applied: Counter,
    repaired: Counter,
    unpacked: Counter,
    pull_problems: Family<Said, Gauge>,
    policies_missing: Gauge,
    leader: Gauge,
    platform: Platform,
    requests: Requests,
}

/// Whose reconciles are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Controller {
    /// Of Bundles.
    Bundle,
    /// Of BundleInstances.
    Instance,
    /// Of PlatformOperators.
    Platform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: Controller,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    controller: Controller,
    reason: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Said {
    source: Source,
}

/// Measures one reconcile until it is dropped.
#[must_use = "dropping it ends the measurement"]
pub struct Measure {
    in_flight: Gauge,
    durations: Histogram,
    began: Instant,
}

impl Metrics {
    /// All zero.
    pub fn new() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(SECONDS);
        let queued = Family::<Of, Gauge>::default();
        let queue = |controller| Queue::new(queued.get_or_create_owned(&Of { controller }));
        let mut this = Self {
            bundles: queue(Controller::Bundle),
            instances: queue(Controller::Instance),
            operators: queue(Controller::Platform),
            registry: Registry::default(),
            reconciles: Family::default(),
            in_flight: Family::default(),
            durations: Family::new_with_constructor(durations),
            failures: Family::default(),
            queued,
            applied: Counter::default(),
            repaired: Counter::default(),
            unpacked: Counter::default(),
            pull_problems: Family::default(),
            policies_missing: Gauge::default(),
            leader: Gauge::default(),
            platform: Platform::default(),
            requests: Requests::default(),
        };
        this.register();
        this
    }

    fn register(&mut self) {
        let started = Gauge::<f64, AtomicU64>::default();
        started.set(Timestamp::now().as_duration().as_secs_f64());
        self.registry.register_with_unit(
            "process_start_time",
            "When this process began, in seconds since 1970",
            Unit::Seconds,
            started,
        );
        let ours = self.registry.sub_registry_with_prefix("rukpak");
        ours.register(
            "reconciles",
            "Reconciles that have begun",
            self.reconciles.clone(),
        );
        ours.register(
            "reconciles_in_flight",
            "Reconciles that have not ended",
            self.in_flight.clone(),
        );
        ours.register_with_unit(
            "reconcile_duration",
            "How long reconciles took",
            Unit::Seconds,
            self.durations.clone(),
        );
        ours.register(
            "reconcile_failures",
            "Reconciles that failed, by the reason of a condition",
            self.failures.clone(),
        );
        ours.register(
            "queue_length",
            "Objects that wait for their turn",
            self.queued.clone(),
        );
        ours.register(
            "objects_applied",
            "Objects that were applied and really changed",
            self.applied.clone(),
        );
        ours.register(
            "objects_repaired",
            "Objects that somebody had changed or deleted, and that were put right",
            self.repaired.clone(),
        );
        ours.register_with_unit(
            "unpacked",
            "Content that was unpacked",
            Unit::Bytes,
            self.unpacked.clone(),
        );
        ours.register(
            "pull_configuration_problems",
            "What the cluster says about pulling and cannot be followed, by where it is said",
            self.pull_problems.clone(),
        );
        ours.register(
            "admission_policies_missing",
            "Admission policies and bindings of the install file that do not exist",
            self.policies_missing.clone(),
        );
        ours.register(
            "leader",
            "1 while this process may work, 0 while another one leads",
            self.leader.clone(),
        );
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        ours.register("build", "What is running", version);
        self.platform
            .register(self.registry.sub_registry_with_prefix("rukpak"));
        self.requests
            .register(self.registry.sub_registry_with_prefix("rukpak"));
        // What never happened is zero, not absent.
        for controller in [
            Controller::Bundle,
            Controller::Instance,
            Controller::Platform,
        ] {
            let of = Of { controller };
            drop(self.reconciles.get_or_create(&of));
            drop(self.in_flight.get_or_create(&of));
            drop(self.durations.get_or_create(&of));
        }
    }

    /// Counts a reconcile, and times it until the result is dropped.
    pub fn reconcile(&self, controller: Controller) -> Measure {
        let of = Of { controller };
        self.reconciles.get_or_create(&of).inc();
        let in_flight = self.in_flight.get_or_create_owned(&of);
        in_flight.inc();
        Measure {
            in_flight,
            durations: self.durations.get_or_create_owned(&of),
            began: Instant::now(),
        }
    }

    /// A reconcile failed: by the reason of a condition.
    pub fn failed(&self, controller: Controller, reason: &'static str) {
        let failure = Failure { controller, reason };
        self.failures.get_or_create(&failure).inc();
    }

    /// The queue of a controller, to be told what is triggered and what begins.
    pub fn queue(&self, controller: Controller) -> &Queue {
        match controller {
            Controller::Bundle => &self.bundles,
            Controller::Instance => &self.instances,
            Controller::Platform => &self.operators,
        }
    }

    /// Objects that were applied and really changed.
    pub fn applied(&self, objects: u64) {
        self.applied.inc_by(objects);
    }

    /// Objects that were repaired.
    pub fn repaired(&self, objects: u64) {
        self.repaired.inc_by(objects);
    }

    /// Bytes of content that were unpacked.
    pub fn unpacked(&self, bytes: u64) {
        self.unpacked.inc_by(bytes);
    }

    /// How much of what is said in one place about pulling cannot be followed.
    pub fn pull_problems(&self, source: Source, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.pull_problems
            .get_or_create(&Said { source })
            .set(number);
    }

    /// Sets the number of admission policies and bindings that do not exist.
    pub fn admission_policies_missing(&self, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.policies_missing.set(number);
    }

    /// Reports whether this process may work.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// The text for Prometheus.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // A String takes everything, and half a text is better than none.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        self.in_flight.dec();
        self.durations.observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
