//! What is told of catalogs, platform operators and upgrades of the cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use manifests::api::platform_status::Effect;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Metrics;
use crate::{
    catalogs::Key,
    platform::{aggregate::Tally, gate::Verdict},
};

/// The metrics themselves.
#[derive(Debug, Default)]
pub(super) struct Platform {
    catalogs: Family<OfCatalog, Gauge>,
    polls: Family<With, Counter>,
    olm: Gauge,
    served: Family<OfCatalog, Gauge>,
    going: Gauge,
    /// Of one reason at a time; nothing before anything is known.
    upgradeable: Family<For, Gauge>,
    reason: Mutex<Option<For>>,
    concerns: Family<OfEffect, Gauge>,
    operators_by_state: Family<InState, Gauge>,
    operator_installed: Family<OfOperator, Gauge>,
    reports: Family<OfReport, Gauge>,
    /// Those of the operators.
    named: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCatalog {
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct With {
    outcome: &'static str,
}

/// What came of asking a registry for the image of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// It is the one that was read.
    Same,
    /// It is another one, or the first.
    New,
    /// It could not be asked, or what it has cannot be read.
    Failed,
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

/// An object whose status tells what is concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReport {
    name: &'static str,
}

impl From<&Key> for OfCatalog {
    fn from(key: &Key) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

impl Platform {
    /// What is told of catalogs, platform operators and upgrades of the cluster.
    pub(super) fn register(&self, ours: &mut Registry) {
        ours.register(
            "catalog_available",
            "Whether the catalog of a CatalogSource can be read",
            self.catalogs.clone(),
        );
        ours.register(
            "catalog_polls",
            "Questions to registries for the images of catalogs",
            self.polls.clone(),
        );
        ours.register(
            "catalogs_served_by_olm",
            "Whether OLM serves the catalogs of CatalogSources",
            self.olm.clone(),
        );
        ours.register(
            "catalog_served",
            "Whether clients find the catalog of a CatalogSource in the cluster",
            self.served.clone(),
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
            "Platform operators that are installed, are unhealthy, are not installed yet, or are not for too long",
            self.operators_by_state.clone(),
        );
        ours.register(
            "platform_operator_installed",
            "Whether a platform operator is installed",
            self.operator_installed.clone(),
        );
        ours.register(
            "report_written",
            "Whether what is concluded of platform operators stands in the status of an object",
            self.reports.clone(),
        );
    }
}

impl Metrics {
    /// Reports whether a catalog can be read.
    pub fn catalog(&self, key: &Key, is_available: bool) {
        let gauge = self.platform.catalogs.get_or_create_owned(&key.into());
        gauge.set(is_available.into());
    }

    /// Reports whether a catalog is served, and found.
    pub fn served(&self, key: &Key, is_served: bool) {
        let gauge = self.platform.served.get_or_create_owned(&key.into());
        gauge.set(i64::from(is_served));
    }

    /// A catalog is not to be served any more.
    pub fn served_gone(&self, key: &Key) {
        self.platform.served.remove(&key.into());
    }

    /// A catalog is gone.
    pub fn catalog_gone(&self, key: &Key) {
        self.platform.catalogs.remove(&key.into());
    }

    /// What came of asking a registry for the image of a catalog.
    pub fn polled(&self, outcome: Polled) {
        let outcome = match outcome {
            Polled::Same => "same",
            Polled::New => "new",
            Polled::Failed => "failed",
        };
        let counter = self.platform.polls.get_or_create_owned(&With { outcome });
        counter.inc();
    }

    /// Reports whether OLM serves the catalogs of CatalogSources.
    pub fn olm_serves(&self, does: bool) {
        self.platform.olm.set(does.into());
    }

    /// How many instances use APIs that the next minor version of Kubernetes does not serve.
    pub fn instances_with_apis_that_go(&self, number: usize) {
        self.platform
            .going
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Reports whether the cluster may be upgraded, and what is to be said about that.
    pub fn gate(&self, verdict: &Verdict) {
        let reason = For {
            reason: verdict.reason,
        };
        let gauge = self.platform.upgradeable.get_or_create_owned(&reason);
        gauge.set(verdict.is_upgradeable.into());
        let mut last = self
            .platform
            .reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
            let number = verdict.counts.get(&effect).copied().unwrap_or_default();
            self.platform
                .concerns
                .get_or_create(&OfEffect { effect: name })
                .set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// Reports whether what is concluded stands in the status of an object.
    pub fn report(&self, name: &'static str, is_written: bool) {
        let gauge = self
            .platform
            .reports
            .get_or_create_owned(&OfReport { name });
        gauge.set(is_written.into());
    }

    /// Nothing is told in the status of that object.
    pub fn no_report(&self, name: &'static str) {
        self.platform.reports.remove(&OfReport { name });
    }

    /// How platform operators are: how many in which state, and of each whether it is installed.
    pub fn platform_operators(&self, tally: Tally, installed: &BTreeMap<String, bool>) {
        for (state, number) in [
            ("installed", tally.installed),
            ("unhealthy", tally.unhealthy),
            ("missing", tally.missing),
            ("late", tally.late),
        ] {
            self.platform
                .operators_by_state
                .get_or_create(&InState { state })
                .set(i64::try_from(number).unwrap_or(i64::MAX));
        }
        let mut named = self
            .platform
            .named
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let names: BTreeSet<String> = installed.keys().cloned().collect();
        for name in std::mem::replace(&mut *named, names) {
            if !installed.contains_key(&name) {
                self.platform
                    .operator_installed
                    .remove(&OfOperator { name });
            }
        }
        for (name, is_installed) in installed {
            let of = OfOperator { name: name.clone() };
            let is_installed = i64::from(*is_installed);
            self.platform
                .operator_installed
                .get_or_create(&of)
                .set(is_installed);
        }
    }
}
