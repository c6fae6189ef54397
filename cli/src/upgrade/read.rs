//! What a cluster tells of its releases and operators.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use anyhow::{Context, anyhow};
use convert::removal::{
    Search,
    calls::{Calls, RequestCount},
};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, DynamicObject, Object as Typed},
};
use manifests::{
    api::{
        config::{CLUSTER_VERSION, ClusterOperator, ClusterVersion},
        identity::identity,
        instance::{BundleInstance, Constraint},
        labels, listing,
        operator_condition::OperatorCondition,
        platform_status::{self, Details, PlatformStatus},
    },
    object::Identity,
    openshift::{Cluster as Told, Release, maximum},
    version::{KubeVersion, Version, tolerant},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    follow::Followed,
    judge::Operator,
    olm::{self, Known},
    target::Releases,
};
use crate::{
    cluster::Cluster,
    live::{Live, inventory},
    message,
};

/// The ClusterOperator in which the provisioner tells of all operators.
const AGGREGATED: &str = "platform-operators-aggregated";
/// How many objects are in a page.
const PAGE: u32 = 500;
/// How many of those that count requests: each may have a day's users of every node.
const PAGE_OF_COUNTS: u32 = 20;
/// How many roles: a hostile one has a megabyte.
const PAGE_OF_ROLES: u32 = 50;

/// Names of ServiceAccounts, as `namespace:name`.
pub(super) type Accounts = BTreeSet<String>;

/// What the cluster is.
pub(crate) struct Here {
    pub(crate) releases: Releases,
    /// Of Kubernetes, with its patch.
    pub(crate) version: Option<Version>,
    /// The OpenShift that what is installed now has to run on: during an update the newer of both.
    pub(crate) newest: Option<Release>,
    /// From where and to where it is on its way.
    pub(crate) is_updating: Option<String>,
}

// === impl Here ===

impl Here {
    /// No OpenShift, as far as is known.
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

    /// Takes down what a ClusterVersion tells.
    pub(crate) fn learn(&mut self, told: &Told) -> anyhow::Result<()> {
        let running = told.completed().map_err(|problem| {
            anyhow!("it is not known which OpenShift the cluster runs: {problem}")
        })?;
        self.releases.openshift = Some(running);
        self.newest = told.highest();
        self.is_updating = told
            .desired
            .filter(|desired| told.is_updating && *desired != running)
            .map(|desired| format!("{running} to {desired}"));
        Ok(())
    }
}

/// What is not read.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct Nothing {}

