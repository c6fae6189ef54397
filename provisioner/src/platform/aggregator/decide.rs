//! From everything that is known to what is to be written. No I/O.

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
        instance::BundleInstance,
        labels,
        platform::PlatformOperator,
        platform_status::{Concern, Details, Effect, NAME, Platform},
    },
    openshift::{self, Release},
};

use super::{
    known::{Facts, Known},
    subscribed::{Entry, entries},
};
use crate::{
    catalogs::maxima::{Maxima, Said, maxima},
    platform::{
        aggregate::{self, AGGREGATED, Input, Output, Tally},
        gate::{self, Cluster, Identity, Operator, Remedy, Verdict, judge, olm::Reading},
        upgrade::Removed,
    },
};

/// Finds what can be done about an instance.
type Remedies<'a> = dyn Fn(&BundleInstance, Option<&PlatformOperator>, Release) -> Remedy + 'a;

/// What is known besides.
pub(super) struct Outside<'a> {
    /// What a release payload says of itself.
    pub(super) release: Option<&'a str>,
    pub(super) system_namespace: &'a str,
    /// What catalogs say of the newest OpenShift that a bundle runs on.
    pub(super) catalogs: &'a dyn Fn(&Identity) -> Said,
    /// The value of the catalog that a Subscription names, and the lowest one of all catalogs; `None` if the catalog is not
    /// one of the admin's.
    pub(super) subscribed: &'a dyn Fn(&Entry) -> Option<(Said, Said)>,
    /// What they have said last, unless nobody has looked it up.
    pub(super) kept: Option<Arc<Maxima>>,
    /// What can be done about an instance, of this platform operator, that runs on a release and not on the next one.
    pub(super) remedy: &'a Remedies<'a>,
    /// Returns the uses of APIs that the next minor version of Kubernetes removes.
    pub(super) removed: &'a dyn Fn(&BundleInstance) -> Removed,
    /// What was written last.
    pub(super) written: &'a Written,
    /// The minor version of Kubernetes, where it is known.
    pub(super) minor: Option<String>,
    pub(super) now: Timestamp,
}

/// The statuses that were written last: what somebody has deleted since is not forgotten.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    pub(super) aggregated: Option<ClusterOperatorStatus>,
    pub(super) core: Option<ClusterOperatorStatus>,
    pub(super) platform: Option<Platform>,
}

/// What follows.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) verdict: Verdict,
    /// The number of instances that use removed APIs.
    pub(super) users: usize,
    /// How many platform operators there are, unless they cannot be listed.
    pub(super) tally: Option<Tally>,
    /// Which there are, and whether each is installed.
    pub(super) operators: BTreeMap<String, bool>,
    /// Of which packages catalogs are to be asked.
    pub(super) packages: BTreeSet<String>,
    /// What catalogs have said last of what is installed, if what was written down of it is known.
    pub(super) maxima: Option<Maxima>,
    pub(super) report: Report,
    /// When time alone changes any of it.
    pub(super) recheck: Option<Timestamp>,
}

/// Where it is to be written.
#[derive(Debug)]
pub(super) enum Report {
    /// On OpenShift.
    ClusterOperators {
        aggregated: Box<ClusterOperatorStatus>,
        core: Box<ClusterOperatorStatus>,
    },
    /// Elsewhere.
    PlatformStatus(Box<Platform>),
    /// There is neither, or it cannot be read.
    Nowhere,
}

