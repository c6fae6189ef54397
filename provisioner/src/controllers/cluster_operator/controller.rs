//! Controller of the ClusterOperators: reports the state of all platform operators to the cluster, and whether the
//! cluster may be upgraded.
//!
//! ```text
//! PlatformOperators, BundleInstances, ClusterVersion, ─┐
//! OperatorConditions, ClusterServiceVersions,          │
//! Subscriptions, ClusterOperators of other components, ├─ watch ─ cache ──┐
//! written statuses, which other clients may edit       ┘                  ├─ decide ─ publish ─ ClusterOperators, or
//! catalogs, clock ────────────────────────────────────────────────────────┘                     the PlatformStatus
//! ```
//!
//! One loop evaluates all inputs a short time after any of them changes, so that many changes cause one evaluation. Without
//! changes it sends no requests: each kind is watched while it is served, only the fields that decisions need are cached,
//! and timers run only for changes that time causes. If a kind cannot be watched, the gate blocks cluster upgrades and
//! reports the reason.

use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::watcher;
use manifests::{
    api::{
        bundle_instance::BundleInstance, config::CLUSTER_VERSION,
        platform_operator::PlatformOperator, platform_status::NAME,
    },
    version::{KubeVersion, Version},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    cache::ClusterState,
    decide::{Decision, DecisionInputs, LastStatuses, decide},
    instance::ObservedInstance,
    model::{AGGREGATED, CORE},
    publish::PublishState,
    reduce, removed_apis,
    subscriptions::Entry,
    upgradeable::Identity,
    watch::Informer,
};
use crate::controllers::context::Context;

/// Minimum delay between a change and its evaluation, which collects further changes.
const MIN_DELAY: Duration = Duration::from_millis(200);
/// Maximum delay. An evaluation of tens of thousands of instances takes longer than the ratio allows.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Ratio of the delay to the duration of the previous evaluation. An evaluation reads all instances. While many of them
/// change, it uses a small part of a processor, regardless of their number.
const DELAY_RATIO: u32 = 99;
/// Page size of lists of ClusterServiceVersions, each of which may reach a megabyte.
const PAGE_SIZE: u32 = 50;

/// State that the watches and the loop share.
pub(super) struct AggregatorState {
    pub(super) ctx: Context,
    pub(super) facts: Mutex<ClusterState>,
    pub(super) changed: Notify,
}

/// Runs until `stop` is canceled.
pub(crate) async fn run(ctx: Context, stop: CancellationToken) {
    let shared = AggregatorState {
        ctx,
        facts: Mutex::default(),
        changed: Notify::new(),
    };
    tokio::select! {
        () = shared.follow() => {}
        () = shared.run_loop() => {}
        () = stop.cancelled() => {}
    }
}

impl AggregatorState {
    async fn follow(&self) {
        let all = watcher::Config::default;
        let only = |name: &str| all().fields(&format!("metadata.name={name}"));
        let reported = async {
            tokio::join!(
                Box::pin(
                    Informer {
                        config: only(AGGREGATED),
                        read: reduce::cluster_operator,
                        place: |facts| &mut facts.aggregated,
                    }
                    .run(self)
                ),
                Box::pin(
                    Informer {
                        config: only(CORE),
                        read: reduce::cluster_operator,
                        place: |facts| &mut facts.core,
                    }
                    .run(self)
                ),
                Box::pin(
                    Informer {
                        config: only(NAME),
                        read: reduce::status,
                        place: |facts| &mut facts.status,
                    }
                    .run(self)
                ),
            )
        };
        let own = async {
            tokio::join!(
                Box::pin(
                    Informer {
                        config: all(),
                        read: reduce::operator,
                        place: |facts| &mut facts.operators,
                    }
                    .run(self)
                ),
                Box::pin(
                    Informer {
                        config: all(),
                        read: |instance: BundleInstance| Some(ObservedInstance::new(&instance)),
                        place: |facts| &mut facts.instances,
                    }
                    .run(self)
                ),
            )
        };
        let others = async {
            tokio::join!(
                Box::pin(
                    Informer {
                        config: only(CLUSTER_VERSION),
                        read: reduce::version,
                        place: |facts| &mut facts.version,
                    }
                    .run(self)
                ),
                Box::pin(
                    Informer {
                        config: all(),
                        read: reduce::refusal,
                        place: |facts| &mut facts.refusals,
                    }
                    .run(self)
                ),
                Box::pin(self.follow_olm()),
            )
        };
        tokio::join!(reported, own, others);
    }

