//! Metrics of catalogs, platform operators and cluster upgrades.

use std::collections::{BTreeMap, BTreeSet};

use manifests::api::platform_status::Effect;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Metrics;

/// Metrics of catalogs, platform operators and cluster upgrades.
#[derive(Debug, Default)]
pub(super) struct PlatformMetrics {
    catalogs: Family<CatalogLabels, Gauge>,
    polls: Family<OutcomeLabels, Counter>,
    olm: Gauge,
    served: Family<CatalogLabels, Gauge>,
    using_removed_apis: Gauge,
    /// Has one reason at a time, and none before the first result.
    upgradeable: Family<ReasonLabels, Gauge>,
    reason: Mutex<Option<ReasonLabels>>,
    concerns: Family<EffectLabels, Gauge>,
    operators_by_state: Family<StateLabels, Gauge>,
    operator_installed: Family<OperatorLabels, Gauge>,
    reports: Family<ReportLabels, Gauge>,
    /// Names of the operators in `operator_installed`.
    operator_names: Mutex<BTreeSet<String>>,
}

/// Name of a CatalogSource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CatalogLabels {
    /// Namespace of the CatalogSource.
    pub namespace: String,
    /// Name of the CatalogSource.
    pub name: String,
}

/// Numbers of platform operators, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of operators that are installed, and healthy or unhealthy for less than the limit.
    pub installed: usize,
    /// Number of operators that are installed, and unhealthy for longer than the limit.
    pub unhealthy: usize,
    /// Number of operators that are not installed, for less than the limit.
    pub missing: usize,
    /// Number of operators that are not installed, for longer than the limit.
    pub late: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// Result of polling a registry for the image of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollOutcome {
    /// The image is the one that was loaded.
    Same,
    /// The image has changed, or is the first one.
    New,
    /// The registry did not respond, or the image is invalid.
    Failed,
}

/// Reason of the condition Upgradeable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Effect of a concern on cluster upgrades.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EffectLabels {
    effect: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperatorLabels {
    name: String,
}

/// Object whose status the ClusterOperator controller writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReportLabels {
    name: &'static str,
}

impl PlatformMetrics {
    /// Registers the metrics.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "catalog_available",
            "Whether the catalog of a CatalogSource can be read",
            self.catalogs.clone(),
        );
        registry.register(
            "catalog_polls",
            "Polls of registries for catalog images",
            self.polls.clone(),
        );
        registry.register(
            "catalogs_served_by_olm",
            "Whether OLM serves the catalogs of CatalogSources",
            self.olm.clone(),
        );
        registry.register(
            "catalog_served",
            "Whether the catalog of a CatalogSource is served in the cluster",
            self.served.clone(),
        );
        registry.register(
            "instances_with_apis_that_go",
            "BundleInstances that use APIs which the next minor version of Kubernetes does not serve",
            self.using_removed_apis.clone(),
        );
        registry.register(
            "upgradeable",
            "Whether the installed operators allow an upgrade of the cluster to its next minor version",
            self.upgradeable.clone(),
        );
        registry.register(
            "upgrade_concerns",
            "Concerns about an upgrade of the cluster by their effect",
            self.concerns.clone(),
        );
        registry.register(
            "platform_operators",
            "Platform operators by state: installed, unhealthy, not installed yet, or not installed for too long",
            self.operators_by_state.clone(),
        );
        registry.register(
            "platform_operator_installed",
            "Whether a platform operator is installed",
            self.operator_installed.clone(),
        );
        registry.register(
            "report_written",
            "Whether the last platform operator status was written (1) or not (0)",
            self.reports.clone(),
        );
    }
}

impl Metrics {
    /// Sets whether a catalog can be loaded.
    pub fn catalog(&self, catalog: impl Into<CatalogLabels>, is_available: bool) {
        let gauge = self.platform.catalogs.get_or_create_owned(&catalog.into());
        gauge.set(is_available.into());
    }

