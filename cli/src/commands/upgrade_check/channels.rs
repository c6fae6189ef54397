//! Update channels of operators: the channels and versions of PlatformOperators, and the channels of OLM's Subscriptions.
//! They only decide which version can come next.

use std::collections::BTreeMap;

use kube::{Api, ResourceExt as _, api::ListParams};
use manifests::{
    api::{
        bundle_instance::BundleInstance,
        labels,
        olm::Subscription,
        platform_operator::{PlatformOperator, PlatformOperatorSpec},
    },
    version_range::Range,
};

use super::cluster_state::{each, unless_forbidden};
use crate::cluster::{Cluster, live::LiveObjects};

const PAGE_SIZE: u32 = 500;

/// Channels and versions that PlatformOperators and Subscriptions request.
#[derive(Default)]
pub(super) struct ChannelMap {
    /// Specs by the names of PlatformOperators.
    platform: BTreeMap<String, PlatformOperatorSpec>,
    subscriptions: Vec<Subscription>,
}

impl ChannelMap {
    /// Reads the channels from the cluster.
    pub(super) async fn all(cluster: &Cluster, live: &mut LiveObjects<'_>) -> anyhow::Result<Self> {
        Ok(Self {
            platform: platform_operators(cluster, live).await?,
            subscriptions: subscriptions(cluster, live).await?,
        })
    }

    /// Returns the channel and the version range that the PlatformOperator of an instance requests.
    pub(super) fn of_instance(&self, instance: &BundleInstance) -> (Option<String>, Option<Range>) {
        let owner = instance.labels().get(labels::PLATFORM_OPERATOR);
        let Some(spec) = owner.and_then(|owner| self.platform.get(owner)) else {
            return (None, None);
        };
        let range = spec.version.as_deref().map(Range::parse);
        // The provisioner reports an invalid range.
        (spec.channel.clone(), range.and_then(Result::ok))
    }

    /// Returns the channel from which a ClusterServiceVersion was installed.
    pub(super) fn of_csv(
        &self,
        namespace: &str,
        name: &str,
        package: Option<&str>,
    ) -> Option<String> {
        let all = self.subscriptions.iter();
        let mut subscriptions = all
            .filter(|subscription| subscription.metadata.namespace.as_deref() == Some(namespace));
        let by_name = subscriptions
            .clone()
            .find(|subscription| subscription.status.installed_csv == name);
        let found = by_name.or_else(|| {
            subscriptions.find(|subscription| Some(subscription.spec.name.as_str()) == package)
        })?;
        Some(found.spec.channel.clone()).filter(|channel| !channel.is_empty())
    }
}

async fn platform_operators(
    cluster: &Cluster,
    live: &mut LiveObjects<'_>,
) -> anyhow::Result<BTreeMap<String, PlatformOperatorSpec>> {
    let mut all = BTreeMap::new();
    let served = live
        .kind("platform.openshift.io/v1alpha1", "PlatformOperator")
        .await?;
    if served.is_none() {
        return Ok(all);
    }
    let api: Api<PlatformOperator> = Api::all(cluster.client.clone());
    let listed = each(&api, ListParams::default().limit(PAGE_SIZE), |operator| {
        all.insert(operator.name_any(), operator.spec);
    })
    .await;
    let missing = "the channels and versions of PlatformOperators";
    unless_forbidden(cluster, listed, missing, "failed to list PlatformOperators")?;
    Ok(all)
}

async fn subscriptions(
    cluster: &Cluster,
    live: &mut LiveObjects<'_>,
) -> anyhow::Result<Vec<Subscription>> {
    let mut all = Vec::new();
    let served = live
        .kind("operators.coreos.com/v1alpha1", "Subscription")
        .await?;
    if served.is_none() {
        return Ok(all);
    }
    let api: Api<Subscription> = Api::all(cluster.client.clone());
    let params = ListParams::default().limit(PAGE_SIZE);
    let listed = each(&api, params, |subscription| all.push(subscription)).await;
    let missing = "the channels of Subscriptions";
    unless_forbidden(cluster, listed, missing, "failed to list Subscriptions")?;
    Ok(all)
}
