//! The aggregator: tells the cluster how its platform operators are, and whether it may be upgraded.
//!
//! ```text
//!  PlatformOperators, BundleInstances, ClusterVersion, ─┐
//!  OperatorConditions, ClusterServiceVersions,          │
//!  Subscriptions, ClusterOperators of others,           ├─ follow ─ known ─┐
//!  what is written, which others may edit               ┘                  ├─ decide ─ publish ─ ClusterOperators, or
//!  catalogs, the clock ────────────────────────────────────────────────────┘                     the PlatformStatus
//! ```
//!
//! One loop looks at all of it whenever any of it changes, a moment later, so that many changes are one. Nothing is asked
//! at rest: each thing is watched while its kind is served, of each object as much is kept as decisions need, and time is
//! waited for where it alone changes something. Where something cannot be watched the gate is closed, and says why.

mod decide;
mod follow;
mod known;
mod publish;
mod read;
mod subscribed;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::runtime::watcher;
use manifests::{
    api::{
        config::CLUSTER_VERSION, instance::BundleInstance, platform::PlatformOperator,
        platform_status::NAME,
    },
    version::{KubeVersion, Version},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    decide::{Decided, Outside, Written, decide},
    follow::Follow,
    known::Facts,
    publish::Memory,
    subscribed::Entry,
};
use super::{
    aggregate::{AGGREGATED, CORE},
    gate::Identity,
    upgrade,
};
use crate::context::Context;

/// How long to wait for more after a change.
const PAUSE: Duration = Duration::from_millis(200);
/// How many times as long as a look took the next one waits: a look goes through all instances, and while many of them change
/// it is to take a small part of a processor, however many there are.
const REST: u32 = 19;
/// How many ClusterServiceVersions are listed at once: each may have a megabyte.
const PAGE: u32 = 50;

/// What the watches and the loop share.
struct Shared {
    ctx: Context,
    facts: Mutex<Facts>,
    changed: Notify,
}

/// Runs until `stop`.
pub(crate) async fn run(ctx: Context, stop: CancellationToken) {
    let shared = Shared {
        ctx,
        facts: Mutex::default(),
        changed: Notify::new(),
    };
    tokio::select! {
        () = shared.follow() => {}
        () = shared.conclude() => {}
        () = stop.cancelled() => {}
    }
}

impl Shared {
    async fn follow(&self) {
        let all = watcher::Config::default;
        let only = |name: &str| all().fields(&format!("metadata.name={name}"));
        let reported = async {
            tokio::join!(
                Box::pin(
                    Follow {
                        config: only(AGGREGATED),
                        read: read::cluster_operator,
                        place: |facts| &mut facts.aggregated,
                    }
                    .run(self)
                ),
                Box::pin(
                    Follow {
                        config: only(CORE),
                        read: read::cluster_operator,
                        place: |facts| &mut facts.core,
                    }
                    .run(self)
                ),
                Box::pin(
                    Follow {
                        config: only(NAME),
                        read: read::status,
                        place: |facts| &mut facts.status,
                    }
                    .run(self)
                ),
            )
        };
        let ours = async {
            tokio::join!(
                Box::pin(
                    Follow {
                        config: all(),
                        read: read::operator,
                        place: |facts| &mut facts.operators,
                    }
                    .run(self)
                ),
                Box::pin(
                    Follow {
                        config: all(),
                        read: read::instance,
                        place: |facts| &mut facts.instances,
                    }
                    .run(self)
                ),
            )
        };
        let others = async {
            tokio::join!(
                Box::pin(
                    Follow {
                        config: only(CLUSTER_VERSION),
                        read: read::version,
                        place: |facts| &mut facts.version,
                    }
                    .run(self)
                ),
                Box::pin(
                    Follow {
                        config: all(),
                        read: read::refusal,
                        place: |facts| &mut facts.refusals,
                    }
                    .run(self)
                ),
                Box::pin(self.follow_olm()),
            )
        };
        tokio::join!(reported, ours, others);
    }