    /// Sets whether a catalog is served and published to clients.
    pub fn served(&self, catalog: impl Into<CatalogLabels>, is_served: bool) {
        let gauge = self.platform.served.get_or_create_owned(&catalog.into());
        gauge.set(i64::from(is_served));
    }

    /// Removes a catalog after its server has stopped.
    pub fn remove_served(&self, catalog: impl Into<CatalogLabels>) {
        self.platform.served.remove(&catalog.into());
    }

    /// Removes a deleted catalog.
    pub fn catalog_gone(&self, catalog: impl Into<CatalogLabels>) {
        self.platform.catalogs.remove(&catalog.into());
    }

    /// Counts a poll of a registry for the image of a catalog.
    pub fn polled(&self, outcome: PollOutcome) {
        let outcome = match outcome {
            PollOutcome::Same => "same",
            PollOutcome::New => "new",
            PollOutcome::Failed => "failed",
        };
        let counter = self
            .platform
            .polls
            .get_or_create_owned(&OutcomeLabels { outcome });
        counter.inc();
    }

    /// Sets whether OLM serves the catalogs of CatalogSources.
    pub fn olm_serves(&self, is_serving: bool) {
        self.platform.olm.set(is_serving.into());
    }

    /// Sets the number of instances that use APIs which the next minor version of Kubernetes does not serve.
    pub fn instances_with_apis_that_go(&self, number: usize) {
        self.platform
            .using_removed_apis
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Sets whether the cluster can be upgraded, with the reason, and the number of concerns by effect.
    pub fn upgradeable(
        &self,
        is_upgradeable: bool,
        reason: &'static str,
        concerns: &BTreeMap<Effect, usize>,
    ) {
        let reason = ReasonLabels { reason };
        let gauge = self.platform.upgradeable.get_or_create_owned(&reason);
        gauge.set(is_upgradeable.into());
        let mut last = self.platform.reason.lock();
        if let Some(last) = last.replace(reason)
            && last != reason
        {
            self.platform.upgradeable.remove(&last);
        }
        for (effect, name) in [
            (Effect::Blocks, "blocks"),
            (Effect::Refuses, "refuses"),
            (Effect::Overridden, "overridden"),
            (Effect::Unknown, "unknown"),
            (Effect::Warns, "warns"),
        ] {
            let number = concerns.get(&effect).copied().unwrap_or_default();
            self.platform
                .concerns
                .get_or_create(&EffectLabels { effect: name })
                .set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// Sets whether the ClusterOperator controller has written its current result into the status of an object.
    pub fn report(&self, name: &'static str, is_written: bool) {
        let gauge = self
            .platform
            .reports
            .get_or_create_owned(&ReportLabels { name });
        gauge.set(is_written.into());
    }

    /// Removes an object whose status this process does not write.
    pub fn no_report(&self, name: &'static str) {
        self.platform.reports.remove(&ReportLabels { name });
    }

    /// Sets the number of platform operators by state, and whether each of them is installed.
    pub fn platform_operators(&self, tally: Tally, installed: &BTreeMap<String, bool>) {
        for (state, number) in [
            ("installed", tally.installed),
            ("unhealthy", tally.unhealthy),
            ("missing", tally.missing),
            ("late", tally.late),
        ] {
            self.platform
                .operators_by_state
                .get_or_create(&StateLabels { state })
                .set(i64::try_from(number).unwrap_or(i64::MAX));
        }
        let mut operator_names = self.platform.operator_names.lock();
        let names: BTreeSet<String> = installed.keys().cloned().collect();
        for name in std::mem::replace(&mut *operator_names, names) {
            if !installed.contains_key(&name) {
                self.platform
                    .operator_installed
                    .remove(&OperatorLabels { name });
            }
        }
        for (name, is_installed) in installed {
            let labels = OperatorLabels { name: name.clone() };
            let is_installed = i64::from(*is_installed);
            self.platform
                .operator_installed
                .get_or_create(&labels)
                .set(is_installed);
        }
    }
}
