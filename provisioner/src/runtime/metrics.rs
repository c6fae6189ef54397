//! Metrics of the process. Label values come from enums. Only catalogs and platform operators are named, because they
//! are few and belong to an admin.
//!
//! | metric                                               | value                                                       |
//! | ---------------------------------------------------- | ----------------------------------------------------------- |
//! | `rukpak_reconciles_total{controller}`                | started reconciles                                          |
//! | `rukpak_reconciles_in_flight{controller}`            | running reconciles                                          |
//! | `rukpak_reconcile_duration_seconds{controller}`      | duration of reconciles                                      |
//! | `rukpak_reconcile_failures_total{controller,reason}` | failed reconciles by the reason of a condition              |
//! | `rukpak_queue_length{controller}`                    | length of the work queue                                    |
//! | `rukpak_objects_applied_total`                       | objects that were changed by an apply                       |
//! | `rukpak_objects_repaired_total`                      | objects that were repaired after drift                      |
//! | `rukpak_unpacked_bytes_total`                        | unpacked bytes of content                                   |
//! | `rukpak_pull_configuration_problems{source}`         | invalid pull settings of the cluster                        |
//! | `rukpak_admission_policies_missing`                  | missing admission policies and bindings of the install file |
//! | `rukpak_catalog_available{namespace,name}`           | 1 for a catalog that can be loaded, 0 otherwise             |
//! | `rukpak_catalog_polls_total{outcome}`                | polls of registries for catalog images                      |
//! | `rukpak_catalogs_served_by_olm`                      | 1 while OLM serves catalogs, 0 otherwise                    |
//! | `rukpak_catalog_served{namespace,name}`              | 1 for a catalog with a published endpoint, 0 otherwise      |
//! | `rukpak_catalog_requests_total{rpc,code}`            | requests to served catalogs                                 |
//! | `rukpak_catalog_request_duration_seconds{rpc}`       | duration of these requests                                  |
//! | `rukpak_instances_with_apis_that_go`                 | instances whose APIs the next Kubernetes minor removes      |
//! | `rukpak_upgradeable{reason}`                         | 1 while the cluster can be upgraded                         |
//! | `rukpak_upgrade_concerns{effect}`                    | concerns about an upgrade by their effect                   |
//! | `rukpak_platform_operators{state}`                   | platform operators by state                                 |
//! | `rukpak_platform_operator_installed{name}`           | 1 for an installed operator, 0 otherwise                    |
//! | `rukpak_report_written{name}`                        | 1 while the status of that object is current                |
//! | `rukpak_leader`                                      | 1 while this process is the leader                          |
//! | `rukpak_build_info{version}`                         | 1                                                           |
//! | `process_start_time_seconds`                         | start time of the process                                   |

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

pub use platform::{CatalogLabels, PollOutcome, Tally};
pub use queue::QueueDepth;

use self::{calls::CatalogRequests, platform::PlatformMetrics};

/// Buckets in seconds: from a reconcile without changes to a download that reaches its timeout.
const RECONCILE_BUCKETS: [f64; 12] = [
    0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0,
];

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<ControllerLabels, Counter>,
    in_flight: Family<ControllerLabels, Gauge>,
    durations: Family<ControllerLabels, Histogram>,
    failures: Family<FailureLabels, Counter>,
    queue_length: Family<ControllerLabels, Gauge>,
    bundles: QueueDepth,
    instances: QueueDepth,
    operators: QueueDepth,
    applied: Counter,
    repaired: Counter,
    unpacked: Counter,
    pull_problems: Family<PullSourceLabels, Gauge>,
    policies_missing: Gauge,
    leader: Gauge,
    platform: PlatformMetrics,
    requests: CatalogRequests,
}

/// Controller whose reconciles are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Controller {
    /// Controller of Bundles.
    Bundle,
    /// Controller of BundleInstances.
    Instance,
    /// Controller of PlatformOperators.
    Platform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: Controller,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    controller: Controller,
    reason: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PullSourceLabels {
    source: &'static str,
}

/// Timer of one reconcile, which ends when it is dropped.
#[must_use = "dropping it ends the measurement"]
pub struct ReconcileTimer {
    in_flight: Gauge,
    durations: Histogram,
    started: Instant,
}

