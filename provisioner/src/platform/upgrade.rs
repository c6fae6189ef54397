//! What the next minor version of the cluster means for installed operators: which of them use APIs that it does not serve,
//! and which upgrade of an operator comes before.
//!
//! ```text
//!  status.revisions[].removedApis ────────┐
//!  ServiceAccounts of status.inventory ───┼──► messages about the next minor version of Kubernetes
//!  APIRequestCounts, every half an hour ──┘
//! ```
//!
//! A revision lists the uses of removed APIs by its objects and roles when it is created, so nothing is read here.
//! The next minor version of OpenShift has the next one of Kubernetes ([`convert::removal::kubernetes_of`]), so the
//! API server's own version is all that has to be known.

mod counts;
mod removed;
#[cfg(test)]
mod tests;

use catalog::{
    choose::{self, Ahead, Followed, Installed, Offer, Request},
    model::{PLAIN_V0, REGISTRY_V1, Release as Packed},
};
use convert::removal::calls::Calls;
use manifests::{
    api::{instance::BundleInstance, platform::PlatformOperator},
    openshift::Release,
    range::Range,
    version::{KubeVersion, Version},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    gate::{self, Remedy},
    operator::{here, plan},
};
use crate::{catalogs::Catalogs, context::Context};

pub use self::removed::{Removed, lists_accounts};

/// The calls to removed APIs that the cluster counted.
#[derive(Debug, Default)]
pub struct Uses {
    calls: watch::Sender<Calls>,
}

// === impl Uses ===

impl Uses {
    /// Returns the uses of APIs that the next minor version of Kubernetes removes, by an instance on a cluster that runs
    /// `running`, if the version is known.
    pub fn removed(&self, instance: &BundleInstance, running: Option<KubeVersion>) -> Removed {
        let of = |running| removed::removed(instance, &self.calls.borrow(), running);
        running.map_or_else(Removed::unknown, of)
    }

    /// Notifies of other counted calls.
    pub fn changes(&self) -> watch::Receiver<Calls> {
        self.calls.subscribe()
    }

    /// Replaces the counted calls.
    fn count(&self, counted: Calls) {
        self.calls.send_if_modified(|calls| {
            let is_other = *calls != counted;
            *calls = counted;
            is_other
        });
    }
}

/// Follows the counts of API calls until `stop` is cancelled.
pub async fn run(ctx: Context, stop: CancellationToken) {
    tokio::select! {
        () = counts::follow(&ctx, &ctx.uses) => {}
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