/// Looks at every object of a kind, page by page.
pub(crate) async fn each<K>(
    api: &Api<K>,
    mut params: ListParams,
    mut see: impl FnMut(K),
) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    loop {
        let page = api.list(&params).await?;
        page.items.into_iter().for_each(&mut see);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// Which releases the cluster has.
pub(crate) async fn releases(cluster: &Cluster) -> anyhow::Result<Here> {
    let (here, hidden) = releases_seen(cluster).await?;
    hidden.map_or(Ok(here), Err)
}

/// The same as far as they can be told: not everybody may read the ClusterVersion, and not every one names a version. Then it
/// says why it is not known which OpenShift it is, which most have no need to know.
pub(crate) async fn releases_seen(
    cluster: &Cluster,
) -> anyhow::Result<(Here, Option<anyhow::Error>)> {
    let info = cluster.client.apiserver_version().await;
    let info = info.map_err(|error| cluster.trouble("failed to ask for the version", error))?;
    let kubernetes: KubeVersion = info
        .git_version
        .parse()
        .or_else(|_| format!("{}.{}", info.major, info.minor).parse())
        .context("the apiserver does not tell its version")?;
    let bare = info.git_version.split(['-', '+']).next();
    let version = bare.and_then(|bare| tolerant(bare).ok());
    let mut live = Live::new(cluster, &[]);
    let served = live
        .kind("config.openshift.io/v1", "ClusterVersion")
        .await?;
    let mut here = Here::new(kubernetes, version);
    if served.is_none() {
        return Ok((here, None));
    }
    let api: Api<ClusterVersion> = Api::all(cluster.client.clone());
    let told = match api.get(CLUSTER_VERSION).await {
        Ok(found) => here.learn(&found.status.unwrap_or_default().cluster()),
        Err(error) => Err(cluster.trouble("failed to read the ClusterVersion", error)),
    };
    Ok((here, told.err()))
}

/// All operators that are installed. What people follow in catalogs is read only if some are asked.
pub(super) async fn operators(
    cluster: &Cluster,
    from: &Releases,
    to: &Releases,
    has_catalogs: bool,
) -> anyhow::Result<Vec<Operator>> {
    let mut live = Live::new(cluster, &[]);
    let kind = live
        .kind("core.rukpak.io/v1alpha1", "BundleInstance")
        .await?;
    let details = details(cluster, &mut live, from).await?;
    let conditions = conditions(cluster, &mut live).await?;
    let calls = calls(cluster, &mut live).await?;
    let followed = if has_catalogs {
        Followed::all(cluster, &mut live).await?
    } else {
        Followed::default()
    };
    let known = Known {
        conditions: &conditions,
        calls: &calls,
        concerns: if from.is_next(*to) {
            &details.concerns
        } else {
            &[]
        },
        followed: &followed,
    };
    let of_olm = olm::operators(cluster, &mut live, (from, to), &known).await?;
    if kind.is_none() && of_olm.is_none() {
        return Err(anyhow!(
            "the cluster knows neither BundleInstances nor ClusterServiceVersions: there is nothing here whose operators could \
             be looked at; see kubectl apply --server-side -f manifests/install/rukpak.yaml"
        ));
    }
    let mut operators = of_olm.unwrap_or_default();
    if kind.is_none() {
        return Ok(operators);
    }
    let mut instances: Vec<BundleInstance> = Vec::new();
    each(
        &cluster.instances(),
        ListParams::default().limit(PAGE),
        |instance| {
            let status = instance.status.as_ref();
            if status.is_some_and(|status| status.installed_bundle_name.is_some()) {
                instances.push(instance);
            }
        },
    )
    .await
    .map_err(|error| cluster.trouble("failed to list BundleInstances", error))?;
    let mut of_instances = Vec::new();
    let mut searches = BTreeMap::new();
    for instance in &instances {
        let mut operator = of_instance(instance, &details, &known);
        let mut search = Search::new(from.kubernetes, to.kubernetes);
        let accounts = look_at(cluster, instance, &mut search).await?;
        let accounts = accounts.iter().map(String::as_str);
        operator.calls = calls.of(accounts, from.kubernetes, to.kubernetes);
        searches.insert(operator.name.clone(), search);
        of_instances.push(operator);
    }
    if searches.values().any(|search| !search.is_idle()) {
        roles(cluster, &mut searches).await?;
    }
    for operator in &mut of_instances {
        if let Some(search) = searches.remove(&operator.name) {
            operator.removals = search.end();
        }
    }
    operators.append(&mut of_instances);
    Ok(operators)
}

/// An instance, as its status tells of it.
fn of_instance(instance: &BundleInstance, details: &Details, known: &Known<'_>) -> Operator {
    let status = instance.status.clone().unwrap_or_default();
    let facts = status.facts;
    let identity = identity(instance);
    let of_catalog = identity
        .as_ref()
        .and_then(|it| details.catalog_maxima.get(&it.key()));
    let mut overrides = status.overrides.into_iter();
    let overridden = overrides.find(|it| it.constraint == Constraint::MaxOpenShiftVersion);
    let namespace = status.install_namespace.unwrap_or_default();
    let name = instance.name_any();
    let is_its = |condition: &&OperatorCondition| {
        let labels = condition.labels();
        let label = |key| labels.get(key).map(String::as_str);
        let is_labelled = label(labels::OWNER_KIND) == Some("BundleInstance")
            && label(labels::OWNER_NAME) == Some(name.as_str());
        let is_named = condition.namespace().as_deref() == Some(namespace.as_str())
            && Some(condition.name_any()) == facts.cluster_service_version;
        is_labelled || is_named
    };
    let condition = known.conditions.iter().find(is_its);
    let (channel, range) = known.followed.of_instance(instance);
    let (package, bundle, image) = match identity {
        Some(it) => (Some(it.package), Some(it.bundle), Some(it.digest)),
        None => (facts.package, facts.cluster_service_version, None),
    };
    Operator {
        kind: "BundleInstance",
        maximum: of_catalog
            .filter(|text| maximum(text).is_ok())
            .cloned()
            .or(facts.max_open_shift_version)
            .or_else(|| of_catalog.cloned()),
        overridden: overridden.map(|it| it.reason),
        refusal: condition.and_then(olm::refusal),
        said: known.said(&format!("{namespace}/{name}")),
        package,
        bundle,
        version: facts.version,
        image,
        channel,
        range,
        namespace,
        name,
        ..Operator::default()
    }
}

/// Looks at the objects of an instance, as they are listed; gives its ServiceAccounts.
async fn look_at(
    cluster: &Cluster,
    instance: &BundleInstance,
    search: &mut Search,
) -> anyhow::Result<Accounts> {
    let status = instance.status.as_ref();
    let listed = status.and_then(|status| status.inventory.as_ref());
    let kinds = listed.map_or(&[][..], |listed| &listed.kinds);
    let rest = inventory::rest(cluster, instance).await?;
    let mut accounts = Accounts::new();
    let mut look = |api_version: &str, identity: &Identity| {
        search.listed(api_version, || identity.clone(), &identity.kind);
        if identity.group.is_empty() && identity.kind == "ServiceAccount" {
            accounts.insert(format!("{}:{}", identity.namespace, identity.name));
        }
    };
    for kind in kinds {
        for (identity, _) in listing::entries(std::slice::from_ref(kind)) {
            look(&kind.api_version, &identity);
        }
    }
    for listed in &rest {
        look(&listed.api_version, &listed.identity);
    }
    Ok(accounts)
}

/// Looks at the roles of all instances, in as few requests as there can be.
async fn roles(cluster: &Cluster, searches: &mut BTreeMap<String, Search>) -> anyhow::Result<()> {
    for resource in [
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<Role>(&()),
    ] {
        let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
        let owned = format!("{}=BundleInstance", labels::OWNER_KIND);
        let params = ListParams::default().limit(PAGE_OF_ROLES).labels(&owned);
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
            cluster.trouble(format!("failed to list {}", resource.plural), error)
        })?;
    }
    Ok(())
}

