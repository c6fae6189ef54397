//! What is installed and in trouble.

use super::{day2::calm, *};

type Told = (&'static str, &'static str, &'static str, i64);

const THERE: Told = ("Installed", "True", "InstallationSucceeded", 0);
const HEALTHY: Told = ("Healthy", "True", "Healthy", 0);
const SICK: [Told; 2] = [THERE, ("Healthy", "False", "Unhealthy", 20)];

fn instance(conditions: &[(&str, &str, &str, i64)]) -> BundleInstance {
    let conditions = conditions.iter().map(|(type_, status, reason, since)| {
        json!({"type": type_, "status": status, "reason": reason, "message": format!("{reason}:\n it is"),
               "lastTransitionTime": at(*since).to_string()})
    });
    let conditions: Vec<Value> = conditions.collect();
    object!({"metadata": {"name": "old"}, "status": {"conditions": conditions, "installNamespace": "old-system"}})
}

// parity: openshift-7
#[test]
fn long_trouble_of_what_is_installed_is_told() {
    let before = calm();
    let operators = [good("old")];
    let with = |reason| [("Installed", "True", reason, 0), HEALTHY];
    let of_bundle = |status, reason| [THERE, ("HasValidBundle", status, reason, 20), HEALTHY];
    let well = [THERE, HEALTHY];
    let unknown = [THERE, ("Healthy", "Unknown", "HealthUnknown", 0)];
    let paused = of_bundle("Unknown", "Paused");
    // An upgrade that has just failed hides nothing that has lasted.
    let both = [
        ("Installed", "True", "UpgradeFailed", 0),
        ("Healthy", "False", "Unhealthy", 20),
    ];
    for (conditions, seen, minute, is_updating, brief_, recheck) in ::tests::rows![
        &well[..], 20, 500, false, "T F F" => None;
        &unknown, 20, 500, false, "T F F" => None;
        &paused, 20, 500, false, "T F F" => None;
        &SICK, 29, 29, false, "T F F" => Some(30);
        &SICK, 30, 30, false, "T F T" => None;
        &both, 30, 30, false, "T F T" => None;
        // Since when it is in trouble is remembered, for no condition says it.
        &with("UpgradeFailed"), 20, 29, false, "T F F" => Some(30);
        &with("UpgradeFailed"), 20, 30, false, "T F T" => None;
        &with("RolledBack"), 20, 29, false, "T F F" => Some(30);
        &with("RolledBack"), 20, 30, false, "T F T" => None;
        &with("ReconcileFailed"), 20, 29, false, "T F F" => Some(30);
        &with("ReconcileFailed"), 20, 30, false, "T F T" => None;
        &of_bundle("False", "UnpackFailed"), 29, 29, false, "T F F" => Some(30);
        &of_bundle("False", "UnpackFailed"), 30, 30, false, "T F T" => None;
        &of_bundle("False", "UnpackPending"), 30, 30, false, "T F T" => None;
        &of_bundle("False", "UnknownProvisionerClass"), 30, 30, false, "T F T" => None;
        &of_bundle("Unknown", "ReconcileFailed"), 30, 30, false, "T F T" => None;
        // Nodes restart during an update of the cluster.
        &SICK, 20, 500, true, "T F F" => None;
    ] {
        let instance = instance(conditions);
        let input = |minute| Input {
            instances: vec![&instance],
            is_updating,
            ..input(&operators, minute)
        };
        let before = written(Some(&before), &input(seen));
        let output = cluster_operator(Some(&before), &input(minute), "platform-system", None);
        assert_eq!(brief(&output.status), brief_, "{conditions:?} {minute}");
        assert_eq!(output.recheck, recheck.map(at), "{conditions:?} {minute}");
        // Two tell how many: the one says what the other counts.
        let tally = tally(&details(&before), &input(minute)).unwrap();
        let is_late = brief_ == "T F T";
        assert_eq!(tally.unhealthy, usize::from(is_late), "{conditions:?}");
        assert_eq!(tally.installed, usize::from(!is_late), "{conditions:?}");
    }
}

/// Fails unless this namespace is to be collected beside what always is then.
#[track_caller]
fn assert_collected(status: &ClusterOperatorStatus, namespace: &str) {
    let expected = [
        ("namespaces", "platform-system"),
        ("platformoperators", ""),
        ("bundleinstances", ""),
        ("bundles", ""),
        ("namespaces", namespace),
    ];
    assert_eq!(related(status), expected);
}

#[test]
fn trouble_is_told_with_what_is_to_be_collected() {
    let before = calm();
    let operators = [good("old")];
    let instance = instance(&SICK);
    let input = with!(input(&operators, 60) => instances: vec![&instance]);
    let status = written(Some(&before), &input);
    let message = "Installed platform operators with problems for more than 10 minutes: old\n- old: Unhealthy: it is";
    assert_rows!(told(&status, "Degraded") => ("True", "PlatformOperatorUnhealthy", message));
    assert_collected(&status, "old-system");
}

#[test]
fn trouble_that_is_over_is_forgotten() {
    let operators = [good("old")];
    let at_minute = |before: &ClusterOperatorStatus, reason, minute| {
        let instance = instance(&[("Installed", "True", reason, 0)]);
        let input = with!(input(&operators, minute) => instances: vec![&instance]);
        written(Some(before), &input)
    };
    let noted = |status: &ClusterOperatorStatus| details(status).troubled_since.get("old").cloned();
    let first = at_minute(&calm(), "UpgradeFailed", 20);
    assert_rows! {
        noted(&first) => Some(at(20).to_string());
        at_minute(&first, "UpgradeFailed", 29) => first;
        // Who cannot list forgets nothing.
        noted(&written(Some(&first), &Input { operators: Err("connection refused"), ..input(&[], 29) })) => noted(&first);
    }
    let over = at_minute(&first, "InstallationSucceeded", 29);
    assert_eq!(noted(&over), None);
    let again = at_minute(&over, "UpgradeFailed", 35);
    assert_eq!(brief(&at_minute(&again, "UpgradeFailed", 44)), "T F F");
    assert_eq!(brief(&at_minute(&again, "UpgradeFailed", 45)), "T F T");
    // What others have written there is a time that has passed, or nothing.
    for odd in ["2099-01-01T00:00:00Z", "soon", ""] {
        let mut edited = again.clone();
        edited.extension.as_mut().unwrap()["troubledSince"] = json!({"old": odd});
        let status = at_minute(&edited, "UpgradeFailed", 50);
        assert_rows!((brief(&status), noted(&status)) => ("T F F".into(), Some(at(50).to_string())));
    }
}

#[test]
fn what_the_gate_names_is_to_be_collected_whoever_has_installed_it() {
    let gate = with!(closed() => concerns: vec![blocks("people/theirs")]);
    let input = with!(input(&[], 0) => gate: &gate);
    assert_collected(&written(None, &input), "people");
}
