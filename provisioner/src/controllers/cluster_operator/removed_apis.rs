//! Effect of the next minor version of the cluster on installed operators: the removed APIs that they use, and the upgrade
//! of an operator that has to precede it.
//!
//! ```text
//! status.revisions[].removedApis ────────┐
//! ServiceAccounts of status.inventory ───┼──► messages about the next minor version of Kubernetes
//! APIRequestCounts, every 30 minutes ────┘
//! ```
//!
//! A revision lists the uses of removed APIs by its objects and roles when it is created, so no content is read here. The
//! next minor version of OpenShift includes the next one of Kubernetes ([`convert::removed_apis::kubernetes_of`]), so the
//! version of the API server is sufficient.

mod request_counts;
#[cfg(test)]
mod tests;
mod uses;

use catalog::{
    choose::{self, ChannelScope, Installed, Offer, Request, RequiredUpgrade},
    model::{PLAIN_V0, REGISTRY_V1},
};
use convert::removed_apis::request_counts::ApiCalls;
use manifests::{
    api::platform_operator::{CatalogRef, PlatformOperator},
    openshift::Release,
    version::{KubeVersion, Version},
    version_range::Range,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{instance::ObservedInstance, upgradeable::UpgradeRemedy};
use crate::controllers::{
    catalog_source::Catalogs, context::Context, platform_operator::choose::requested_catalog,
};

pub use self::uses::Removed;

/// Calls to removed APIs that the cluster counted.
#[derive(Debug, Default)]
pub struct RemovedApiUsage {
    calls: watch::Sender<ApiCalls>,
}

// === impl RemovedApiUsage ===

impl RemovedApiUsage {
    /// Returns the uses of APIs that the next minor version of Kubernetes removes, by an instance on a cluster that runs
    /// `running`, if the version is known.
    pub fn removed(&self, instance: &ObservedInstance, running: Option<KubeVersion>) -> Removed {
        let of = |running| uses::removed(instance, &self.calls.borrow(), running);
        running.map_or_else(Removed::unknown, of)
    }

    /// Returns a receiver of the counted calls, which is notified when they change.
    pub fn changes(&self) -> watch::Receiver<ApiCalls> {
        self.calls.subscribe()
    }

    /// Replaces the counted calls.
    fn count(&self, counted: ApiCalls) {
        self.calls.send_if_modified(|calls| {
            let is_other = *calls != counted;
            *calls = counted;
            is_other
        });
    }
}

/// Follows the counts of API calls until `stop` is canceled.
pub async fn run(ctx: Context, stop: CancellationToken) {
    tokio::select! {
        () = request_counts::follow(&ctx, &ctx.removed_apis) => {}
        () = stop.cancelled() => {}
    }
}

/// Returns the remedy for an operator that blocks cluster upgrades. `owner` is its platform operator, whose spec determines
/// the channel and the catalog.
pub fn remedy(
    instance: &ObservedInstance,
    owner: Option<&PlatformOperator>,
    catalogs: &Catalogs,
    running: (Release, Option<&Version>),
) -> UpgradeRemedy {
    let Some(package) = instance.package.as_deref() else {
        return UpgradeRemedy::None;
    };
    let only = owner.and_then(|operator| resolve_catalog(operator, instance.installed.as_ref()));
    let offers = catalogs.offers(package, only.as_ref());
    match upgrade_path(instance, owner, &offers.list(), running) {
        UpgradeRemedy::None if !catalogs.is_synced() => {
            UpgradeRemedy::Unknown("catalogs have not been listed yet".to_owned())
        }
        remedy => remedy,
    }
}

/// Returns the catalog that a platform operator requests. If `spec.catalog` has no namespace, that of the installed bundle's
/// catalog with the same name is used, or else the recorded one.
fn resolve_catalog(
    operator: &PlatformOperator,
    installed: Option<&Installed>,
) -> Option<CatalogRef> {
    let Some(chosen) = installed.and_then(|installed| installed.catalog.as_ref()) else {
        return requested_catalog(operator, None);
    };
    let mut requested = operator.spec.catalog.clone()?;
    if requested.namespace.is_none()
        && let Some((namespace, name)) = chosen.split_once('/')
        && name == requested.name
    {
        requested.namespace = Some(namespace.to_owned());
    }
    Some(requested)
}

/// Returns the newest version that the operator can be upgraded to on the current cluster and that supports the next
/// release. `offers` are those of its package.
fn upgrade_path(
    instance: &ObservedInstance,
    owner: Option<&PlatformOperator>,
    offers: &[Offer<'_>],
    (running, kubernetes): (Release, Option<&Version>),
) -> UpgradeRemedy {
    let (Some(package), Some(installed)) = (instance.package.as_deref(), &instance.installed)
    else {
        return UpgradeRemedy::None;
    };
    let spec = owner.map(|operator| &operator.spec);
    let range = spec.and_then(|spec| Range::parse(spec.version.as_deref()?).ok());
    let request = Request {
        package,
        channel: spec.and_then(|spec| spec.channel.as_deref()),
        range: range.as_ref(),
        minor: None,
        newest: None,
        installed: Some(installed),
        openshift: Some(running),
        kubernetes,
        media_types: &[REGISTRY_V1, PLAIN_V0],
        overrides: &[],
    };
    let followed = match owner {
        Some(_) => ChannelScope::Default,
        None => ChannelScope::Any,
    };
    match choose::ahead(&request, followed, running.next(), offers) {
        RequiredUpgrade::UpgradeTo(choice) => UpgradeRemedy::Upgrade(choice.version.to_string()),
        RequiredUpgrade::None => UpgradeRemedy::None,
        RequiredUpgrade::Unknown(catalog) => {
            UpgradeRemedy::Unknown(format!("catalog {catalog} is currently unavailable"))
        }
    }
}
