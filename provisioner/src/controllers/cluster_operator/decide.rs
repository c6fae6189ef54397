//! Computes the statuses to write from all observed objects. Pure; no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt as _;
use manifests::{
    api::{
        condition,
        config::{CLUSTER_VERSION, ClusterOperator, ClusterOperatorStatus},
        platform_operator::PlatformOperator,
        platform_status::{Concern, Effect, NAME, OperatorDetails, PlatformStatusStatus},
    },
    openshift::{self, Release},
};

use super::{
    cache::{ClusterState, ObjectCache},
    instance::ObservedInstance,
    model::{self, AGGREGATED, Input, Output},
    removed_apis::Removed,
    subscriptions::{Entry, entries},
    upgradeable::{
        self, ClusterKind, Identity, InstalledOperator, UpgradeAssessment, UpgradeRemedy, assess,
        olm::Reading,
    },
};
use crate::{
    controllers::catalog_source::max_openshift::{
        CatalogMaximum, MaxOpenShiftVersions, update_maxima,
    },
    runtime::metrics::Tally,
};

/// Returns the remedy for an instance that blocks cluster upgrades.
type Remedies<'a> =
    dyn Fn(&ObservedInstance, Option<&PlatformOperator>, Release) -> UpgradeRemedy + 'a;

/// Inputs of a decision besides the watched objects.
pub(crate) struct DecisionInputs<'a> {
    /// Release of the payload; `None` if the provisioner is not part of one.
    pub(crate) release: Option<&'a str>,
    pub(crate) system_namespace: &'a str,
    /// Returns the max OpenShift version that catalogs declare for a bundle.
    pub(crate) catalogs: &'a dyn Fn(&Identity) -> CatalogMaximum,
    /// Returns the value of the catalog that a Subscription names, and the lowest one of all catalogs; `None` if the
    /// catalog does not belong to the admin.
    pub(crate) subscribed: &'a dyn Fn(&Entry) -> Option<(CatalogMaximum, CatalogMaximum)>,
    /// Last declared max OpenShift versions; `None` until they are read.
    pub(crate) recorded_maxima: Option<Arc<MaxOpenShiftVersions>>,
    /// Returns the remedy for an instance, of this platform operator, that runs on a release and not on the next one.
    pub(crate) remedy: &'a Remedies<'a>,
    /// Returns the uses of APIs that the next minor version of Kubernetes removes.
    pub(crate) removed: &'a dyn Fn(&ObservedInstance) -> Removed,
    /// Statuses of the last writes.
    pub(crate) written: &'a LastStatuses,
    /// Minor version of Kubernetes; `None` while it is not known.
    pub(crate) minor: Option<String>,
    pub(crate) now: Timestamp,
}

/// Statuses of the last writes, which are used if another client deletes the objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastStatuses {
    pub(crate) aggregated: Option<ClusterOperatorStatus>,
    pub(crate) core: Option<ClusterOperatorStatus>,
    pub(crate) platform: Option<PlatformStatusStatus>,
}

/// Result of a decision.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) verdict: UpgradeAssessment,
    /// Number of instances that use removed APIs.
    pub(crate) users: usize,
    /// Numbers of platform operators; `None` if they cannot be listed.
    pub(crate) tally: Option<Tally>,
    /// Names of the platform operators, and whether each is installed.
    pub(crate) operators: BTreeMap<String, bool>,
    /// Packages that the catalogs have to track.
    pub(crate) packages: BTreeSet<String>,
    /// Last declared max OpenShift versions of the installed bundles; `None` while the recorded ones cannot be read.
    pub(crate) maxima: Option<MaxOpenShiftVersions>,
    pub(crate) report: StatusTarget,
    /// Time at which the result changes without another event; `None` if it does not.
    pub(crate) recheck: Option<Timestamp>,
}

/// Statuses to write, and their objects.
#[derive(Debug)]
pub(crate) enum StatusTarget {
    /// Cluster with ClusterOperators.
    ClusterOperators {
        aggregated: Box<ClusterOperatorStatus>,
        core: Box<ClusterOperatorStatus>,
    },
    /// Cluster with a PlatformStatus.
    PlatformStatus(Box<PlatformStatusStatus>),
    /// Neither kind is served, or the objects cannot be read.
    None,
}

