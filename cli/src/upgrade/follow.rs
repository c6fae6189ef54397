//! What people follow in catalogs: the channels and versions of PlatformOperators, and the channels of an OLM's
//! Subscriptions. It says which version can come next, and nothing else depends on it.

use std::collections::BTreeMap;

use kube::{Api, ResourceExt as _, api::ListParams, core::DynamicObject};
use manifests::{
    api::{
        instance::BundleInstance,
        labels,
        platform::{PlatformOperator, PlatformOperatorSpec},
    },
    object::text,
    range::Range,
};

use super::read::{each, unless_forbidden};
use crate::{cluster::Cluster, live::Live};

const PAGE: u32 = 500;

/// All that is followed.
#[derive(Default)]
pub(super) struct Followed {
    /// By the names of PlatformOperators.
    platform: BTreeMap<String, PlatformOperatorSpec>,
    subscriptions: Vec<Subscription>,
}

struct Subscription {
    namespace: String,
    package: String,
    installed: String,
    channel: Option<String>,
}

impl Followed {
    /// Reads what the cluster has of it.
    pub(super) async fn all(cluster: &Cluster, live: &mut Live<'_>) -> anyhow::Result<Self> {
        Ok(Self {
            platform: platform_operators(cluster, live).await?,
            subscriptions: subscriptions(cluster, live).await?,
        })
    }

    /// The channel and the versions that the PlatformOperator of an instance asks for.
    pub(super) fn of_instance(&self, instance: &BundleInstance) -> (Option<String>, Option<Range>) {
        let owner = instance.labels().get(labels::PLATFORM_OPERATOR);
        let Some(spec) = owner.and_then(|owner| self.platform.get(owner)) else {
            return (None, None);
        };
        let range = spec.version.as_deref().map(Range::parse);
        // The provisioner tells what is wrong with a range.
        (spec.channel.clone(), range.and_then(Result::ok))
    }

    /// The channel that a ClusterServiceVersion came from.
    pub(super) fn of_csv(
        &self,
        namespace: &str,
        name: &str,
        package: Option<&str>,
    ) -> Option<String> {
        let all = self.subscriptions.iter();
        let mut here = all.filter(|it| it.namespace == namespace);
        let by_name = here.clone().find(|it| it.installed == name);
        let found = by_name.or_else(|| here.find(|it| Some(it.package.as_str()) == package))?;
        found.channel.clone()
    }
}

async fn platform_operators(
    cluster: &Cluster,
    live: &mut Live<'_>,
) -> anyhow::Result<BTreeMap<String, PlatformOperatorSpec>> {
    let mut all = BTreeMap::new();
    let served = live
        .kind("platform.openshift.io/v1alpha1", "PlatformOperator")
        .await?;
    if served.is_none() {
        return Ok(all);
    }
    let api: Api<PlatformOperator> = Api::all(cluster.client.clone());
    let listed = each(&api, ListParams::default().limit(PAGE), |it| {
        all.insert(it.name_any(), it.spec);
    })
    .await;
    let missing = "which channels and versions PlatformOperators ask for";
    unless_forbidden(cluster, listed, missing, "failed to list PlatformOperators")?;
    Ok(all)
}

async fn subscriptions(
    cluster: &Cluster,
    live: &mut Live<'_>,
) -> anyhow::Result<Vec<Subscription>> {
    let mut all = Vec::new();
    let kind = live
        .kind("operators.coreos.com/v1alpha1", "Subscription")
        .await?;
    let Some(kind) = kind else {
        return Ok(all);
    };
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &kind.resource);
    let listed = each(&api, ListParams::default().limit(PAGE), |it| {
        let of = |path: &[&str]| text(&it.data, path).unwrap_or_default().to_owned();
        all.push(Subscription {
            namespace: it.namespace().unwrap_or_default(),
            package: of(&["spec", "name"]),
            installed: of(&["status", "installedCSV"]),
            channel: Some(of(&["spec", "channel"])).filter(|it| !it.is_empty()),
        });
    })
    .await;
    let missing = "which channels Subscriptions follow";
    unless_forbidden(cluster, listed, missing, "failed to list Subscriptions")?;
    Ok(all)
}
