//! What is told of catalogs, platform operators and upgrades of the cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use manifests::api::platform_status::Effect;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
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

impl Platform {
    /// What is told of catalogs, platform operators and upgrades of the cluster.
    pub(super) fn register(&self, ours: &mut Registry) {
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
}

impl Metrics {
    /// Whether a catalog can be read.
    pub fn catalog(&self, key: &Key, is_available: bool) {
        let gauge = self.platform.catalogs.get_or_create_owned(&key.into());
        gauge.set(is_available.into());
    }

    /// A catalog is gone.
    pub fn catalog_gone(&self, key: &Key) {
        self.platform.catalogs.remove(&key.into());
    }

    /// How many instances use APIs that the next minor version of Kubernetes does not serve.
    pub fn instances_with_apis_that_go(&self, number: usize) {
        self.platform
            .going
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Whether the cluster may be upgraded, and what is to be said about that.
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
            let concerns = verdict.concerns.iter();
            let number = concerns.filter(|it| it.effect == effect).count();
            self.platform
                .concerns
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
