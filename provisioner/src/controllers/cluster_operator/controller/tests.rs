//! Decisions of the ClusterOperator controller.

mod olm;

use std::sync::Arc;

use manifests::{
    api::{
        bundle_instance::BundleInstance,
        config::{ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus},
        platform_operator::PlatformOperator,
    },
    openshift::{ClusterRelease, Release},
};
use serde_json::{Value, json};

use crate::controllers::{
    catalog_source::max_openshift::{self, MaxOpenShiftVersions},
    cluster_operator::{
        cache::{ClusterState, ObjectCache},
        decide::{Decision, DecisionInputs, LastStatuses, StatusTarget, decide},
        model::AGGREGATED,
        reduce,
        removed_apis::Removed,
        subscriptions::Entry,
        upgradeable::{Identity, UpgradeRemedy},
    },
};

type Change = fn(&mut ClusterState) -> bool;

/// Returns a fully observed cluster: an OpenShift 4.12 without installed operators.
fn facts() -> ClusterState {
    let mut facts = ClusterState::default();
    facts.operators.list([].into());
    facts.instances.list([].into());
    let cluster = ClusterRelease::of_release("4.12.3");
    facts.version.list([("version".to_owned(), cluster)].into());
    facts.refusals.list([].into());
    facts.services.list([].into());
    facts.subscriptions.list([].into());
    facts.components.list([].into());
    facts.aggregated.list([].into());
    facts.core.list([].into());
    facts.status.mark_not_served();
    facts
}

/// Returns a BundleInstance with an installed bundle, as it is cached.
fn instance(name: &str, newest: &str) -> BundleInstance {
    let digest = format!("sha256:{}", "a".repeat(64));
    let instance = object!({
        "metadata": {"name": name},
        "status": {
            "installedBundleName": "b", "installNamespace": "ns", "package": name, "version": "1.0.0",
            "clusterServiceVersion": format!("{name}.v1"), "maxOpenShiftVersion": newest,
            "resolvedSource": {"type": "image", "image": {"ref": format!("quay.io/{name}@{digest}")}},
            "inventory": {"count": 1, "kinds": []},
        },
    });
    reduce::instance(instance).unwrap()
}

#[derive(Default)]
struct TestInputs {
    /// `None` if no catalog has the bundle.
    catalogs: Option<max_openshift::CatalogMaximum>,
    subscribed: Option<max_openshift::CatalogMaximum>,
    /// The lowest value of all catalogs; `None` if only the catalog of the Subscription exists.
    lowest: Option<max_openshift::CatalogMaximum>,
    kept: Option<Arc<MaxOpenShiftVersions>>,
    removed: Removed,
    release: Option<&'static str>,
    written: LastStatuses,
}

fn declares(text: &str) -> max_openshift::CatalogMaximum {
    max_openshift::CatalogMaximum::Declared(Some(text.to_owned()))
}

