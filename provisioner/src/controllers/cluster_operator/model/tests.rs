//! Tables over every situation: B.6 to B.8 of the contract with the cluster-version operator.

mod contract;
mod core;
mod day2;
mod trouble;

use std::sync::LazyLock;

use manifests::api::{
    config::OperatorStatusCondition,
    platform_operator::InstanceRef,
    platform_status::{Concern, Effect},
};
use serde_json::{Value, json};

use super::*;
use crate::controllers::cluster_operator::upgradeable::{ClusterKind, assess};

const START: &str = "2026-01-01T10:00:00Z";

fn at(minutes: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    let minutes = jiff::SignedDuration::from_mins(minutes);
    start.checked_add(minutes).unwrap()
}

static OPEN: LazyLock<UpgradeAssessment> =
    LazyLock::new(|| assess(&ClusterKind::Kubernetes, [], &[]));

fn closed() -> UpgradeAssessment {
    let message = "The following operators will not run on the next OpenShift Version: a/b";
    with!(OPEN.clone() => is_upgradeable: false, reason: "IncompatibleOperatorsInstalled", message: message.into())
}

fn blocks(operator: &str) -> Concern {
    Concern {
        operator: operator.into(),
        effect: Effect::Blocks,
        message: "supports OpenShift up to 4.12".into(),
    }
}

/// Returns a platform operator whose condition Installed is `(status, reason, minute since when)`.
fn operator(name: &str, installed: Option<(&str, &str, i64)>) -> PlatformOperator {
    let conditions = installed.map(|(status, reason, since)| {
        json!({"type": "Installed", "status": status, "reason": reason, "message": format!("{reason} it is"),
               "lastTransitionTime": at(since).to_string()})
    });
    object!({
        "metadata": {"name": name, "creationTimestamp": START}, "spec": {"package": {"name": name}},
        "status": {"conditions": conditions.as_slice()},
    })
}

/// Returns such an operator that was installed once.
fn installed_operator(name: &str, installed: Option<(&str, &str, i64)>) -> PlatformOperator {
    let mut operator = operator(name, installed);
    let (status, name) = (operator.status.get_or_insert_default(), name.to_owned());
    status.active_bundle_instance = Some(InstanceRef { name });
    operator
}

fn good(name: &str) -> PlatformOperator {
    installed_operator(name, Some(("True", "InstallSuccessful", 0)))
}

/// Returns the input while the gate is open.
fn input(operators: &[PlatformOperator], minute: i64) -> Input<'_> {
    Input {
        operators: Ok(operators.iter().collect()),
        instances: Vec::new(),
        is_installing: false,
        is_updating: false,
        gate: &OPEN,
        catalog_maxima: std::collections::BTreeMap::new(),
        now: at(minute),
    }
}

fn written(before: Option<&ClusterOperatorStatus>, input: &Input<'_>) -> ClusterOperatorStatus {
    cluster_operator(before, input, "platform-system", Some("4.12.0")).status
}

fn find<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> &'a OperatorStatusCondition {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == type_);
    found.unwrap()
}

fn related(status: &ClusterOperatorStatus) -> String {
    let objects = status.related_objects.iter();
    let objects = objects.map(|object| format!("{}/{}", object.resource, object.name));
    objects.collect::<Vec<_>>().join(" ")
}

fn reported<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
    let condition = find(status, type_);
    let (reason, message) = (condition.reason.as_deref(), condition.message.as_deref());
    (&condition.status, reason.unwrap(), message.unwrap())
}

/// Formats the statuses of Available, Progressing and Degraded by their first letters.
fn brief(status: &ClusterOperatorStatus) -> String {
    ["Available", "Progressing", "Degraded"]
        .map(|type_| reported(status, type_).0.get(..1).unwrap().to_owned())
        .join(" ")
}

fn since(status: &ClusterOperatorStatus, type_: &str) -> Timestamp {
    let condition = find(status, type_);
    condition.last_transition_time.as_ref().unwrap().0
}

// parity: openshift-1
#[test]
fn status_is_healthy_without_platform_operators() {
    let input = input(&[], 0);
    let status = written(None, &input);
    let later = with!(input => now: at(500));
    let message = "No platform operators are present in the cluster";
    assert_rows! {
        reported(&status, "Available") => ("True", "AsExpected", message);
        reported(&status, "Progressing") => ("False", "AsExpected", message);
        reported(&status, "Degraded") => ("False", "AsExpected", message);
        reported(&status, "Upgradeable") => ("True", "AsExpected", "Ready for upgrade");
        status.versions.iter().map(|operand| (&*operand.name, &*operand.version)).collect::<Vec<_>>() => [("operator", "4.12.0")];
        status.related_objects.iter().map(|object| &*object.group).eq(["", "platform.openshift.io"]) => true;
        related(&status) => "namespaces/platform-system platformoperators/";
        // Stable over time.
        written(Some(&status), &later) => status;
        cluster_operator(None, &later, "a", None).recheck => None;
    }
}

