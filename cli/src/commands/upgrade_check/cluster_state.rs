//! Releases and operators of a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use anyhow::{Context, anyhow};
use convert::removed_apis::{
    UsageScan,
    request_counts::{ApiCalls, RequestCount},
};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, DynamicObject, Object as Typed},
};
use manifests::{
    api::{
        bundle_identity::identity,
        bundle_instance::{BundleInstance, Constraint},
        config::{CLUSTER_VERSION, ClusterOperator, ClusterVersion},
        inventory_format, labels,
        operator_condition::OperatorCondition,
        platform_status::{self, OperatorDetails, PlatformStatus},
    },
    object::Identity,
    openshift::{ClusterRelease as OpenShiftCluster, Release, maximum},
    version::{KubeVersion, Version, parse_lenient},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    assess::InstalledOperator,
    channels::ChannelMap,
    olm::{self, ClusterContext},
    target::Releases,
};
use crate::{
    cluster::{
        Cluster,
        live::{LiveObjects, inventory},
    },
    output::message,
};

/// ClusterOperator in which the provisioner reports on all operators.
const AGGREGATED: &str = "platform-operators-aggregated";
/// Number of objects per list page.
const PAGE_SIZE: u32 = 500;
/// Number of APIRequestCounts per list page: each may have the users of every node for a day.
const REQUEST_COUNT_PAGE_SIZE: u32 = 20;
/// Number of roles per list page: a malicious one may have a megabyte.
const ROLE_PAGE_SIZE: u32 = 50;

/// Names of ServiceAccounts, as `namespace:name`.
pub(super) type Accounts = BTreeSet<String>;

/// Releases of a cluster.
pub(crate) struct ClusterState {
    pub(crate) releases: Releases,
    /// Kubernetes version, including the patch.
    pub(crate) version: Option<Version>,
    /// OpenShift release that the installed operators must support: during an update, the newer one of both.
    pub(crate) newest: Option<Release>,
    /// Releases of the update that is in progress, as text.
    pub(crate) is_updating: Option<String>,
}

// === impl ClusterState ===

impl ClusterState {
    /// Returns the state of a cluster that is not known to be OpenShift.
    pub(crate) fn new(kubernetes: KubeVersion, version: Option<Version>) -> Self {
        Self {
            releases: Releases {
                openshift: None,
                kubernetes,
            },
            version,
            newest: None,
            is_updating: None,
        }
    }

    /// Records the OpenShift releases that a ClusterVersion reports.
    pub(crate) fn detect(&mut self, cluster: &OpenShiftCluster) -> anyhow::Result<()> {
        let running = cluster.last_completed().map_err(|problem| {
            anyhow!("failed to determine the OpenShift version of the cluster: {problem}")
        })?;
        self.releases.openshift = Some(running);
        self.newest = cluster.max_release();
        self.is_updating = cluster
            .desired
            .filter(|desired| cluster.is_updating && *desired != running)
            .map(|desired| format!("{running} to {desired}"));
        Ok(())
    }
}

/// Spec that is not read.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct IgnoredValue {}