impl Metrics {
    /// Returns metrics that are all zero.
    pub fn new() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(RECONCILE_BUCKETS);
        let queue_length = Family::<ControllerLabels, Gauge>::default();
        let queue = |controller| {
            QueueDepth::new(queue_length.get_or_create_owned(&ControllerLabels { controller }))
        };
        let mut this = Self {
            bundles: queue(Controller::Bundle),
            instances: queue(Controller::Instance),
            operators: queue(Controller::Platform),
            registry: Registry::default(),
            reconciles: Family::default(),
            in_flight: Family::default(),
            durations: Family::new_with_constructor(durations),
            failures: Family::default(),
            queue_length,
            applied: Counter::default(),
            repaired: Counter::default(),
            unpacked: Counter::default(),
            pull_problems: Family::default(),
            policies_missing: Gauge::default(),
            leader: Gauge::default(),
            platform: PlatformMetrics::default(),
            requests: CatalogRequests::default(),
        };
        this.register();
        this
    }

    fn register(&mut self) {
        let start_time = Gauge::<f64, AtomicU64>::default();
        start_time.set(Timestamp::now().as_duration().as_secs_f64());
        self.registry.register_with_unit(
            "process_start_time",
            "Start time of the process since the Unix epoch in seconds",
            Unit::Seconds,
            start_time,
        );
        let registry = self.registry.sub_registry_with_prefix("rukpak");
        registry.register("reconciles", "Reconciles started", self.reconciles.clone());
        registry.register(
            "reconciles_in_flight",
            "Reconciles in progress",
            self.in_flight.clone(),
        );
        registry.register_with_unit(
            "reconcile_duration",
            "Duration of reconciles",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "reconcile_failures",
            "Failed reconciles by condition reason",
            self.failures.clone(),
        );
        registry.register(
            "queue_length",
            "Length of the work queue",
            self.queue_length.clone(),
        );
        registry.register(
            "objects_applied",
            "Objects changed by an apply",
            self.applied.clone(),
        );
        registry.register(
            "objects_repaired",
            "Objects repaired after drift",
            self.repaired.clone(),
        );
        registry.register_with_unit(
            "unpacked",
            "Unpacked content",
            Unit::Bytes,
            self.unpacked.clone(),
        );
        registry.register(
            "pull_configuration_problems",
            "Problems of the cluster's pull configuration by source",
            self.pull_problems.clone(),
        );
        registry.register(
            "admission_policies_missing",
            "Missing admission policies and bindings of the install file",
            self.policies_missing.clone(),
        );
        registry.register(
            "leader",
            "Whether this process is active (1) or another replica leads (0)",
            self.leader.clone(),
        );
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the running provisioner", version);
        self.platform
            .register(self.registry.sub_registry_with_prefix("rukpak"));
        self.requests
            .register(self.registry.sub_registry_with_prefix("rukpak"));
        // Initializes counters to zero, so that their series exist from the start.
        for controller in [
            Controller::Bundle,
            Controller::Instance,
            Controller::Platform,
        ] {
            let labels = ControllerLabels { controller };
            drop(self.reconciles.get_or_create(&labels));
            drop(self.in_flight.get_or_create(&labels));
            drop(self.durations.get_or_create(&labels));
        }
    }

    /// Counts a reconcile, and measures it until the result is dropped.
    pub fn reconcile(&self, controller: Controller) -> ReconcileTimer {
        let labels = ControllerLabels { controller };
        self.reconciles.get_or_create(&labels).inc();
        let in_flight = self.in_flight.get_or_create_owned(&labels);
        in_flight.inc();
        ReconcileTimer {
            in_flight,
            durations: self.durations.get_or_create_owned(&labels),
            started: Instant::now(),
        }
    }

    /// Counts a failed reconcile by the reason of a condition.
    pub fn failed(&self, controller: Controller, reason: &'static str) {
        let failure = FailureLabels { controller, reason };
        self.failures.get_or_create(&failure).inc();
    }

    /// Returns the queue of a controller, which records triggered and started reconciles.
    pub fn queue(&self, controller: Controller) -> &QueueDepth {
        match controller {
            Controller::Bundle => &self.bundles,
            Controller::Instance => &self.instances,
            Controller::Platform => &self.operators,
        }
    }

    /// Adds to the number of objects that were changed by an apply.
    pub fn applied(&self, objects: u64) {
        self.applied.inc_by(objects);
    }

    /// Adds to the number of repaired objects.
    pub fn repaired(&self, objects: u64) {
        self.repaired.inc_by(objects);
    }

    /// Adds to the number of unpacked bytes.
    pub fn unpacked(&self, bytes: u64) {
        self.unpacked.inc_by(bytes);
    }

    /// Sets the number of invalid pull settings of a source.
    pub fn pull_problems(&self, source: &'static str, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.pull_problems
            .get_or_create(&PullSourceLabels { source })
            .set(number);
    }

    /// Sets the number of admission policies and bindings that do not exist.
    pub fn admission_policies_missing(&self, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.policies_missing.set(number);
    }

    /// Sets whether this process is the leader.
    pub fn set_leader(&self, is_leader: bool) {
        self.leader.set(i64::from(is_leader));
    }

    /// Returns the metrics in the OpenMetrics text format.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail, and an incomplete text is better than none.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ReconcileTimer {
    fn drop(&mut self) {
        self.in_flight.dec();
        self.durations.observe(self.started.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
