//! Decisions of the ClusterOperator controller.

mod olm;

use std::sync::Arc;

use manifests::{
    api::{
        config::{ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus},
        platform_operator::PlatformOperator,
    },
    openshift::{ClusterRelease, Release},
};
use serde_json::{Value, json};

use crate::controllers::{
    catalog_source::max_openshift::{CatalogMaximum, MaxOpenShiftVersions},
    cluster_operator::{
        cache::{ClusterState, ObjectCache},
        decide::{Decision, DecisionInputs, LastStatuses, StatusTarget, decide},
        instance::ObservedInstance,
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
fn instance(name: &str, newest: &str) -> ObservedInstance {
    let digest = format!("sha256:{}", "a".repeat(64));
    ObservedInstance::new(&object!({
        "metadata": {"name": name},
        "status": {
            "installedBundleName": "b", "installNamespace": "ns", "package": name, "version": "1.0.0",
            "clusterServiceVersion": format!("{name}.v1"), "maxOpenShiftVersion": newest,
            "resolvedSource": {"type": "image", "image": {"ref": format!("quay.io/{name}@{digest}")}},
            "inventory": {"count": 1, "kinds": []},
        },
    }))
}

#[derive(Default)]
struct TestInputs {
    /// `None` if no catalog has the bundle.
    catalogs: Option<CatalogMaximum>,
    subscribed: Option<CatalogMaximum>,
    /// The lowest value of all catalogs; `None` if only the catalog of the Subscription exists.
    lowest: Option<CatalogMaximum>,
    kept: Option<Arc<MaxOpenShiftVersions>>,
    removed: Removed,
    release: Option<&'static str>,
    written: LastStatuses,
}

fn declares(text: &str) -> CatalogMaximum {
    CatalogMaximum::Declared(Some(text.to_owned()))
}

fn decided(facts: &ClusterState, inputs: &TestInputs) -> Option<Decision> {
    let absent = CatalogMaximum::NotFound;
    let catalogs = |_: &Identity| inputs.catalogs.clone().unwrap_or(absent.clone());
    let subscribed = |_: &Entry| {
        let named = inputs.subscribed.clone()?;
        let lowest = inputs.lowest.clone();
        Some((named.clone(), lowest.unwrap_or(named)))
    };
    let remedy = |instance: &ObservedInstance, _: Option<&PlatformOperator>, release: Release| {
        let installed = instance.installed.as_ref().unwrap();
        let (package, than) = (instance.package.as_ref(), installed.version.as_ref());
        let (than, next) = (&than.unwrap().version, release.next());
        let version = format!("{}-after-{than}-on-{next}", package.unwrap());
        UpgradeRemedy::Upgrade(version)
    };
    let removed = |_: &ObservedInstance| inputs.removed.clone();
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
        assert_rows!(decided(&with!(facts() => |facts| forget(&mut facts)), &TestInputs::default()).is_none() => true);
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
    // Related objects only decide about a warning, and the gate does not depend on PlatformOperators.
    let mut facts = facts();
    facts.components.fails(&"no components");
    facts.operators.fails(&"no operators");
    let found = decided(&facts, &TestInputs::default()).unwrap();
    assert_rows!((found.verdict.reason, &found.tally) => ("AsExpected", &None));
    let StatusTarget::ClusterOperators { core, .. } = found.report else {
        panic!("there are ClusterOperators");
    };
    assert_rows!(core.conditions.iter().find(|condition| condition.type_ == "Degraded").unwrap().status => "True");
}

// parity: max-olm-12
#[test]
fn own_release_replaces_an_unreadable_cluster_version() {
    let mut facts = facts_with_etcd("4.13");
    facts.version.fails(&"connection refused");
    assert_each!(|release, expected| gate(&facts, &with!(TestInputs::default() => release: release)).0 => expected;
        None => "ErrorCheckingOperatorCompatibility";
        Some("0.0.1-snapshot") => "ErrorCheckingOperatorCompatibility";
        Some("4.12.9") => "AsExpected";
        Some("4.13.0") => "IncompatibleOperatorsInstalled";
    );
    // No OpenShift at all.
    facts.version.mark_not_served();
    assert_rows!(gate(&facts, &with!(TestInputs::default() => release: Some("4.13.0"))).0 => "AsExpected");
}

// parity: platform-21
#[test]
fn operator_condition_matches_by_name_and_namespace() {
    let of = |name: &str| {
        let mut facts = facts_with_etcd("4.13");
        olm::put(&mut facts, "olm/moon.v1", &olm::properties("4.13"));
        let refusal = ("Busy".into(), "moving data".into());
        facts.refusals.put(name.into(), refusal);
        let (reason, message) = gate(&facts, &TestInputs::default());
        (reason, message.contains("Busy: moving data"))
    };
    assert_each!(|name, reason, is_reported| of(name) => (reason, is_reported);
        "ns/etcd.v1", "OperatorConditionsNotUpgradeable" => true;
        "ns/etcd.v2", "AsExpected" => false;
        "other/etcd.v1", "AsExpected" => false;
        "olm/moon.v1", "OperatorConditionsNotUpgradeable" => true;
    );
}

#[test]
fn last_value_counts_while_its_catalog_is_unavailable() {
    let facts = facts_with_etcd("4.12");
    let of = |catalogs| with!(TestInputs, catalogs: Some(catalogs));
    let away = || of(CatalogMaximum::Unavailable(None));
    let blocked = "IncompatibleOperatorsInstalled";
    let (reason, message) = gate(&facts, &away());
    let remedy = "upgrade the operator to etcd-after-1.0.0-on-4.13, which supports 4.13";
    assert_rows!((reason, message.contains(remedy)) => (blocked, true), "{message}");
    let found = decided(&facts, &of(declares("\"4.13\""))).unwrap();
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
    let verdict = &found.verdict;
    assert_rows!((verdict.reason, &verdict.message, verdict.is_upgradeable) => ("RemovedAPIsInUse", &line, true));

    // A live revision does not list its uses: the last published warnings count.
    let operator = with!(aggregated_operator() => status: Some(aggregated(found)));
    facts.aggregated.put(AGGREGATED.into(), operator);
    let other = instance("other", "4.13");
    facts.instances.put("other".into(), other);
    let both = |message| {
        format!("Ready for upgrade\n- ns/etcd: Warning: {message}\n- ns/other: Warning: {message}")
    };
    assert_rows! {
        gate(&facts, &uses(&[], true)) => ("RemovedAPIsInUse", line);
        gate(&facts, &uses(&[word], true)) => ("RemovedAPIsInUse", both(word));
        gate(&facts, &uses(&[call], true)) => ("RemovedAPIsInUse", both(call));
        gate(&facts, &uses(&[], false)) => ("AsExpected", "Ready for upgrade".to_owned());
    }
}

#[test]
fn operator_condition_without_a_spec_is_ignored() {
    let of = |object: Value| reduce::refusal(serde_json::from_value(object).unwrap());
    let metadata = json!({"name": "etcd.v1", "namespace": "ns"});
    let busy = crate::fixtures::condition("Upgradeable", "False", "Busy", &"x".repeat(9000));
    let conditions = json!([busy]);
    let refused = of(json!({"metadata": metadata, "spec": {"conditions": conditions}}));
    let (reason, message) = refused.unwrap();
    assert_rows! {
        (&*reason, message.chars().count() < 500) => ("Busy", true);
        of(json!({"metadata": metadata, "status": {"conditions": conditions}})).is_some() => true;
        of(json!({"metadata": metadata})) => None;
        of(json!({"metadata": metadata, "status": null, "spec": {}})) => None;
    }
}

#[test]
fn only_needed_fields_of_objects_are_cached() {
    let long = "x".repeat(30_000);
    let condition = crate::fixtures::condition("Installed", "False", "InstallFailed", &long);
    let operator = object!({
        "metadata": {"name": "etcd"}, "spec": {"package": {"name": "etcd"}}, "status": {"conditions": [condition]},
    });
    let operator = reduce::operator(operator).unwrap();
    assert_rows!(operator.status.unwrap().conditions[0].message.chars().count() <= 401 => true);
}

#[test]
fn only_changes_that_decisions_need_are_news() {
    let message = "x".repeat(30_000);
    let conditions = [
        crate::fixtures::condition("Installed", "True", "InstallationSucceeded", &message),
        crate::fixtures::condition("Healthy", "False", "Unhealthy", &message),
    ];
    let revision = json!({
        "number": 1, "state": "Active", "cause": "Install", "bundle": "b", "digest": "d", "checksum": "c", "parts": 1,
        "created": "2026-01-01T00:00:00Z", "removedApis": [],
    });
    let instance = json!({
        "metadata": {"name": "etcd", "labels": {"core.rukpak.io/platform-operator": "etcd"}, "generation": 1},
        "status": {
            "conditions": conditions, "installedBundleName": "b", "observedGeneration": 1, "revisions": [revision],
            "inventory": {"count": 1, "kinds": [
                {"apiVersion": "v1", "kind": "ServiceAccount", "objects": ["ns/etcd 0f1e2d3c4b5a"]},
            ]},
        },
    });
    let observed = |path: &str, value: Value| {
        let mut instance = instance.clone();
        if let Some(field) = instance.pointer_mut(path) {
            *field = value;
        }
        ObservedInstance::new(&object!(instance))
    };
    let is_news = |path: &str, value: Value| {
        let mut facts = facts();
        facts
            .instances
            .put("etcd".into(), observed("", instance.clone()));
        facts.instances.put("etcd".into(), observed(path, value))
    };
    assert_rows!(observed("", instance.clone()).problem.unwrap().message.chars().count() <= 401 => true);
    assert!(size_of::<ObservedInstance>() <= 320);
    assert_each!(|path, value, expected| is_news(path, value) => expected;
        "/metadata/generation", json!(2) => false;
        "/status/observedGeneration", json!(2) => false;
        "/status/conditions/0/message", json!("installed") => false;
        "/status/conditions/1/message", json!("0 of 1 ready") => true;
        "/status/conditions/1/status", json!("True") => true;
        "/status/inventory/kinds/0/objects/0", json!("ns/etcd a5b4c3d2e1f0") => false;
        "/status/inventory/kinds/0/objects/0", json!("ns/moon 0f1e2d3c4b5a") => true;
        "/status/revisions/0/checksum", json!("e") => false;
        "/status/revisions/0/removedApis", json!(null) => true;
    );
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
    assert_rows! {
        report(|_| false, listed) => "operators";
        report(none, listed) => "status";
        report(none, absent) => "nowhere";
        report(failing, listed) => "nowhere";
    }
}