/// Calls `visit` for every object of a kind, page by page.
pub(crate) async fn each<K>(
    api: &Api<K>,
    mut params: ListParams,
    mut visit: impl FnMut(K),
) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    loop {
        let page = api.list(&params).await?;
        page.items.into_iter().for_each(&mut visit);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// Returns the releases of the cluster.
pub(crate) async fn releases(cluster: &Cluster) -> anyhow::Result<ClusterState> {
    let (state, hidden) = observed_releases(cluster).await?;
    hidden.map_or(Ok(state), Err)
}

/// Returns the releases as far as they are known. Not every user may read the ClusterVersion, and it may name no version.
/// Then the second value is the reason why the OpenShift release is unknown, which most callers do not need.
pub(crate) async fn observed_releases(
    cluster: &Cluster,
) -> anyhow::Result<(ClusterState, Option<anyhow::Error>)> {
    let info = cluster.client.apiserver_version().await;
    let info = info.map_err(|error| {
        cluster.explain(
            "failed to read the Kubernetes version of the cluster",
            error,
        )
    })?;
    let kubernetes: KubeVersion = info
        .git_version
        .parse()
        .or_else(|_| format!("{}.{}", info.major, info.minor).parse())
        .context("the API server does not report its version")?;
    let bare = info.git_version.split(['-', '+']).next();
    let version = bare.and_then(|bare| parse_lenient(bare).ok());
    let mut live = LiveObjects::new(cluster, &[]);
    let served = live
        .kind("config.openshift.io/v1", "ClusterVersion")
        .await?;
    let mut state = ClusterState::new(kubernetes, version);
    if served.is_none() {
        return Ok((state, None));
    }
    let api: Api<ClusterVersion> = Api::all(cluster.client.clone());
    let result = match api.get(CLUSTER_VERSION).await {
        Ok(found) => state.detect(&found.status.unwrap_or_default().cluster()),
        Err(error) => Err(cluster.explain("failed to read the ClusterVersion", error)),
    };
    Ok((state, result.err()))
}

/// Returns all installed operators. Update channels are read only if catalogs are searched.
pub(super) async fn operators(
    cluster: &Cluster,
    from: &Releases,
    to: &Releases,
    has_catalogs: bool,
) -> anyhow::Result<Vec<InstalledOperator>> {
    let mut live = LiveObjects::new(cluster, &[]);
    let kind = live
        .kind("core.rukpak.io/v1alpha1", "BundleInstance")
        .await?;
    let details = details(cluster, &mut live, from).await?;
    let conditions = conditions(cluster, &mut live).await?;
    let calls = calls(cluster, &mut live).await?;
    let channels = if has_catalogs {
        ChannelMap::all(cluster, &mut live).await?
    } else {
        ChannelMap::default()
    };
    let context = ClusterContext {
        conditions: &conditions,
        calls: &calls,
        concerns: if from.is_next(*to) {
            &details.concerns
        } else {
            &[]
        },
        channels: &channels,
    };
    let of_olm = olm::operators(cluster, &mut live, (from, to), &context).await?;
    if kind.is_none() && of_olm.is_none() {
        return Err(anyhow!(
            "the cluster serves neither BundleInstances nor ClusterServiceVersions, so this command finds no operators; \
             install rukpak with \"kubectl apply --server-side -f manifests/install/rukpak.yaml\""
        ));
    }
    let mut operators = of_olm.unwrap_or_default();
    if kind.is_none() {
        return Ok(operators);
    }
    let mut instances: Vec<BundleInstance> = Vec::new();
    each(
        &cluster.instances(),
        ListParams::default().limit(PAGE_SIZE),
        |instance| {
            let status = instance.status.as_ref();
            if status.is_some_and(|status| status.installed_bundle_name.is_some()) {
                instances.push(instance);
            }
        },
    )
    .await
    .map_err(|error| cluster.explain("failed to list BundleInstances", error))?;
    let mut of_instances = Vec::new();
    let mut searches = BTreeMap::new();
    for instance in &instances {
        let mut operator = of_instance(instance, &details, &context);
        let mut search = UsageScan::new(from.kubernetes, to.kubernetes);
        let accounts = scan_instance(cluster, instance, &mut search).await?;
        let accounts = accounts.iter().map(String::as_str);
        operator.calls = calls.removed_api_calls(accounts, from.kubernetes, to.kubernetes);
        searches.insert(operator.name.clone(), search);
        of_instances.push(operator);
    }
    if searches.values().any(|search| !search.is_empty()) {
        roles(cluster, &mut searches).await?;
    }
    for operator in &mut of_instances {
        if let Some(search) = searches.remove(&operator.name) {
            operator.removals = search.finish();
        }
    }
    operators.append(&mut of_instances);
    Ok(operators)
}

/// Returns the operator of an instance, according to its status.
fn of_instance(
    instance: &BundleInstance,
    details: &OperatorDetails,
    context: &ClusterContext<'_>,
) -> InstalledOperator {
    let status = instance.status.clone().unwrap_or_default();
    let facts = status.facts;
    let identity = identity(instance);
    let of_catalog = identity
        .as_ref()
        .and_then(|identity| details.catalog_maxima.get(&identity.key()));
    let mut overrides = status.overrides.into_iter();
    let overridden = overrides.find(|entry| entry.constraint == Constraint::MaxOpenShiftVersion);
    let namespace = status.install_namespace.unwrap_or_default();
    let name = instance.name_any();
    let is_its = |condition: &&OperatorCondition| {
        let labels = condition.labels();
        let label = |key| labels.get(key).map(String::as_str);
        let is_labeled = label(labels::OWNER_KIND) == Some("BundleInstance")
            && label(labels::OWNER_NAME) == Some(name.as_str());
        let is_named = condition.namespace().as_deref() == Some(namespace.as_str())
            && Some(condition.name_any()) == facts.cluster_service_version;
        is_labeled || is_named
    };
    let condition = context.conditions.iter().find(is_its);
    let (channel, range) = context.channels.of_instance(instance);
    let (package, bundle, image) = match identity {
        Some(identity) => (
            Some(identity.package),
            Some(identity.bundle),
            Some(identity.digest),
        ),
        None => (facts.package, facts.cluster_service_version, None),
    };
    InstalledOperator {
        kind: "BundleInstance",
        maximum: of_catalog
            .filter(|text| maximum(text).is_ok())
            .cloned()
            .or(facts.max_open_shift_version)
            .or_else(|| of_catalog.cloned()),
        overridden: overridden.map(|entry| entry.reason),
        refusal: condition.and_then(olm::refusal),
        reported: context.provisioner_concern(&format!("{namespace}/{name}")),
        package,
        bundle,
        version: facts.version,
        image,
        channel,
        range,
        namespace,
        name,
        ..InstalledOperator::default()
    }
}

/// Scans the inventory of an instance for removed APIs, and returns its ServiceAccounts.
async fn scan_instance(
    cluster: &Cluster,
    instance: &BundleInstance,
    search: &mut UsageScan,
) -> anyhow::Result<Accounts> {
    let status = instance.status.as_ref();
    let listed = status.and_then(|status| status.inventory.as_ref());
    let kinds = listed.map_or(&[][..], |listed| &listed.kinds);
    let remaining = inventory::overflow_inventory(cluster, instance).await?;
    let mut accounts = Accounts::new();
    let mut inspect = |api_version: &str, identity: &Identity| {
        search.listed(api_version, || identity.clone(), &identity.kind);
        if identity.group.is_empty() && identity.kind == "ServiceAccount" {
            accounts.insert(format!("{}:{}", identity.namespace, identity.name));
        }
    };
    for kind in kinds {
        for (identity, _) in inventory_format::entries(std::slice::from_ref(kind)) {
            inspect(&kind.api_version, &identity);
        }
    }
    for listed in &remaining {
        inspect(&listed.api_version, &listed.identity);
    }
    Ok(accounts)
}

/// Scans the roles of all instances, with as few requests as possible.
async fn roles(
    cluster: &Cluster,
    searches: &mut BTreeMap<String, UsageScan>,
) -> anyhow::Result<()> {
    for resource in [
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<Role>(&()),
    ] {
        let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
        let owned = format!("{}=BundleInstance", labels::OWNER_KIND);
        let params = ListParams::default().limit(ROLE_PAGE_SIZE).labels(&owned);
        let listed = each(&api, params, |role| {
            let owner = role.labels().get(labels::OWNER_NAME);
            let Some(search) = owner.and_then(|owner| searches.get_mut(owner)) else {
                return;
            };
            let identity = Identity {
                group: resource.group.clone(),
                kind: resource.kind.clone(),
                namespace: role.namespace().unwrap_or_default(),
                name: role.name_any(),
            };
            search.rules(role.data.get("rules").unwrap_or(&Value::Null), || {
                identity.clone()
            });
        });
        listed.await.map_err(|error| {
            cluster.explain(format!("failed to list {}", resource.plural), error)
        })?;
    }
    Ok(())
}

/// Returns the details that the provisioner has recorded about all operators.
async fn details(
    cluster: &Cluster,
    live: &mut LiveObjects<'_>,
    from: &Releases,
) -> anyhow::Result<OperatorDetails> {
    if from.openshift.is_some() {
        let served = live
            .kind("config.openshift.io/v1", "ClusterOperator")
            .await?;
        if served.is_none() {
            return Ok(OperatorDetails::default());
        }
        let api: Api<ClusterOperator> = Api::all(cluster.client.clone());
        let found = api.get_opt(AGGREGATED).await;
        let found = found.map_err(|error| {
            cluster.explain(
                format!("failed to read ClusterOperator {AGGREGATED}"),
                error,
            )
        })?;
        let Some(extension) = found.and_then(|operator| operator.status?.extension) else {
            return Ok(OperatorDetails::default());
        };
        return Ok(serde_json::from_value(extension).unwrap_or_else(|error| {
            message::warning(&format!(
                "invalid status.extension of ClusterOperator {AGGREGATED} is ignored: {error}; check that this command is \
                 as new as the provisioner"
            ));
            OperatorDetails::default()
        }));
    }
    let served = live
        .kind("core.rukpak.io/v1alpha1", "PlatformStatus")
        .await?;
    if served.is_none() {
        return Ok(OperatorDetails::default());
    }
    let api: Api<PlatformStatus> = Api::all(cluster.client.clone());
    let found = api.get_opt(platform_status::NAME).await;
    let found =
        found.map_err(|error| cluster.explain("failed to read the PlatformStatus", error))?;
    Ok(found
        .and_then(|object| object.status)
        .unwrap_or_default()
        .details)
}

/// Returns the OperatorConditions, if the cluster serves them.
async fn conditions(
    cluster: &Cluster,
    live: &mut LiveObjects<'_>,
) -> anyhow::Result<Vec<OperatorCondition>> {
    let served = live
        .kind("operators.coreos.com/v2", "OperatorCondition")
        .await?;
    let mut all = Vec::new();
    if served.is_some() {
        let api: Api<OperatorCondition> = Api::all(cluster.client.clone());
        let params = ListParams::default().limit(PAGE_SIZE);
        each(&api, params, |condition| all.push(condition))
            .await
            .map_err(|error| cluster.explain("failed to list OperatorConditions", error))?;
    }
    Ok(all)
}

/// Returns the callers of removed APIs, if the cluster counts requests. Missing permissions are reported, and the check
/// continues.
async fn calls(cluster: &Cluster, live: &mut LiveObjects<'_>) -> anyhow::Result<ApiCalls> {
    let mut calls = ApiCalls::default();
    let kind = live
        .kind("apiserver.openshift.io/v1", "APIRequestCount")
        .await?;
    let Some(kind) = kind else {
        return Ok(calls);
    };
    let api: Api<Typed<IgnoredValue, RequestCount>> =
        Api::all_with(cluster.client.clone(), &kind.resource);
    let params = ListParams::default().limit(REQUEST_COUNT_PAGE_SIZE);
    let listed = each(&api, params, |count| {
        if let Some(status) = &count.status {
            calls.add(&count.name_any(), status);
        }
    })
    .await;
    let missing = "the callers of removed APIs";
    unless_forbidden(cluster, listed, missing, "failed to list APIRequestCounts")?;
    if calls.is_incomplete() {
        message::warning("too many calls to removed APIs; not all are reported");
    }
    Ok(calls)
}

/// Handles the result of a list that only adds information: missing permissions are reported as a warning.
pub(super) fn unless_forbidden(
    cluster: &Cluster,
    listed: Result<(), kube::Error>,
    missing: &str,
    doing: &str,
) -> anyhow::Result<()> {
    match listed {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            message::warning(&format!("failed to read {missing}: {}", status.message));
            Ok(())
        }
        listed => listed.map_err(|error| cluster.explain(doing, error)),
    }
}