/// What the provisioner has written down about all of them.
async fn details(
    cluster: &Cluster,
    live: &mut Live<'_>,
    from: &Releases,
) -> anyhow::Result<Details> {
    if from.openshift.is_some() {
        let served = live
            .kind("config.openshift.io/v1", "ClusterOperator")
            .await?;
        if served.is_none() {
            return Ok(Details::default());
        }
        let api: Api<ClusterOperator> = Api::all(cluster.client.clone());
        let found = api.get_opt(AGGREGATED).await;
        let found = found.map_err(|error| {
            cluster.trouble(
                format!("failed to read ClusterOperator {AGGREGATED}"),
                error,
            )
        })?;
        let Some(extension) = found.and_then(|it| it.status?.extension) else {
            return Ok(Details::default());
        };
        return Ok(serde_json::from_value(extension).unwrap_or_else(|error| {
            message::warning(&format!(
                "what the provisioner has written down in the status.extension of ClusterOperator {AGGREGATED} cannot be \
                 read, and does not count here: {error}; is this command as new as the provisioner?"
            ));
            Details::default()
        }));
    }
    let served = live
        .kind("core.rukpak.io/v1alpha1", "PlatformStatus")
        .await?;
    if served.is_none() {
        return Ok(Details::default());
    }
    let api: Api<PlatformStatus> = Api::all(cluster.client.clone());
    let found = api.get_opt(platform_status::NAME).await;
    let found =
        found.map_err(|error| cluster.trouble("failed to read the PlatformStatus", error))?;
    Ok(found.and_then(|it| it.status).unwrap_or_default().details)
}

/// What operators say of themselves, where there is something to say it with.
async fn conditions(
    cluster: &Cluster,
    live: &mut Live<'_>,
) -> anyhow::Result<Vec<OperatorCondition>> {
    let served = live
        .kind("operators.coreos.com/v2", "OperatorCondition")
        .await?;
    let mut all = Vec::new();
    if served.is_some() {
        let api: Api<OperatorCondition> = Api::all(cluster.client.clone());
        let params = ListParams::default().limit(PAGE);
        each(&api, params, |it| all.push(it))
            .await
            .map_err(|error| cluster.trouble("failed to list OperatorConditions", error))?;
    }
    Ok(all)
}

/// Who was seen to call what goes, where that is counted. Whoever may not see it is told so, and everything else.
async fn calls(cluster: &Cluster, live: &mut Live<'_>) -> anyhow::Result<Calls> {
    let mut calls = Calls::default();
    let kind = live
        .kind("apiserver.openshift.io/v1", "APIRequestCount")
        .await?;
    let Some(kind) = kind else {
        return Ok(calls);
    };
    let api: Api<Typed<Nothing, RequestCount>> =
        Api::all_with(cluster.client.clone(), &kind.resource);
    let params = ListParams::default().limit(PAGE_OF_COUNTS);
    let listed = each(&api, params, |count| {
        if let Some(status) = &count.status {
            calls.add(&count.name_any(), status);
        }
    })
    .await;
    let missing = "who calls APIs that go";
    unless_forbidden(cluster, listed, missing, "failed to list APIRequestCounts")?;
    if calls.is_incomplete() {
        message::warning("not all calls to APIs that go are told: there are too many");
    }
    Ok(calls)
}

/// Whoever may not see what only adds to the rest is told so, and told everything else.
pub(super) fn unless_forbidden(
    cluster: &Cluster,
    listed: Result<(), kube::Error>,
    missing: &str,
    doing: &str,
) -> anyhow::Result<()> {
    match listed {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            message::warning(&format!("{missing} cannot be seen: {}", status.message));
            Ok(())
        }
        listed => listed.map_err(|error| cluster.trouble(doing, error)),
    }
}