    /// Follows the objects of OLM, and the ClusterOperators that name the payload's operators.
    async fn follow_olm(&self) {
        let paged = || watcher::Config::default().page_size(PAGE);
        tokio::join!(
            Box::pin(
                Follow {
                    // Copies in a thousand namespaces say nothing new.
                    config: paged().labels("!olm.copiedFrom"),
                    read: read::service,
                    place: |facts| &mut facts.services,
                }
                .run(self)
            ),
            Box::pin(
                Follow {
                    config: paged(),
                    read: read::subscription,
                    place: |facts| &mut facts.subscriptions,
                }
                .run(self)
            ),
            Box::pin(
                Follow {
                    config: paged(),
                    read: read::component,
                    place: |facts| &mut facts.components,
                }
                .run(self)
            ),
        );
    }

    /// Takes in what a watch tells.
    fn change(&self, change: impl FnOnce(&mut Facts) -> bool) {
        let is_news = change(&mut self.facts());
        if is_news {
            self.changed.notify_one();
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides and writes whenever something has changed.
    async fn conclude(&self) {
        let mut catalogs = self.ctx.catalogs.changes();
        let mut versions = self.ctx.versions.changes();
        let mut uses = self.ctx.uses.changes();
        let mut again: Option<Instant> = None;
        let mut memory = Memory::default();
        let mut pause = PAUSE;
        loop {
            let in_time = async {
                match again {
                    Some(again) => sleep_until(again).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                _ = catalogs.changed() => {}
                _ = versions.changed() => {}
                _ = uses.changed() => {}
                () = in_time => {}
            }
            sleep(pause).await;
            catalogs.mark_unchanged();
            versions.mark_unchanged();
            uses.mark_unchanged();
            again = self
                .look(&mut memory, &mut pause)
                .await
                .map(|wait| Instant::now() + wait);
        }
    }

    /// Decides and writes; when to look again, if nothing changes before, and at what pace.
    async fn look(&self, memory: &mut Memory, pause: &mut Duration) -> Option<Duration> {
        let ctx = &self.ctx;
        let version = ctx.versions.kubernetes_release().await.ok();
        let now = (ctx.now)();
        let began = Instant::now();
        let decided = self.decided(&memory.written(), version.as_ref(), now);
        *pause = (began.elapsed() * REST).max(PAUSE);
        let decided = decided?;
        ctx.catalogs.want_installed(decided.packages.clone());
        if let Some(maxima) = &decided.maxima {
            ctx.catalogs.keep(maxima.clone());
        }
        self.count(&decided);
        let again = self.publish(&decided, memory).await;
        let recheck = decided.recheck.map(|at| until(at, now));
        again.into_iter().chain(recheck).min()
    }

    fn decided(
        &self,
        written: &Written,
        kubernetes: Option<&Version>,
        now: Timestamp,
    ) -> Option<Decided> {
        let settings = &self.ctx.settings;
        let catalogs = &self.ctx.catalogs;
        let said = |it: &Identity| catalogs.said(&it.package, &it.bundle, &it.digest);
        let said_by = |entry: &Entry| {
            let Entry {
                catalog,
                package,
                bundle,
                version,
            } = entry;
            let said = catalogs.said_by(catalog, package, bundle, version)?;
            Some((said, catalogs.lowest(package, bundle, version)))
        };
        let remedy = |instance: &BundleInstance, owner: Option<&PlatformOperator>, release| {
            upgrade::remedy(instance, owner, catalogs, (release, kubernetes))
        };
        let running = kubernetes.map(|version| KubeVersion::new(version.major, version.minor));
        let removed = |instance: &BundleInstance| self.ctx.uses.removed(instance, running);
        let outside = Outside {
            release: settings.release.as_deref(),
            system_namespace: &settings.system_namespace,
            catalogs: &said,
            subscribed: &said_by,
            kept: catalogs.kept(),
            remedy: &remedy,
            removed: &removed,
            written,
            minor: kubernetes.map(|it| format!("{}.{}", it.major, it.minor)),
            now,
        };
        decide(&self.facts(), &outside)
    }

    fn count(&self, decided: &Decided) {
        let metrics = &self.ctx.metrics;
        metrics.gate(&decided.verdict);
        metrics.instances_with_apis_that_go(decided.users);
        if let Some(tally) = decided.tally {
            metrics.platform_operators(tally, &decided.operators);
        }
    }
}

/// How long it is until then: not at all if it has passed.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
