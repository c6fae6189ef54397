//! Operators that OLM has installed, and the locations of its catalogs.

use std::collections::BTreeSet;

use convert::{
    olm,
    removed_apis::{UsageScan, request_counts::ApiCalls},
};
use kube::{Api, ResourceExt as _, api::ListParams};
use manifests::{
    api::{
        catalog_source::{CatalogSource, GROUP, Origin},
        limits,
        olm::ClusterServiceVersion,
        operator_condition::OperatorCondition,
        platform_status::{Concern, Effect},
    },
    object::{Identity, truncate},
};

use super::{
    assess::InstalledOperator,
    channels::ChannelMap,
    cluster_state::{Accounts, each},
    target::Releases,
};
use crate::cluster::{Cluster, live::LiveObjects};

pub(super) const KIND: &str = "ClusterServiceVersion";
/// Namespace of OpenShift's catalogs.
const MARKETPLACE: &str = "openshift-marketplace";
/// Number of ClusterServiceVersions per list page: each may have images and descriptions of a megabyte.
const PAGE_SIZE: u32 = 20;
/// Maximum number of ServiceAccounts of one operator that are considered.
const MAX_ACCOUNTS: usize = 256;

/// Returns the ClusterServiceVersions of a cluster; `None` if the cluster has no OLM.
pub(super) async fn operators(
    cluster: &Cluster,
    live: &mut LiveObjects<'_>,
    span: (&Releases, &Releases),
    context: &ClusterContext<'_>,
) -> anyhow::Result<Option<Vec<InstalledOperator>>> {
    let served = live.kind(&format!("{GROUP}/v1alpha1"), KIND).await?;
    if served.is_none() {
        return Ok(None);
    }
    let api: Api<ClusterServiceVersion> = Api::all(cluster.client.clone());
    // There may be thousands of copies.
    let params = ListParams::default()
        .limit(PAGE_SIZE)
        .labels(&format!("!{}", olm::COPIED));
    let mut found = Vec::new();
    each(&api, params, |csv| {
        found.extend(operator(&csv, span, context));
    })
    .await
    .map_err(|error| cluster.explain("failed to list ClusterServiceVersions", error))?;
    Ok(Some(found))
}

/// Information about the cluster that is needed for each operator.
pub(super) struct ClusterContext<'a> {
    pub(super) conditions: &'a [OperatorCondition],
    pub(super) calls: &'a ApiCalls,
    /// Concerns that the provisioner reports.
    pub(super) concerns: &'a [Concern],
    /// Requested channels; empty without catalogs.
    pub(super) channels: &'a ChannelMap,
}

impl ClusterContext<'_> {
    /// Returns the message of the provisioner about an operator that blocks the cluster upgrade.
    pub(super) fn provisioner_concern(&self, label: &str) -> Option<String> {
        let label = truncate(label, limits::WORD as usize / 4); // truncated as in the status
        let mut concerns = self.concerns.iter();
        let concern = concerns
            .find(|concern| concern.effect == Effect::Blocks && concern.operator == label)?;
        Some(concern.message.clone())
    }
}

/// Returns the operator of a ClusterServiceVersion; `None` for a copy of one in another namespace.
fn operator(
    csv: &ClusterServiceVersion,
    (from, to): (&Releases, &Releases),
    context: &ClusterContext<'_>,
) -> Option<InstalledOperator> {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let annotation = |key: &str| csv.annotations().get(key).map(String::as_str);
    let is_copy = csv.status.latest.reason == "Copied"
        || annotation(olm::NAMESPACE).is_some_and(|original| original != namespace);
    if is_copy {
        return None;
    }
    let identity = || Identity {
        group: GROUP.to_owned(),
        kind: KIND.to_owned(),
        namespace: namespace.clone(),
        name: name.clone(),
    };
    let mut search = UsageScan::new(from.kubernetes, to.kubernetes);
    let mut accounts = Accounts::new();
    let install = &csv.spec.install.spec;
    for permissions in install
        .cluster_permissions
        .iter()
        .chain(&install.permissions)
    {
        search.rules(&permissions.rules, identity);
        let account = &permissions.service_account_name;
        if !account.is_empty() && accounts.len() < MAX_ACCOUNTS {
            accounts.insert(format!("{namespace}:{account}"));
        }
    }
    let accounts = accounts.iter().map(String::as_str);
    let mut conditions = context.conditions.iter();
    let condition = conditions.find(|condition| {
        condition.name_any() == name && condition.namespace().as_deref() == Some(namespace.as_str())
    });
    let package = olm::package(annotation);
    Some(InstalledOperator {
        kind: KIND,
        channel: context
            .channels
            .of_csv(&namespace, &name, package.as_deref()),
        package,
        bundle: Some(name.clone()),
        version: Some(csv.spec.version.clone()).filter(|version| !version.is_empty()),
        maximum: olm::max_openshift(annotation),
        refusal: condition.and_then(refusal),
        reported: context.provisioner_concern(&format!("{namespace}/{name}")),
        removals: search.finish(),
        calls: context
            .calls
            .removed_api_calls(accounts, from.kubernetes, to.kubernetes),
        namespace,
        name,
        ..InstalledOperator::default()
    })
}

/// Returns why an operator is not upgradeable, as one text.
pub(super) fn refusal(condition: &OperatorCondition) -> Option<String> {
    let refusal = condition.not_upgradeable()?;
    Some(match (refusal.reason.trim(), refusal.message.trim()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    })
}

/// Returns the locations of some catalogs of this cluster, in the syntax of --catalog, as suggestions for a message.
/// CatalogSources of tenants are not trusted. Thus only those in namespaces from which the provisioner itself takes
/// catalogs are returned.
pub(super) async fn catalogs(cluster: &Cluster, max: usize) -> Vec<String> {
    let mut sources = Vec::new();
    for namespace in BTreeSet::from([cluster.system_namespace.as_str(), MARKETPLACE]) {
        let api: Api<CatalogSource> = Api::namespaced(cluster.client.clone(), namespace);
        if let Ok(found) = api.list(&ListParams::default().limit(100)).await {
            sources.extend(found.items);
        }
    }
    let named = sources.into_iter().filter_map(|source| {
        let Ok(Origin::Image {
            reference: image, ..
        }) = source.origin()
        else {
            return None;
        };
        let namespace = source.namespace().unwrap_or_default();
        Some(format!(
            "{image} (CatalogSource {namespace}/{})",
            source.name_any()
        ))
    });
    named.take(max).collect()
}