fn decided(facts: &ClusterState, inputs: &TestInputs) -> Option<Decision> {
    let absent = max_openshift::CatalogMaximum::NotFound;
    let catalogs = |_: &Identity| inputs.catalogs.clone().unwrap_or(absent.clone());
    let subscribed = |_: &Entry| {
        let named = inputs.subscribed.clone()?;
        let lowest = inputs.lowest.clone();
        Some((named.clone(), lowest.unwrap_or(named)))
    };
    let remedy = |instance: &BundleInstance, _: Option<&PlatformOperator>, release: Release| {
        let facts = &instance.status.as_ref().unwrap().facts;
        let (package, than) = (facts.package.as_ref(), facts.version.as_ref());
        let next = release.next();
        let version = format!("{}-after-{}-on-{next}", package.unwrap(), than.unwrap());
        UpgradeRemedy::Upgrade(version)
    };
    let removed = |_: &BundleInstance| inputs.removed.clone();
    let outside = DecisionInputs {
        release: inputs.release,
        system_namespace: "system",
        catalogs: &catalogs,
        subscribed: &subscribed,
        recorded_maxima: inputs.kept.clone(),
        remedy: &remedy,
        removed: &removed,
        written: &inputs.written,
        minor: None,
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    decide(facts, &outside)
}

/// Returns such a cluster with the installed package `etcd`.
fn facts_with_etcd(newest: &str) -> ClusterState {
    with!(facts() => |facts| facts.instances.put("etcd".into(), instance("etcd", newest)))
}

fn aggregated(decided: Decision) -> ClusterOperatorStatus {
    let StatusTarget::ClusterOperators { aggregated, .. } = decided.report else {
        panic!("there are ClusterOperators");
    };
    *aggregated
}

fn gate(facts: &ClusterState, inputs: &TestInputs) -> (&'static str, String) {
    let verdict = decided(facts, inputs).unwrap().verdict;
    (verdict.reason, verdict.message)
}

// parity: max-olm-11
#[test]
fn decision_waits_for_every_initial_list() {
    assert!(decided(&facts(), &TestInputs::default()).is_some());
    let forget: [fn(&mut ClusterState); 10] = [
        |facts| facts.operators = ObjectCache::default(),
        |facts| facts.instances = ObjectCache::default(),
        |facts| facts.version = ObjectCache::default(),
        |facts| facts.refusals = ObjectCache::default(),
        |facts| facts.services = ObjectCache::default(),
        |facts| facts.subscriptions = ObjectCache::default(),
        |facts| facts.components = ObjectCache::default(),
        |facts| facts.aggregated = ObjectCache::default(),
        |facts| facts.core = ObjectCache::default(),
        |facts| facts.status = ObjectCache::default(),
    ];
    for forget in forget {
        let mut facts = facts();
        forget(&mut facts);
        assert!(decided(&facts, &TestInputs::default()).is_none());
    }
}

// parity: max-olm-10
#[test]
fn failed_lists_close_the_gate_and_are_named() {
    let broken: [(Change, &str); 6] = ::tests::rows![
        |facts| facts.instances.fails(&"no instances") => "no instances";
        |facts| facts.services.fails(&"no services") => "no services";
        |facts| facts.subscriptions.fails(&"no subscriptions") => "no subscriptions";
        |facts| facts.refusals.fails(&"no refusals") => "no refusals";
        |facts| facts.version.fails(&"no version") => "no version";
        |facts| facts.version.list([].into()) => "ClusterVersion \"version\" not found";
    ];
    for (break_it, expected) in broken {
        let mut facts = facts();
        assert!(break_it(&mut facts));
        let (reason, message) = gate(&facts, &TestInputs::default());
        assert_eq!(reason, "ErrorCheckingOperatorCompatibility");
        assert!(message.contains(expected), "{message}");
    }
    // Related objects only decide about a warning.
    let mut facts = facts();
    facts.components.fails(&"no components");
    assert_eq!(gate(&facts, &TestInputs::default()).0, "AsExpected");
    // The gate does not depend on PlatformOperators.
    facts.operators.fails(&"no operators");
    assert_eq!(gate(&facts, &TestInputs::default()).0, "AsExpected");
    let found = decided(&facts, &TestInputs::default()).unwrap();
    assert_eq!(found.tally, None);
    let StatusTarget::ClusterOperators { core, .. } = found.report else {
        panic!("there are ClusterOperators");
    };
    let mut conditions = core.conditions.iter();
    assert_rows!(conditions.find(|condition| condition.type_ == "Degraded").unwrap().status => "True");
}

// parity: max-olm-12
#[test]
fn own_release_replaces_an_unreadable_cluster_version() {
    let mut facts = facts_with_etcd("4.13");
    facts.version.fails(&"nobody answers");
    let of = |release| gate(&facts, &with!(TestInputs::default() => release: release)).0;
    for unknown in [None, Some("0.0.1-snapshot")] {
        assert_eq!(of(unknown), "ErrorCheckingOperatorCompatibility");
    }
    assert_eq!(of(Some("4.12.9")), "AsExpected");
    assert_eq!(of(Some("4.13.0")), "IncompatibleOperatorsInstalled");
    facts.version.mark_not_served();
    assert_rows! {
        gate(&facts, &TestInputs { release: Some("4.13.0"), ..TestInputs::default() }).0 => "AsExpected", "no OpenShift at all";
    }
}

// parity: platform-21
#[test]
fn operator_condition_matches_by_name_and_namespace() {
    for (name, reason) in [
        ("ns/etcd.v1", "OperatorConditionsNotUpgradeable"),
        ("ns/etcd.v2", "AsExpected"),
        ("other/etcd.v1", "AsExpected"),
        ("olm/moon.v1", "OperatorConditionsNotUpgradeable"),
    ] {
        let mut facts = facts_with_etcd("4.13");
        olm::put(&mut facts, "olm/moon.v1", &olm::properties("4.13"));
        let refusal = ("Busy".into(), "moving data".into());
        facts.refusals.put(name.into(), refusal);
        let (found, message) = gate(&facts, &TestInputs::default());
        assert_eq!(found, reason, "{name}: {message}");
        assert_eq!(message.contains("Busy: moving data"), found != "AsExpected");
    }
}

#[test]
fn last_value_counts_while_its_catalog_is_unavailable() {
    let facts = facts_with_etcd("4.12");
    let inputs_with =
        |catalogs: max_openshift::CatalogMaximum| with!(TestInputs, catalogs: Some(catalogs));
    let away = || inputs_with(max_openshift::CatalogMaximum::Unavailable(None));
    let blocked = "IncompatibleOperatorsInstalled";
    let (reason, message) = gate(&facts, &away());
    let remedy = "upgrade the operator to etcd-after-1.0.0-on-4.13, which supports 4.13";
    assert_eq!(reason, blocked);
    assert!(message.contains(remedy), "{message}");
    let found = decided(&facts, &inputs_with(declares("\"4.13\""))).unwrap();
    assert_eq!(found.verdict.reason, "AsExpected");
    let recorded = found.maxima.clone().map(Arc::new);
    let status = aggregated(found);
    let written = || with!(LastStatuses::default() => aggregated: Some(status.clone()));
    let mut failing = facts_with(aggregated_operator());
    failing.aggregated.fails(&"connection refused");
    let facts_with_extension = |extension: Option<Value>| {
        let status = with!(status.clone() => extension: extension);
        facts_with(with!(aggregated_operator() => status: Some(status)))
    };
    assert_rows! {
        // Recorded by this process, even if it was not written.
        gate(&facts, &with!(away() => kept: recorded)).0 => "AsExpected";
        // Written by this process, even if another client changed it afterwards.
        gate(&facts, &with!(away() => written: written())).0 => "AsExpected";
        gate(&facts, &with!(TestInputs::default() => written: written())).0 => blocked;
        // Also if the written status cannot be read again.
        gate(&failing, &with!(away() => written: written())).0 => "AsExpected";
        // Written by another replica.
        gate(&facts_with_extension(status.extension.clone()), &away()).0 => "AsExpected";
    }
    for odd in [json!("text"), json!({"catalogMaxima": 7}), json!([])] {
        assert_rows!(gate(&facts_with_extension(Some(odd)), &away()).0 => blocked);
    }
}

fn aggregated_operator() -> ClusterOperator {
    ClusterOperator::new(AGGREGATED, ClusterOperatorSpec {})
}

fn facts_with(operator: ClusterOperator) -> ClusterState {
    with!(facts_with_etcd("4.12") => |facts| facts.aggregated.put(AGGREGATED.into(), operator))
}

/// A replica that has not read the recorded values must not report an empty list.
#[test]
fn maxima_are_recorded_only_if_the_former_ones_are_readable() {
    let inputs = with!(TestInputs, catalogs: Some(declares("4.13")));
    let recorded = |change: Change| {
        let mut facts = facts_with_etcd("4.12");
        change(&mut facts);
        let maxima = decided(&facts, &inputs).unwrap().maxima;
        maxima.map(|maxima| maxima.len())
    };
    assert_eq!(recorded(|_| false), Some(1));
    assert_eq!(recorded(|facts| facts.aggregated.mark_not_served()), None);
    assert_eq!(recorded(|facts| facts.aggregated.fails(&"forbidden")), None);
}

#[test]
fn removed_apis_are_warnings_of_the_gate() {
    let mut facts = facts_with_etcd("4.13");
    let word = "ClusterRole etcd refers to the resource of IPAddress";
    let call = "ServiceAccount ns/etcd called cronjobs.v1beta1.batch";
    let uses = |messages: &[&str], is_incomplete| {
        let messages = messages.iter().map(|&message| message.to_owned()).collect();
        with!(TestInputs::default() => removed: Removed { messages, is_incomplete })
    };
    let found = decided(&facts, &uses(&[word], false)).unwrap();
    let line = format!("Ready for upgrade\n- ns/etcd: Warning: {word}");
    assert!(found.verdict.is_upgradeable);
    assert_eq!(found.verdict.reason, "RemovedAPIsInUse");
    assert_eq!(found.verdict.message, line);

    // A live revision does not list its uses: the last published warnings count.
    let operator = with!(aggregated_operator() => status: Some(aggregated(found)));
    facts.aggregated.put(AGGREGATED.into(), operator);
    let instances = &mut facts.instances;
    instances.put("other".into(), instance("other", "4.13"));
    let both = |message| format!("- ns/etcd: Warning: {message}\n- ns/other: Warning: {message}");
    for (messages, expected) in ::tests::rows![
        &[][..] => line;
        &[word] => format!("Ready for upgrade\n{}", both(word));
        &[call] => format!("Ready for upgrade\n{}", both(call));
    ] {
        assert_rows!(gate(&facts, &uses(messages, true)) => ("RemovedAPIsInUse", expected), "{messages:?}");
    }
    assert_rows!(gate(&facts, &uses(&[], false)) => ("AsExpected", "Ready for upgrade".to_owned()));
}

#[test]
fn operator_condition_without_a_spec_is_ignored() {
    let of = |object: Value| reduce::refusal(serde_json::from_value(object).unwrap());
    let metadata = json!({"name": "etcd.v1", "namespace": "ns"});
    assert_eq!(of(json!({"metadata": metadata})), None);
    assert_rows!(of(json!({"metadata": metadata, "status": null, "spec": {}})) => None);
    let asks = json!([{
        "type": "Upgradeable", "status": "False", "reason": "Busy", "message": "x".repeat(9000),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let refused = of(json!({"metadata": metadata, "spec": {"conditions": asks}}));
    let (reason, message) = refused.unwrap();
    assert_eq!(reason, "Busy");
    assert!(message.chars().count() < 500);
    assert_rows!(of(json!({"metadata": metadata, "status": {"conditions": asks}})).is_some() => true);
}

#[test]
fn only_needed_fields_of_objects_are_cached() {
    let instance = instance("etcd", "4.12");
    assert_eq!(instance.spec.template.spec.source.image, None);
    let status = instance.status.unwrap();
    let inventory = status.inventory.unwrap();
    assert!(inventory.kinds.is_empty() && inventory.count > 0);
    assert_eq!(status.facts.package.as_deref(), Some("etcd"));
    let condition = json!({
        "type": "Installed", "status": "False", "reason": "InstallFailed", "message": "x".repeat(30_000),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"conditions": [condition]});
    let operator = object!({"metadata": {"name": "etcd"}, "spec": {"package": {"name": "etcd"}}, "status": status});
    let operator = reduce::operator(operator).unwrap();
    assert_rows!(operator.status.unwrap().conditions[0].message.chars().count() <= 401 => true);
}

#[test]
fn platform_status_is_used_without_cluster_operators() {
    let report = |aggregated: Change, status: Change| {
        let mut facts = facts();
        aggregated(&mut facts);
        status(&mut facts);
        match decided(&facts, &TestInputs::default()).unwrap().report {
            StatusTarget::ClusterOperators { .. } => "operators",
            StatusTarget::PlatformStatus(_) => "status",
            StatusTarget::None => "nowhere",
        }
    };
    let listed: Change = |facts| facts.status.list([].into());
    let absent: Change = |facts| facts.status.mark_not_served();
    let none: Change = |facts| facts.aggregated.mark_not_served();
    let failing: Change = |facts| facts.aggregated.fails(&"forbidden");
    assert_eq!(report(|_| false, listed), "operators");
    assert_eq!(report(none, listed), "status");
    assert_eq!(report(none, absent), "nowhere");
    assert_eq!(report(failing, listed), "nowhere");
}
