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
//! | `rukpak_catalog_available{namespace,name}`         | 1 for a catalog that can be read, 0 otherwise |
//! | `rukpak_instances_with_apis_that_go`               | instances that use what the next minor of Kubernetes does not serve |
//! | `rukpak_upgradeable{reason}`                       | 1 while the cluster may be upgraded           |
//! | `rukpak_upgrade_concerns{effect}`                  | what is to be said about that, by its effect  |
//! | `rukpak_platform_operators{state}`                 | platform operators, by how they are           |
//! | `rukpak_platform_operator_installed{name}`         | 1 for one that is installed, 0 otherwise      |
//! | `rukpak_leader`                                    | 1 while this process may work                 |
//! | `rukpak_build_info{version}`                       | 1                                             |
//! | `process_start_time_seconds`                       | since when                                    |

mod queue;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError, atomic::AtomicU64},
    time::Instant,
};

use jiff::Timestamp;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

pub use queue::Queue;

use manifests::api::platform_status::Effect;

use crate::{
    catalogs::Key,
    platform::{aggregate::Tally, gate::Verdict},
    pulling::Source,
};

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
    leader: Gauge,
    catalogs: Family<OfCatalog, Gauge>,
    going: Gauge,
    /// Of one reason at a time; nothing before anything is known.
    upgradeable: Family<For, Gauge>,
    reason: Mutex<Option<For>>,
    concerns: Family<OfEffect, Gauge>,
    operators_by_state: Family<InState, Gauge>,
    operator_installed: Family<OfOperator, Gauge>,
    /// Those of the former.
    named: Mutex<BTreeSet<String>>,
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCatalog {
    namespace: String,
    name: String,
}

/// The reason of the gate's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct For {
    reason: &'static str,
}

/// What something does to an upgrade of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEffect {
    effect: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOperator {
    name: String,
}

