//! Installed operators with problems.

use super::{day2::calm, *};

type ConditionRow = (&'static str, &'static str, &'static str, i64);

const INSTALLED: ConditionRow = ("Installed", "True", "InstallationSucceeded", 0);
const HEALTHY: ConditionRow = ("Healthy", "True", "Healthy", 0);
const SICK: [ConditionRow; 2] = [INSTALLED, ("Healthy", "False", "Unhealthy", 20)];

fn instance(conditions: &[(&str, &str, &str, i64)]) -> ObservedInstance {
    let conditions = conditions.iter().map(|(type_, status, reason, since)| {
        json!({"type": type_, "status": status, "reason": reason, "message": format!("{reason}:\n it is"),
               "lastTransitionTime": at(*since).to_string()})
    });
    let conditions: Vec<Value> = conditions.collect();
    let status = json!({"conditions": conditions, "installNamespace": "old-system"});
    ObservedInstance::new(&object!({"metadata": {"name": "old"}, "status": status}))
}

// parity: openshift-7
#[test]
fn persistent_problems_of_installed_operators_are_reported() {
    let before = calm();
    let operators = [good("old")];
    let with = |reason| [("Installed", "True", reason, 0), HEALTHY];
    let of_bundle = |status, reason| [INSTALLED, ("HasValidBundle", status, reason, 20), HEALTHY];
    let well = [INSTALLED, HEALTHY];
    let unknown = [INSTALLED, ("Healthy", "Unknown", "HealthUnknown", 0)];
    let paused = of_bundle("Unknown", "Paused");
    // A recent upgrade failure does not hide a persistent problem.
    let both = [("Installed", "True", "UpgradeFailed", 0), SICK[1]];
    for (conditions, first_minute, minute, is_updating, brief_, recheck) in ::tests::rows![
        &well[..], 20, 500, false, "T F F" => None;
        &unknown, 20, 500, false, "T F F" => None;
        &paused, 20, 500, false, "T F F" => None;
        &SICK, 29, 29, false, "T F F" => Some(30);
        &SICK, 30, 30, false, "T F T" => None;
        &both, 30, 30, false, "T F T" => None;
        // The start of the problem is recorded, because no condition contains it.
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
        let before = written(Some(&before), &input(first_minute));
        let output = cluster_operator(Some(&before), &input(minute), "platform-system", None);
        assert_eq!(brief(&output.status), brief_, "{conditions:?} {minute}");
        assert_eq!(output.recheck, recheck.map(at), "{conditions:?} {minute}");
        // A condition and a metric report the number: both agree.
        let tally = tally(&details(&before), &input(minute)).unwrap();
        let is_late = brief_ == "T F T";
        assert_eq!(tally.unhealthy, usize::from(is_late), "{conditions:?}");
        assert_eq!(tally.installed, usize::from(!is_late), "{conditions:?}");
    }
}

#[test]
fn problems_add_namespaces_to_the_related_objects() {
    let operators = [good("old")];
    let instance = instance(&SICK);
    let unhealthy = with!(input(&operators, 60) => instances: vec![&instance]);
    let unhealthy = written(Some(&calm()), &unhealthy);
    let message = "Installed platform operators with problems for more than 10 minutes: old\n- old: Unhealthy: it is";
    let gate = with!(closed() => concerns: vec![blocks("people/theirs")]);
    let blocked = written(None, &with!(input(&[], 0) => gate: &gate));
    let objects = "namespaces/platform-system platformoperators/ bundleinstances/ bundles/";
    assert_rows! {
        reported(&unhealthy, "Degraded") => ("True", "PlatformOperatorUnhealthy", message);
        related(&unhealthy) => format!("{objects} namespaces/old-system");
        // The operators that the gate names.
        related(&blocked) => format!("{objects} namespaces/people");
    }
}

#[test]
fn resolved_problems_are_dropped() {
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
        // A list failure keeps the recorded state.
        noted(&written(Some(&first), &Input { operators: Err("connection refused"), ..input(&[], 29) })) => noted(&first);
    }
    let over = at_minute(&first, "InstallationSucceeded", 29);
    let again = at_minute(&over, "UpgradeFailed", 35);
    assert_rows! {
        noted(&over) => None;
        brief(&at_minute(&again, "UpgradeFailed", 44)) => "T F F";
        brief(&at_minute(&again, "UpgradeFailed", 45)) => "T F T";
    }
    // Values of other clients are past times, or are ignored.
    for odd in ["2099-01-01T00:00:00Z", "soon", ""] {
        let mut edited = again.clone();
        edited.extension.as_mut().unwrap()["troubledSince"] = json!({"old": odd});
        let status = at_minute(&edited, "UpgradeFailed", 50);
        assert_rows!((brief(&status), noted(&status)) => ("T F F".into(), Some(at(50).to_string())));
    }
}
