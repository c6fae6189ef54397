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
    model::{PLAIN_V0, REGISTRY_V1, Release as Packed},
};
use convert::removed_apis::request_counts::ApiCalls;
use manifests::{
    api::{bundle_instance::BundleInstance, platform_operator::PlatformOperator},
    openshift::Release,
    version::{KubeVersion, Version},
    version_range::Range,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::upgradeable::{self, UpgradeRemedy};
use crate::controllers::{
    catalog_source::Catalogs,
    context::Context,
    platform_operator::{choose::requested_catalog, installed},
};

pub use self::uses::{Removed, lists_accounts};

/// Calls to removed APIs that the cluster counted.
#[derive(Debug, Default)]
pub struct RemovedApiUsage {
    calls: watch::Sender<ApiCalls>,
}

// === impl RemovedApiUsage ===

impl RemovedApiUsage {
    /// Returns the uses of APIs that the next minor version of Kubernetes removes, by an instance on a cluster that runs
    /// `running`, if the version is known.
    pub fn removed(&self, instance: &BundleInstance, running: Option<KubeVersion>) -> Removed {
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
    instance: &BundleInstance,
    owner: Option<&PlatformOperator>,
    catalogs: &Catalogs,
    running: (Release, Option<&Version>),
) -> UpgradeRemedy {
    let Some(package) = package(instance) else {
        return UpgradeRemedy::None;
    };
    let only = owner.and_then(|operator| requested_catalog(operator, Some(instance)));
    let offers = catalogs.offers(&package, only.as_ref());
    match upgrade_path(instance, owner, &offers.list(), running) {
        UpgradeRemedy::None if !catalogs.is_synced() => {
            UpgradeRemedy::Unknown("catalogs have not been listed yet".to_owned())
        }
        remedy => remedy,
    }
}

/// Returns the package of the installed bundle.
fn package(instance: &BundleInstance) -> Option<String> {
    let package = upgradeable::identity(instance).map(|identity| identity.package);
    package.or_else(|| instance.status.as_ref()?.facts.package.clone())
}

/// Returns the newest version that the operator can be upgraded to on the current cluster and that supports the next
/// release. `offers` are those of its package.
fn upgrade_path(
    instance: &BundleInstance,
    owner: Option<&PlatformOperator>,
    offers: &[Offer<'_>],
    (running, kubernetes): (Release, Option<&Version>),
) -> UpgradeRemedy {
    let (Some(package), Some(bundle)) = (package(instance), installed::installed(instance)) else {
        return UpgradeRemedy::None;
    };
    let installed = Installed {
        name: bundle.name,
        version: bundle.version.map(|version| Packed {
            version,
            release: bundle.release,
        }),
        catalog: bundle.catalog,
    };
    let spec = owner.map(|operator| &operator.spec);
    let range = spec.and_then(|spec| Range::parse(spec.version.as_deref()?).ok());
    let request = Request {
        package: &package,
        channel: spec.and_then(|spec| spec.channel.as_deref()),
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