/// Decides, once every watch has told something.
pub(super) fn decide(facts: &Facts, outside: &Outside<'_>) -> Option<Decided> {
    if !facts.are_heard() {
        return None;
    }
    let cluster = cluster(facts, outside.release);
    let before = before(facts, outside.written);
    let last = outside.kept.as_deref().unwrap_or(&before.catalog_maxima);
    let entries = entries(facts.services.all(), facts.subscriptions.all());
    let (maxima, packages) = match &cluster {
        Cluster::OpenShift(_) => maxima_of(facts, &entries, outside, last),
        Cluster::Kubernetes => Default::default(),
    };
    let (counting, keeping) = maxima;
    // Before what was written down can be read, there is nothing to be kept.
    let is_read = outside.kept.is_some() || facts.aggregated.is_listed();
    let keeps = is_read && cluster != Cluster::Kubernetes;
    let maxima = keeps.then(|| keeping.clone());
    let mut installed = instances(facts, &cluster, &counting, &before.concerns, outside);
    let users = installed.iter().filter(|it| !it.removed.is_empty()).count();
    installed.extend(services(facts, &entries, &counting));
    let verdict = judge(&cluster, &installed, &errors(facts));
    let known = facts.version.get(CLUSTER_VERSION);
    let input = Input {
        operators: match facts.operators.error() {
            None => Ok(facts.operators.all().collect()),
            Some(error) => Err(error),
        },
        instances: facts.instances.all().collect(),
        is_installing: known.is_some_and(|cluster| !cluster.is_installed),
        is_updating: known.is_some_and(|cluster| cluster.is_updating),
        gate: &verdict,
        catalog_maxima: keeping,
        now: outside.now,
    };
    let (report, recheck) = report(facts, outside, &input);
    let operators = facts.operators.all().map(|operator| {
        let status = operator.status.as_ref();
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        let is_installed =
            conditions.any(|it| it.type_ == condition::INSTALLED && it.status == "True");
        (operator.name_any(), is_installed)
    });
    Some(Decided {
        tally: aggregate::tally(&before, &input),
        operators: operators.collect(),
        packages,
        maxima,
        report,
        recheck,
        verdict,
        users,
    })
}

/// The cluster, as far as upgrades go. A release payload knows by itself which release it is.
fn cluster(facts: &Facts, release: Option<&str>) -> Cluster {
    if facts.version.is_absent() {
        return Cluster::Kubernetes;
    }
    let completed = |cluster: &openshift::Cluster| cluster.completed().map_err(str::to_owned);
    let release = release.filter(|release| !openshift::is_placeholder(release));
    Cluster::OpenShift(match (release, facts.version.error()) {
        (Some(release), _) => completed(&openshift::Cluster::of_release(release)),
        (None, Some(error)) => Err(error.to_owned()),
        (None, None) => match facts.version.get(CLUSTER_VERSION) {
            Some(cluster) => completed(cluster),
            None => Err(format!(
                "there is no ClusterVersion {CLUSTER_VERSION:?}, which says what the cluster runs"
            )),
        },
    })
}