/// Decides once every watch has reported an initial state; `None` before that.
pub(crate) fn decide(facts: &ClusterState, outside: &DecisionInputs<'_>) -> Option<Decision> {
    if !facts.are_synced() {
        return None;
    }
    let cluster = cluster(facts, outside.release);
    let before = before(facts, outside.written);
    let last = outside
        .recorded_maxima
        .as_deref()
        .unwrap_or(&before.catalog_maxima);
    let entries = entries(facts.services.all(), facts.subscriptions.all());
    let (maxima, packages) = match &cluster {
        ClusterKind::OpenShift(_) => collect_maxima(facts, &entries, outside, last),
        ClusterKind::Kubernetes => Default::default(),
    };
    let (counting, keeping) = maxima;
    // Before the recorded max OpenShift versions can be read, none are recorded.
    let is_read = outside.recorded_maxima.is_some() || facts.aggregated.is_listed();
    let keeps = is_read && cluster != ClusterKind::Kubernetes;
    let maxima = keeps.then(|| keeping.clone());
    let mut installed = instances(facts, &cluster, &counting, &before.concerns, outside);
    let users = installed
        .iter()
        .filter(|operator| !operator.removed_apis.is_empty())
        .count();
    installed.extend(services(facts, &entries, &counting));
    let verdict = assess(&cluster, &installed, &errors(facts));
    let cluster_version = facts.version.get(CLUSTER_VERSION);
    let input = Input {
        operators: match facts.operators.error() {
            None => Ok(facts.operators.all().collect()),
            Some(error) => Err(error),
        },
        instances: facts.instances.all().collect(),
        is_installing: cluster_version.is_some_and(|cluster| !cluster.is_installed),
        is_updating: cluster_version.is_some_and(|cluster| cluster.is_updating),
        gate: &verdict,
        catalog_maxima: keeping,
        now: outside.now,
    };
    let (report, recheck) = report(facts, outside, &input);
    let operators = facts.operators.all().map(|operator| {
        let status = operator.status.as_ref();
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        let is_installed = conditions
            .any(|condition| condition.type_ == condition::INSTALLED && condition.status == "True");
        (operator.name_any(), is_installed)
    });
    Some(Decision {
        tally: model::tally(&before, &input),
        operators: operators.collect(),
        packages,
        maxima,
        report,
        recheck,
        verdict,
        users,
    })
}

/// Returns the cluster for the gate. In a release payload, the payload determines the release.
fn cluster(facts: &ClusterState, release: Option<&str>) -> ClusterKind {
    if facts.version.is_absent() {
        return ClusterKind::Kubernetes;
    }
    let completed =
        |cluster: &openshift::ClusterRelease| cluster.last_completed().map_err(str::to_owned);
    let release = release.filter(|release| !openshift::is_placeholder(release));
    ClusterKind::OpenShift(match (release, facts.version.error()) {
        (Some(release), _) => completed(&openshift::ClusterRelease::of_release(release)),
        (None, Some(error)) => Err(error.to_owned()),
        (None, None) => match facts.version.get(CLUSTER_VERSION) {
            Some(cluster) => completed(cluster),
            None => Err(format!(
                "ClusterVersion {CLUSTER_VERSION:?} not found, so the release of the cluster is unknown"
            )),
        },
    })
}

/// Returns the errors that block cluster upgrades. The list of platform operators does not matter, only their installed
/// bundles.
fn errors(facts: &ClusterState) -> Vec<String> {
    [
        facts.instances.error(),
        facts.services.error(),
        facts.subscriptions.error(),
        facts.refusals.error(),
    ]
    .into_iter()
    .flatten()
    .map(str::to_owned)
    .collect()
}

/// Returns the details of the previous status. Only the provisioner writes them, so the last written details precede the
/// live ones.
fn before(facts: &ClusterState, written: &LastStatuses) -> OperatorDetails {
    // Used even if the watch fails: the status was listed or written before.
    if !facts.aggregated.is_absent() {
        let before = aggregated_before(facts, written);
        return before.as_ref().map(model::details).unwrap_or_default();
    }
    let before = platform_before(facts, written);
    before.map(|before| before.details).unwrap_or_default()
}

fn aggregated_before(
    facts: &ClusterState,
    written: &LastStatuses,
) -> Option<ClusterOperatorStatus> {
    let live = status_of(&facts.aggregated, AGGREGATED);
    match (live, &written.aggregated) {
        (Some(live), Some(written)) => Some(ClusterOperatorStatus {
            extension: written.extension.clone(),
            ..live
        }),
        (live, written) => live.or_else(|| written.clone()),
    }
}

fn platform_before(facts: &ClusterState, written: &LastStatuses) -> Option<PlatformStatusStatus> {
    let live = facts
        .status
        .get(NAME)
        .and_then(|object| object.status.clone());
    match (live, &written.platform) {
        (Some(live), Some(written)) => Some(PlatformStatusStatus {
            details: written.details.clone(),
            ..live
        }),
        (live, written) => live.or_else(|| written.clone()),
    }
}

fn status_of(objects: &ObjectCache<ClusterOperator>, name: &str) -> Option<ClusterOperatorStatus> {
    objects
        .get(name)
        .and_then(|operator| operator.status.clone())
}

/// Returns the effective max OpenShift versions, those to record, and the packages of the installed bundles.
fn collect_maxima(
    facts: &ClusterState,
    entries: &BTreeMap<String, Entry>,
    outside: &DecisionInputs<'_>,
    last: &MaxOpenShiftVersions,
) -> (
    (MaxOpenShiftVersions, MaxOpenShiftVersions),
    BTreeSet<String>,
) {
    let mut packages = BTreeSet::new();
    let declared = facts.instances.all().filter_map(|instance| {
        let identity = instance.identity()?;
        let maximum = (outside.catalogs)(&identity);
        let key = identity.key();
        packages.insert(identity.package);
        Some((key, maximum))
    });
    let mut declared: Vec<(String, CatalogMaximum)> = declared.collect();
    for entry in entries.values() {
        if let Some((value, lowest)) = (outside.subscribed)(entry) {
            packages.insert(entry.package.clone());
            declared.push((entry.key(), value));
            declared.push((entry.lowest_key(), lowest));
        }
    }
    let maxima = update_maxima(last, declared);
    (maxima, packages)
}