    /// Watches the objects of OLM, and the ClusterOperators that name the operators of the payload.
    async fn follow_olm(&self) {
        let paged = || watcher::Config::default().page_size(PAGE_SIZE);
        tokio::join!(
            Box::pin(
                Informer {
                    // Copies in other namespaces have no further information.
                    config: paged().labels("!olm.copiedFrom"),
                    read: reduce::service,
                    place: |facts| &mut facts.services,
                }
                .run(self)
            ),
            Box::pin(
                Informer {
                    config: paged(),
                    read: reduce::subscription,
                    place: |facts| &mut facts.subscriptions,
                }
                .run(self)
            ),
            Box::pin(
                Informer {
                    config: paged(),
                    read: reduce::component,
                    place: |facts| &mut facts.components,
                }
                .run(self)
            ),
        );
    }

    /// Applies the change of a watch, and wakes the loop if the cached objects changed.
    pub(super) fn change(&self, change: impl FnOnce(&mut ClusterState) -> bool) {
        let is_news = change(&mut self.facts());
        if is_news {
            self.changed.notify_one();
        }
    }

    pub(super) fn facts(&self) -> MutexGuard<'_, ClusterState> {
        self.facts.lock()
    }

    /// Evaluates the inputs and writes the statuses after each change.
    async fn run_loop(&self) {
        let mut catalogs = self.ctx.catalogs.changes();
        let mut versions = self.ctx.versions.changes();
        let mut uses = self.ctx.removed_apis.changes();
        let mut next: Option<Instant> = None;
        let mut state = PublishState::default();
        let mut delay = MIN_DELAY;
        loop {
            let timer = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                _ = catalogs.changed() => {}
                _ = versions.changed() => {}
                _ = uses.changed() => {}
                () = timer => {}
            }
            sleep(delay).await;
            catalogs.mark_unchanged();
            versions.mark_unchanged();
            uses.mark_unchanged();
            next = self
                .reconcile(&mut state, &mut delay)
                .await
                .map(|wait| Instant::now() + wait);
        }
    }

    /// Evaluates the inputs once and writes the statuses. Returns the delay until the next evaluation without a change, and
    /// sets the delay after a change.
    async fn reconcile(&self, state: &mut PublishState, delay: &mut Duration) -> Option<Duration> {
        let ctx = &self.ctx;
        let version = ctx.versions.kubernetes_release().await.ok();
        let now = (ctx.now)();
        let started = Instant::now();
        let decided = self.decided(&state.written(), version.as_ref(), now);
        *delay = (started.elapsed() * DELAY_RATIO).clamp(MIN_DELAY, MAX_DELAY);
        let decided = decided?;
        ctx.catalogs.track_installed(decided.packages.clone());
        if let Some(maxima) = &decided.maxima {
            ctx.catalogs.record_maxima(maxima.clone());
        }
        self.count(&decided);
        let next = self.publish(&decided, state).await;
        let recheck = decided.recheck.map(|at| until(at, now));
        next.into_iter().chain(recheck).min()
    }

    fn decided(
        &self,
        written: &LastStatuses,
        kubernetes: Option<&Version>,
        now: Timestamp,
    ) -> Option<Decision> {
        let settings = &self.ctx.settings;
        let catalogs = &self.ctx.catalogs;
        let declared = |identity: &Identity| {
            catalogs.declared_maximum(&identity.package, &identity.bundle, &identity.digest)
        };
        let declared_by = |entry: &Entry| {
            let Entry {
                catalog,
                package,
                bundle,
                version,
            } = entry;
            let declared = catalogs.said_by(catalog, package, bundle, version)?;
            Some((declared, catalogs.lowest(package, bundle, version)))
        };
        let remedy = |instance: &ObservedInstance, owner: Option<&PlatformOperator>, release| {
            removed_apis::remedy(instance, owner, catalogs, (release, kubernetes))
        };
        let running = kubernetes.map(|version| KubeVersion::new(version.major, version.minor));
        let removed =
            |instance: &ObservedInstance| self.ctx.removed_apis.removed(instance, running);
        let outside = DecisionInputs {
            release: settings.release.as_deref(),
            system_namespace: &settings.system_namespace,
            catalogs: &declared,
            subscribed: &declared_by,
            recorded_maxima: catalogs.recorded_maxima(),
            remedy: &remedy,
            removed: &removed,
            written,
            minor: kubernetes.map(|version| format!("{}.{}", version.major, version.minor)),
            now,
        };
        decide(&self.facts(), &outside)
    }

    fn count(&self, decided: &Decision) {
        let metrics = &self.ctx.metrics;
        let verdict = &decided.verdict;
        metrics.upgradeable(verdict.is_upgradeable, verdict.reason, &verdict.counts);
        metrics.instances_with_apis_that_go(decided.users);
        if let Some(tally) = decided.tally {
            metrics.platform_operators(tally, &decided.operators);
        }
    }
}

/// Returns the time until `at`; zero if it has passed.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