/// What could not be found out. Whether platform operators can be listed does not matter: what they have installed does.
fn errors(facts: &Facts) -> Vec<String> {
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

/// What was written besides conditions. It is ours alone, so what was written last counts before what is there.
fn before(facts: &Facts, written: &Written) -> Details {
    // Also where its watch fails: then it was listed before, or written.
    if !facts.aggregated.is_absent() {
        let before = aggregated_before(facts, written);
        return before.as_ref().map(aggregate::details).unwrap_or_default();
    }
    let before = platform_before(facts, written);
    before.map(|before| before.details).unwrap_or_default()
}

fn aggregated_before(facts: &Facts, written: &Written) -> Option<ClusterOperatorStatus> {
    let there = status_of(&facts.aggregated, AGGREGATED);
    match (there, &written.aggregated) {
        (Some(there), Some(written)) => Some(ClusterOperatorStatus {
            extension: written.extension.clone(),
            ..there
        }),
        (there, written) => there.or_else(|| written.clone()),
    }
}

fn platform_before(facts: &Facts, written: &Written) -> Option<Platform> {
    let there = facts.status.get(NAME).and_then(|it| it.status.clone());
    match (there, &written.platform) {
        (Some(there), Some(written)) => Some(Platform {
            details: written.details.clone(),
            ..there
        }),
        (there, written) => there.or_else(|| written.clone()),
    }
}

fn status_of(known: &Known<ClusterOperator>, name: &str) -> Option<ClusterOperatorStatus> {
    known.get(name).and_then(|it| it.status.clone())
}

/// What counts and what is kept of what catalogs say of what is installed, and which packages that is.
fn maxima_of(
    facts: &Facts,
    entries: &BTreeMap<String, Entry>,
    outside: &Outside<'_>,
    last: &Maxima,
) -> ((Maxima, Maxima), BTreeSet<String>) {
    let mut packages = BTreeSet::new();
    let said = facts.instances.all().filter_map(|instance| {
        let it = gate::identity(instance)?;
        let said = (outside.catalogs)(&it);
        let key = it.key();
        packages.insert(it.package);
        Some((key, said))
    });
    let mut said: Vec<(String, Said)> = said.collect();
    for entry in entries.values() {
        if let Some((value, lowest)) = (outside.subscribed)(entry) {
            packages.insert(entry.package.clone());
            said.push((entry.key(), value));
            said.push((entry.lowest_key(), lowest));
        }
    }
    let maxima = maxima(last, said);
    (maxima, packages)
}

/// The operators of BundleInstances.
fn instances(
    known: &Facts,
    cluster: &Cluster,
    maxima: &Maxima,
    concerns: &[Concern],
    outside: &Outside<'_>,
) -> Vec<Operator> {
    let instances = known.instances.all().filter_map(|instance| {
        let mut operator = Operator::of_instance(instance, maxima)?;
        let facts = &instance.status.as_ref()?.facts;
        let condition = facts.cluster_service_version.as_deref();
        operator.refusal = condition.and_then(|name| refusal(known, &operator.namespace, name));
        let removed = (outside.removed)(instance);
        operator.removed = removed.messages;
        if removed.is_incomplete && operator.removed.is_empty() {
            // The last published warnings count.
            operator.removed = warned(concerns, &operator);
        }
        if let Cluster::OpenShift(Ok(release)) = cluster
            && operator.blocks(*release)
        {
            let owner = instance.labels().get(labels::PLATFORM_OPERATOR);
            let owner = owner.and_then(|name| known.operators.get(name));
            operator.remedy = (outside.remedy)(instance, owner, *release);
        }
        Some(operator)
    });
    instances.collect()
}

/// The operators that OLM installed. OLM judges them where OLM has its ClusterOperator.
fn services(known: &Facts, entries: &BTreeMap<String, Entry>, maxima: &Maxima) -> Vec<Operator> {
    let components: BTreeSet<&String> = known.components.all().flatten().collect();
    let has_olm = known.components.get(gate::olm::CLUSTER_OPERATOR).is_some();
    let services = known.services.all().map(|service| {
        let operator = service.operator.clone();
        let name = format!("{}/{}", operator.namespace, operator.name);
        let entry = entries.get(&name);
        let value = entry.and_then(|entry| maxima.get(&entry.key()));
        let lowest = entry.and_then(|entry| maxima.get(&entry.lowest_key()));
        let is_component = components.contains(&name);
        Operator {
            refusal: refusal(known, &operator.namespace, &operator.name),
            // By a label (olm.clusteroperator.name), a bundle makes OLM name its ClusterServiceVersion in a ClusterOperator.
            // But OLM annotates every ClusterServiceVersion from a catalog, and no bundle can prevent that.
            is_payload: is_component && operator.olm == Some(Reading::NotFromCatalog),
            olm: operator.olm.clone().filter(|_| has_olm),
            ..operator.with_subscription(value, lowest)
        }
    });
    services.collect()
}

/// The OperatorCondition's refusal, by the name that OLM gives the OperatorCondition.
fn refusal(known: &Facts, namespace: &str, name: &str) -> Option<(String, String)> {
    known.refusals.get(&format!("{namespace}/{name}")).cloned()
}

/// What an operator was warned of.
fn warned(concerns: &[Concern], operator: &Operator) -> Vec<String> {
    let label = operator.label();
    let warnings = concerns
        .iter()
        .filter(|it| it.effect == Effect::Warns && it.operator == label);
    warnings.map(|it| it.message.clone()).collect()
}

fn report(facts: &Facts, outside: &Outside<'_>, input: &Input<'_>) -> (Report, Option<Timestamp>) {
    if facts.aggregated.is_absent() {
        if !facts.status.is_listed() {
            return (Report::Nowhere, None);
        }
        let before = platform_before(facts, outside.written);
        let before = before.as_ref();
        let known = before.and_then(|before| before.cluster_minor.as_deref());
        let minor = outside.minor.as_deref().or(known);
        let Output { status, recheck } = aggregate::platform_status(before, input, minor);
        return (Report::PlatformStatus(Box::new(status)), recheck);
    }
    if !facts.aggregated.is_listed() || !facts.core.is_listed() {
        return (Report::Nowhere, None);
    }
    let before = aggregated_before(facts, outside.written);
    let namespace = outside.system_namespace;
    let aggregated =
        aggregate::cluster_operator(before.as_ref(), input, namespace, outside.release);
    let before = status_of(&facts.core, aggregate::CORE).or(outside.written.core.clone());
    let listed = input.operators.as_ref().map(|_| ()).map_err(|error| *error);
    let core = aggregate::core(
        before.as_ref(),
        listed,
        namespace,
        outside.release,
        input.now,
    );
    let recheck = [aggregated.recheck, core.recheck].into_iter().flatten();
    (
        Report::ClusterOperators {
            aggregated: Box::new(aggregated.status),
            core: Box::new(core.status),
        },
        recheck.min(),
    )
}
