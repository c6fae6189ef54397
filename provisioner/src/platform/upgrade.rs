//! What the next minor version of the cluster means for installed operators: which of them use APIs that it does not serve,
//! and which upgrade of an operator comes before.
//!
//! ```text
//!  inventory: every object, in which API ──┐
//!  roles of the inventory, read once ──────┼── what goes with the next Kubernetes ──► a sentence each
//!  APIRequestCounts, every half an hour ───┘
//! ```
//!
//! The inventory is in the status, and tells in which API an object was applied; only roles have to be read, with the rights
//! of the instance's own account. That is done by one task, one instance at a time, and kept until what is applied is
//! something else, or the cluster another one; nobody waits for it. The bundle itself is not asked: a store that was lost
//! would be filled again for it.
//!
//! The next minor version of OpenShift has the next one of Kubernetes ([`convert::removal::kubernetes_of`]), so the
//! API server's own version is all that has to be known.

mod counts;
mod look;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::{
    choose::{self, Ahead, Followed, Installed, Offer, Request},
    model::{PLAIN_V0, REGISTRY_V1, Release as Packed},
};
use manifests::{
    api::{instance::BundleInstance, platform::PlatformOperator},
    openshift::Release,
    range::Range,
    version::Version,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::state::{State, Step};
use super::{
    gate::{self, Remedy},
    operator::{here, plan},
};
use crate::{catalogs::Catalogs, context::Context};
use apply::backoff::Pauses;

/// What installed instances use of APIs that go with the next minor version of Kubernetes.
#[derive(Debug, Default)]
pub struct Uses {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    /// There is something to look at.
    work: Notify,
}

// === impl Uses ===

impl Uses {
    /// What an instance uses, a sentence each; nothing before it was looked at for the first time. What is not known yet is
    /// looked at from now on, and `changes` tells when it is known; until then, what was known last is what counts.
    ///
    /// Of the instance no more is looked at than what tells whether it is known: what is needed besides is asked for then.
    pub fn of(&self, instance: &BundleInstance) -> Option<Arc<[String]>> {
        let (told, is_known) = self.state().of(instance);
        if !is_known {
            self.work.notify_one();
        }
        told
    }

    /// Counts the changes of what is known.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Forgets instances that are gone.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.state().retain(is_there);
    }

    /// How many instances use something that goes.
    pub fn count(&self) -> usize {
        self.state().count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known.
    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        if change(&mut self.state()) {
            self.changes.send_modify(|it| *it = it.wrapping_add(1));
        }
    }

    /// Looks at one instance after the other.
    async fn look(&self, ctx: &Context) {
        let mut versions = ctx.versions.changes();
        let mut pauses = Pauses::default();
        loop {
            versions.mark_unchanged();
            let step = match ctx.versions.kubernetes().await {
                Ok(version) => {
                    self.change(|state| state.runs(version));
                    self.state().next()
                }
                Err(error) => {
                    debug!(%error, "the version of the cluster is not known, and so not what goes with the next one");
                    Some(Step::Later)
                }
            };
            match step {
                Some(Step::Look(name, span)) => match look::at(ctx, &name, span).await {
                    Ok(seen) => {
                        if let Some((instance, seen)) = seen {
                            self.change(|state| state.learn(&instance, span, seen));
                        }
                        ctx.metrics.instances_with_apis_that_go(self.count());
                        pauses = Pauses::default();
                        continue;
                    }
                    Err(error) => {
                        debug!(%error, "an instance could not be looked at for APIs that go; it is tried again");
                        self.state().ask(name);
                    }
                },
                Some(Step::Later) => {}
                None => {
                    tokio::select! {
                        () = self.work.notified() => {}
                        changed = versions.changed() => if changed.is_err() { return },
                    }
                    continue;
                }
            }
            tokio::time::sleep(pauses.next().unwrap_or_default()).await;
        }
    }
}

/// Finds out what is asked for, until `stop`.
pub async fn run(ctx: Context, stop: CancellationToken) {
    let uses = &ctx.uses;
    tokio::select! {
        () = uses.look(&ctx) => {}
        () = counts::follow(&ctx, uses) => {}
        () = stop.cancelled() => {}
    }
}

/// What can be done about an operator that keeps the cluster from its next release. How a platform operator, the `owner`, is
/// upgraded is written in its spec.
pub fn remedy(
    instance: &BundleInstance,
    owner: Option<&PlatformOperator>,
    catalogs: &Catalogs,
    running: (Release, Option<&Version>),
) -> Remedy {
    let Some(package) = package(instance) else {
        return Remedy::None;
    };
    let only = owner.and_then(|it| plan::asked_catalog(it, Some(instance)));
    let offers = catalogs.offers(&package, only.as_ref());
    match way_on(instance, owner, &offers.list(), running) {
        Remedy::None if !catalogs.are_listed() => {
            Remedy::Unread("which catalogs there are is not known yet".to_owned())
        }
        remedy => remedy,
    }
}

/// The package of what is installed.
fn package(instance: &BundleInstance) -> Option<String> {
    let known = gate::identity(instance).map(|it| it.package);
    known.or_else(|| instance.status.as_ref()?.facts.package.clone())
}

/// The newest version that an installed operator can be upgraded to on the cluster as it is, and that runs on the next
/// release, too; `offers` are of its package.
fn way_on(
    instance: &BundleInstance,
    owner: Option<&PlatformOperator>,
    offers: &[Offer<'_>],
    (running, kubernetes): (Release, Option<&Version>),
) -> Remedy {
    let (Some(package), Some(here)) = (package(instance), here::installed(instance)) else {
        return Remedy::None;
    };
    let installed = Installed {
        name: here.name,
        version: here.version.map(|version| Packed {
            version,
            release: here.release,
        }),
        catalog: here.catalog,
    };
    let spec = owner.map(|it| &it.spec);
    let range = spec.and_then(|it| Range::parse(it.version.as_deref()?).ok());
    let request = Request {
        package: &package,
        channel: spec.and_then(|it| it.channel.as_deref()),
        range: range.as_ref(),
        minor: None,
        newest: None,
        installed: Some(&installed),
        openshift: Some(running),
        kubernetes,
        media_types: &[REGISTRY_V1, PLAIN_V0],
        overrides: &[],
    };
    let followed = match owner {
        Some(_) => Followed::Default,
        None => Followed::Any,
    };
    match choose::ahead(&request, followed, running.next(), offers) {
        Ahead::To(choice) => Remedy::Upgrade(choice.version.to_string()),
        Ahead::Nothing => Remedy::None,
        Ahead::Unknown(catalog) => Remedy::Unread(format!("catalog {catalog} cannot be read now")),
    }
}