/// Returns the operators of BundleInstances.
fn instances(
    facts: &ClusterState,
    cluster: &ClusterKind,
    maxima: &MaxOpenShiftVersions,
    concerns: &[Concern],
    outside: &DecisionInputs<'_>,
) -> Vec<InstalledOperator> {
    let instances = facts.instances.all().filter_map(|instance| {
        let mut operator = InstalledOperator::of_instance(instance, maxima)?;
        let condition = instance.cluster_service_version.as_deref();
        operator.refusal = condition.and_then(|name| refusal(facts, &operator.namespace, name));
        let removed = (outside.removed)(instance);
        operator.removed_apis = removed.messages;
        if removed.is_incomplete && operator.removed_apis.is_empty() {
            // While the uses are not known, the last published warnings are used.
            operator.removed_apis = warned(concerns, &operator);
        }
        if let ClusterKind::OpenShift(Ok(release)) = cluster
            && operator.blocks(*release)
        {
            let owner = instance.owner.as_deref();
            let owner = owner.and_then(|name| facts.operators.get(name));
            operator.remedy = (outside.remedy)(instance, owner, *release);
        }
        Some(operator)
    });
    instances.collect()
}

/// Returns the operators that OLM installed. OLM's reading is included only if the ClusterOperator of OLM exists.
fn services(
    facts: &ClusterState,
    entries: &BTreeMap<String, Entry>,
    maxima: &MaxOpenShiftVersions,
) -> Vec<InstalledOperator> {
    let components: BTreeSet<&String> = facts.components.all().flatten().collect();
    let has_olm = facts
        .components
        .get(upgradeable::olm::CLUSTER_OPERATOR)
        .is_some();
    let services = facts.services.all().map(|service| {
        let operator = service.operator.clone();
        let name = format!("{}/{}", operator.namespace, operator.name);
        let entry = entries.get(&name);
        let value = entry.and_then(|entry| maxima.get(&entry.key()));
        let lowest = entry.and_then(|entry| maxima.get(&entry.lowest_key()));
        let is_component = components.contains(&name);
        InstalledOperator {
            refusal: refusal(facts, &operator.namespace, &operator.name),
            // With a label (olm.clusteroperator.name), a bundle makes OLM name its ClusterServiceVersion in a
            // ClusterOperator. But OLM annotates every ClusterServiceVersion from a catalog, and no bundle can prevent
            // that.
            is_payload: is_component && operator.olm == Some(Reading::NotFromCatalog),
            olm: operator.olm.clone().filter(|_| has_olm),
            ..operator.with_subscription(value, lowest)
        }
    });
    services.collect()
}

/// Returns the refusal in the OperatorCondition, which has the name that OLM gives it.
fn refusal(facts: &ClusterState, namespace: &str, name: &str) -> Option<(String, String)> {
    facts.refusals.get(&format!("{namespace}/{name}")).cloned()
}

/// Returns the published warnings about an operator.
fn warned(concerns: &[Concern], operator: &InstalledOperator) -> Vec<String> {
    let label = operator.label();
    let warnings = concerns
        .iter()
        .filter(|concern| concern.effect == Effect::Warns && concern.operator == label);
    warnings.map(|concern| concern.message.clone()).collect()
}

fn report(
    facts: &ClusterState,
    outside: &DecisionInputs<'_>,
    input: &Input<'_>,
) -> (StatusTarget, Option<Timestamp>) {
    if facts.aggregated.is_absent() {
        if !facts.status.is_listed() {
            return (StatusTarget::None, None);
        }
        let before = platform_before(facts, outside.written);
        let before = before.as_ref();
        let recorded = before.and_then(|before| before.cluster_minor.as_deref());
        let minor = outside.minor.as_deref().or(recorded);
        let Output { status, recheck } = model::platform_status(before, input, minor);
        return (StatusTarget::PlatformStatus(Box::new(status)), recheck);
    }
    if !facts.aggregated.is_listed() || !facts.core.is_listed() {
        return (StatusTarget::None, None);
    }
    let before = aggregated_before(facts, outside.written);
    let namespace = outside.system_namespace;
    let aggregated = model::cluster_operator(before.as_ref(), input, namespace, outside.release);
    let before = status_of(&facts.core, model::CORE).or(outside.written.core.clone());
    let listed = input.operators.as_ref().map(|_| ()).map_err(|error| *error);
    let core = model::core(
        before.as_ref(),
        listed,
        namespace,
        outside.release,
        input.now,
    );
    let recheck = [aggregated.recheck, core.recheck].into_iter().flatten();
    (
        StatusTarget::ClusterOperators {
            aggregated: Box::new(aggregated.status),
            core: Box::new(core.status),
        },
        recheck.min(),
    )
}