// parity: openshift-7
#[test]
fn day_0_requires_all_operators_to_be_installed() {
    let all_well = "All platform operators are in a successful state";
    let failing = |name: &str, reason: &str| {
        format!("encountered the failing {name} platform operator with reason \"{reason}\"")
    };
    let pending = || operator("b", None);
    let bad = |name: &str| operator(name, Some(("False", "SourceFailed", 1)));
    for (operators, brief_, available) in ::tests::rows![
        vec![good("a")], "T F F" => all_well.to_owned();
        vec![good("a"), good("b")], "T F F" => all_well.to_owned();
        vec![pending()], "F T F" => failing("b", "InstallPending");
        vec![bad("a")], "F T F" => format!("{}\n- a: SourceFailed it is", failing("a", "SourceFailed"));
        vec![good("z"), bad("a")], "F T F" => format!("{}\n- a: SourceFailed it is", failing("a", "SourceFailed"));
        vec![bad("c"), pending()], "F T F"
            => format!("[{}, {}]\n- c: SourceFailed it is", failing("b", "InstallPending"), failing("c", "SourceFailed"));
        vec![operator("a", Some(("Unknown", "ReconcileFailed", 0)))], "F T F"
            => format!("{}\n- a: ReconcileFailed it is", failing("a", "ReconcileFailed"));
        // Other conditions than Installed are ignored.
        { let mut other = good("a"); let status = other.status.as_mut().unwrap(); status.conditions[0].type_ = "Ready".into(); vec![other] },
        "F T F" => failing("a", "InstallPending");
    ] {
        // The duration does not matter.
        for minute in [2, 500] {
            let status = written(None, &input(&operators, minute));
            assert_eq!(brief(&status), brief_, "{operators:?}");
            assert_eq!(reported(&status, "Available").2, available);
            for type_ in ["Available", "Progressing", "Degraded", "Upgradeable"] {
                let (_, reason, message) = reported(&status, type_);
                assert!(!reason.is_empty() && !message.is_empty(), "{type_}");
            }
        }
    }
    let bad = [bad("a"), good("b")];
    let status = written(None, &input(&bad, 5));
    let installing = "Installing 1 of 2 platform operators";
    assert_rows! {
        reported(&status, "Available").1 => "PlatformOperatorError";
        reported(&status, "Progressing") => ("True", "PlatformOperatorsInstalling", installing);
        // The failing operator is deleted, and the status is healthy.
        brief(&written(Some(&status), &input(&bad[1..], 6))) => "T F F";
    }
}

/// Platform operators may be created long after the manager has started, as long as the cluster is being installed.
#[test]
fn day_0_lasts_until_the_cluster_is_installed() {
    let late = [operator("a", None)];
    for (is_installing, brief_) in [(true, "F T F"), (false, "T T F")] {
        let at = |before: Option<&_>, operators, minute| {
            let input = with!(input(operators, minute) => is_installing: is_installing);
            written(before, &input)
        };
        let before = at(None, &[], 0);
        assert_eq!(brief(&before), "T F F");
        assert_rows!(brief(&at(Some(&before), &late, 5)) => brief_, "{is_installing}");
    }
}

// parity: max-olm-21, openshift-21
#[test]
fn transition_times_change_only_with_the_status() {
    let two = |reason| [good("a"), operator("b", Some(("False", reason, 0)))];
    let first = written(None, &input(&two("Unpacking"), 1));
    let third = written(Some(&first), &input(&two("UnpackFailed"), 3));
    let fourth = written(Some(&third), &input(&[good("a"), good("b")], 4));
    let after = |before: Timestamp, time: Duration| before.checked_add(time).unwrap();
    let operators = two("Unpacking");
    let odd = with!(input(&operators, 0) => now: after(at(5), Duration::from_millis(1234)));
    let [a, b] = ["a", "b"].map(|name| operator(name, None));
    assert_rows! {
        written(Some(&first), &input(&operators, 2)) => first;
        since(&first, "Available") => at(1);
        // A changed message is not a transition.
        third != first => true;
        since(&third, "Available") => at(1);
        since(&fourth, "Available") => at(4);
        since(&fourth, "Degraded") => at(1);
        // Fractions of a second are not written.
        since(&written(None, &odd), "Available") => after(at(5), Duration::from_secs(1));
        // The order of the operators in the cache does not matter.
        written(None, &input(&[b.clone(), a.clone()], 1)) => written(None, &input(&[a, b], 1));
    }
}