impl From<&Key> for OfCatalog {
    fn from(key: &Key) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
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
            leader: Gauge::default(),
            catalogs: Family::default(),
            going: Gauge::default(),
            upgradeable: Family::default(),
            reason: Mutex::default(),
            concerns: Family::default(),
            operators_by_state: Family::default(),
            operator_installed: Family::default(),
            named: Mutex::default(),
        };
        this.register();
        this
    }

    /// Whether a catalog can be read.
    pub fn catalog(&self, key: &Key, is_available: bool) {
        let gauge = self.catalogs.get_or_create_owned(&key.into());
        gauge.set(is_available.into());
    }

    /// A catalog is gone.
    pub fn catalog_gone(&self, key: &Key) {
        self.catalogs.remove(&key.into());
    }

    /// How many instances use APIs that the next minor version of Kubernetes does not serve.
    pub fn instances_with_apis_that_go(&self, number: usize) {
        self.going.set(i64::try_from(number).unwrap_or(i64::MAX));
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
            "leader",
            "1 while this process may work, 0 while another one leads",
            self.leader.clone(),
        );
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        ours.register("build", "What is running", version);
        self.register_platform();
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

    /// What is told of catalogs, platform operators and upgrades of the cluster.
    fn register_platform(&mut self) {
        let ours = self.registry.sub_registry_with_prefix("rukpak");
        ours.register(
            "catalog_available",
            "Whether the catalog of a CatalogSource can be read",
            self.catalogs.clone(),
        );
        ours.register(
            "instances_with_apis_that_go",
            "BundleInstances that use APIs which the next minor version of Kubernetes does not serve",
            self.going.clone(),
        );
        ours.register(
            "upgradeable",
            "Whether the cluster may be upgraded to its next minor version, as far as its operators go",
            self.upgradeable.clone(),
        );
        ours.register(
            "upgrade_concerns",
            "What is to be said about an upgrade of the cluster, by what it does to it",
            self.concerns.clone(),
        );
        ours.register(
            "platform_operators",
            "Platform operators that are installed, are not yet, or are not for too long",
            self.operators_by_state.clone(),
        );
        ours.register(
            "platform_operator_installed",
            "Whether a platform operator is installed",
            self.operator_installed.clone(),
        );
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

    /// Whether the cluster may be upgraded, and what is to be said about that.
    pub fn gate(&self, verdict: &Verdict) {
        let reason = For {
            reason: verdict.reason,
        };
        let gauge = self.upgradeable.get_or_create_owned(&reason);
        gauge.set(verdict.is_upgradeable.into());
        let mut last = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.replace(reason)
            && last != reason
        {
            self.upgradeable.remove(&last);
        }
        for (effect, name) in [
            (Effect::Blocks, "blocks"),
            (Effect::Refuses, "refuses"),
            (Effect::Overridden, "overridden"),
            (Effect::Unknown, "unknown"),
            (Effect::Warns, "warns"),
        ] {
            let concerns = verdict.concerns.iter();
            let number = concerns.filter(|it| it.effect == effect).count();
            self.concerns
                .get_or_create(&OfEffect { effect: name })
                .set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// How platform operators are: how many in which state, and of each whether it is installed.
    pub fn platform_operators(&self, tally: Tally, installed: &BTreeMap<String, bool>) {
        for (state, number) in [
            ("installed", tally.installed),
            ("missing", tally.missing),
            ("late", tally.late),
        ] {
            self.operators_by_state
                .get_or_create(&InState { state })
                .set(i64::try_from(number).unwrap_or(i64::MAX));
        }
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let names: BTreeSet<String> = installed.keys().cloned().collect();
        for name in std::mem::replace(&mut *named, names) {
            if !installed.contains_key(&name) {
                self.operator_installed.remove(&OfOperator { name });
            }
        }
        for (name, is_installed) in installed {
            let of = OfOperator { name: name.clone() };
            let is_installed = i64::from(*is_installed);
            self.operator_installed.get_or_create(&of).set(is_installed);
        }
    }

    /// Whether this process may work.
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
mod tests {
    use super::*;
    use crate::platform::gate::{Cluster, judge};

    /// With one at least of everything that is counted.
    fn with_all() -> Metrics {
        let metrics = Metrics::new();
        metrics.failed(Controller::Bundle, "UnpackFailed");
        metrics.pull_problems(Source::Proxy, 0);
        metrics.gate(&judge(&Cluster::Kubernetes, [], &[]));
        let installed = BTreeMap::from([("etcd".to_owned(), true)]);
        metrics.platform_operators(Tally::default(), &installed);
        let key = Key {
            namespace: "catalogs".to_owned(),
            name: "mine".to_owned(),
        };
        metrics.catalog(&key, true);
        metrics
    }

    #[test]
    fn what_alerts_look_at_is_told() {
        let rules = include_str!("../../manifests/install/monitoring.yaml");
        let text = with_all().render();
        let mut looked_at = 0;
        for expression in rules.lines().filter_map(|line| line.split_once("expr: ")) {
            let words = expression
                .1
                .split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
            for name in words.filter(|word| word.starts_with("rukpak_")) {
                let sample = |line: &str| {
                    let rest = line.strip_prefix(name);
                    rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                };
                assert!(text.lines().any(sample), "{name}:\n{text}");
                looked_at += 1;
            }
        }
        assert!(looked_at >= 7, "{looked_at}");
    }

    #[test]
    fn every_metric_is_described() {
        let described = include_str!("../../docs/operations.md");
        let metrics = with_all();
        let text = metrics.render();
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        for name in names.filter_map(|line| line.split(' ').next()) {
            assert!(
                described.contains(&format!("`{name}")),
                "docs/operations.md does not tell of {name}"
            );
        }
    }

    #[test]
    fn the_gate_is_told_once_it_is_known() {
        let metrics = Metrics::new();
        let told = || {
            let text = metrics.render();
            let lines = text
                .lines()
                .filter(|line| line.starts_with("rukpak_upgradeable{"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(told(), [""; 0]);
        let errors = ["nothing can be read".to_owned()];
        metrics.gate(&judge(&Cluster::Kubernetes, [], &errors));
        let error = "rukpak_upgradeable{reason=\"ErrorCheckingOperatorCompatibility\"} 0";
        assert_eq!(told(), [error]);
        metrics.gate(&judge(&Cluster::Kubernetes, [], &[]));
        assert_eq!(told(), ["rukpak_upgradeable{reason=\"AsExpected\"} 1"]);
    }

    #[test]
    fn platform_operators_that_are_gone_are_not_told() {
        let metrics = Metrics::new();
        let operators = |names: &[(&str, bool)]| {
            let names = names.iter().map(|(name, is)| ((*name).to_owned(), *is));
            metrics.platform_operators(Tally::default(), &names.collect());
            let text = metrics.render();
            let lines = text
                .lines()
                .filter(|line| line.contains("_operator_installed{"));
            let mut lines: Vec<_> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let line = |name: &str, is: u8| {
            format!("rukpak_platform_operator_installed{{name=\"{name}\"}} {is}")
        };
        assert_eq!(
            operators(&[("a", true), ("b", false)]),
            [line("a", 1), line("b", 0)]
        );
        assert_eq!(operators(&[("b", true)]), [line("b", 1)]);
    }

    #[test]
    fn what_was_counted_is_told() {
        let metrics = Metrics::new();
        let ended = metrics.reconcile(Controller::Bundle);
        drop(ended);
        let running = metrics.reconcile(Controller::Instance);
        metrics.failed(Controller::Instance, "InstallFailed");
        metrics.failed(Controller::Instance, "InstallFailed");
        metrics.applied(7);
        metrics.repaired(2);
        metrics.unpacked(1 << 20);
        metrics.pull_problems(Source::PullSecret, 2);
        metrics.leads(true);
        let text = metrics.render();
        for line in [
            "rukpak_reconciles_total{controller=\"Bundle\"} 1",
            "rukpak_reconciles_in_flight{controller=\"Bundle\"} 0",
            "rukpak_reconciles_in_flight{controller=\"Instance\"} 1",
            "rukpak_reconcile_duration_seconds_count{controller=\"Bundle\"} 1",
            "rukpak_reconcile_duration_seconds_count{controller=\"Instance\"} 0",
            "rukpak_reconcile_failures_total{controller=\"Instance\",reason=\"InstallFailed\"} 2",
            "rukpak_queue_length{controller=\"Bundle\"} 0",
            "rukpak_objects_applied_total 7",
            "rukpak_objects_repaired_total 2",
            "rukpak_unpacked_bytes_total 1048576",
            "rukpak_pull_configuration_problems{source=\"PullSecret\"} 2",
            "rukpak_leader 1",
            concat!(
                "rukpak_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
        }
        drop(running);
        assert!(
            metrics
                .render()
                .contains("rukpak_reconciles_in_flight{controller=\"Instance\"} 0")
        );
    }
}