// parity: openshift-21
#[test]
fn edited_status_is_repaired() {
    let operators = [good("a")];
    let status_before = written(None, &input(&operators, 1));
    let mut edited = with!(status_before.clone() => versions: vec![], related_objects: vec![], extension: Some(json!("nonsense")));
    edited.conditions[0].status = "False".into();
    edited.conditions[1].reason = None;
    edited.conditions.remove(2);
    edited.conditions.push(edited.conditions[0].clone());
    let status = written(Some(&edited), &input(&operators, 9));
    assert_rows! {
        brief(&status) => "T F F";
        status.conditions.len() => 4;
        reported(&status, "Progressing").1 => "AsExpected";
        (status.versions, status.related_objects) => (status_before.versions.clone(), status_before.related_objects.clone());
    }
    // Foreign conditions are kept.
    let mut foreign = status_before.clone();
    foreign.conditions.push(status_before.conditions[0].clone());
    foreign.conditions[4].type_ = "EvaluationConditionsDetected".into();
    assert_rows!(written(Some(&foreign), &input(&operators, 9)) => foreign);
}

// parity: openshift-22
#[test]
fn reported_release_is_that_of_the_payload() {
    let version = |release| cluster_operator(None, &input(&[], 0), "a", release).status;
    assert_each!(|release, expected| version(release).versions[0].version => expected;
        Some("4.13.1") => "4.13.1";
        Some("") => "0.0.1-snapshot";
        None => "0.0.1-snapshot";
    );
}

#[test]
fn upgrade_gate_is_reported_and_its_list_recorded() {
    let gate = with!(closed() => concerns: vec![blocks("a/b")], more: 3);
    let mut input = with!(input(&[], 0) => gate: &gate);
    input.catalog_maxima = [("etcd/etcd.v1@sha256:a".to_owned(), "4.12".to_owned())].into();
    let status = written(None, &input);
    let platform = platform_status(None, &input, Some("1.36")).status;
    assert_rows! {
        reported(&status, "Upgradeable") => ("False", gate.reason, &*gate.message);
        status.extension.clone().unwrap() => json!({
            "firstAvailable": START, "operators": 0, "installed": 0, "moreConcerns": 3,
            "concerns": [{"operator": "a/b", "effect": "Blocks", "message": "supports OpenShift up to 4.12"}],
            "catalogMaxima": {"etcd/etcd.v1@sha256:a": "4.12"},
        });
        platform.cluster_minor.as_deref() => Some("1.36");
        serde_json::to_value(&platform.details).unwrap() => status.extension.unwrap();
        platform_status(Some(&platform), &input, Some("1.36")).status => platform;
    }
    // A PlatformStatus has the same conditions.
    assert_rows!(platform.conditions.len() => status.conditions.len());
    for (a, b) in platform.conditions.iter().zip(&status.conditions) {
        assert_rows! {
            (&a.type_, &a.status, Some(&a.reason)) => (&b.type_, &b.status, b.reason.as_ref());
            (Some(&a.message), Some(&a.last_transition_time)) => (b.message.as_ref(), b.last_transition_time.as_ref());
        }
    }
    // The recorded values are bounded.
    let many = (0..3000).map(|n| (format!("etcd/etcd.v{n}@sha256:a"), "4.12".to_owned()));
    input.catalog_maxima.extend(many);
    assert_rows!(platform_status(None, &input, None).status.details.catalog_maxima.len() => limits::CONCERNS as usize);
}

// parity: platform-26
#[test]
fn message_about_many_failing_operators_is_bounded() {
    let many = (0..1000).map(|n| {
        let name = format!("operator-{n:04}");
        let mut operator = operator(&name, Some(("False", "UnpackFailed", 0)));
        operator.status.as_mut().unwrap().conditions[0].message = "x\n".repeat(16_000);
        operator
    });
    let operators: Vec<_> = many.collect();
    let status = written(None, &input(&operators, 0));
    let message = reported(&status, "Available").2;
    assert!(message.contains(", and 950 more]"), "{message}");
    assert!(message.chars().count() <= 32_768);
    assert_eq!(status.extension.unwrap()["operators"], 1000);
}
