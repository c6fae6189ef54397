use serde_json::{Value, json};

use super::*;

const READY: Facts = Facts {
    is_applied: true,
    remedy: None,
    objects: Objects::Healthy,
    is_rolled_back: false,
};
const SLOW: Facts = with!(Facts, objects: Objects::Progressing; ..READY);
const BLOCKED: Facts = with!(Facts, is_applied: false, remedy: Some(Remedy::World); ..READY);
const NOT_OBSERVED: Facts = with!(Facts, objects: Objects::NotObserved; ..READY);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn declaration(generation: i64, deadline: u64) -> Declaration {
    with!(Declaration, generation: Some(generation), deadline: (deadline > 0).then(|| Duration::from_secs(deadline)))
}

/// Returns a status whose condition Progressing has this reason.
fn status(activity: &str) -> BundleInstanceStatus {
    let mut status = BundleInstanceStatus::default();
    progress(&mut status, activity);
    status
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
    let condition = json!({
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    serde_json::from_value(condition).unwrap()
}

fn progress(status: &mut BundleInstanceStatus, activity: &str) {
    let message = format!("message of {activity}");
    let progressing = condition(condition::PROGRESSING, "True", activity, &message);
    condition::set(&mut status.conditions, progressing);
}

/// Formats Ready, the condition beside it, and `progressingSince`: `Unknown Reconciling/Progressing 0`.
fn short(status: &BundleInstanceStatus) -> String {
    let of = |type_| find(&status.conditions, type_);
    let ready = of(condition::READY).unwrap().status.clone();
    let beside = |type_: &'static str| {
        of(type_).map(|condition| {
            assert_eq!(condition.status, "True");
            format!("{type_}/{}", condition.reason)
        })
    };
    let since = status.progressing_since.as_ref();
    let parts = [
        Some(ready),
        beside(condition::RECONCILING),
        beside(condition::STALLED),
        since.map(|since| since.0.as_second().to_string()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[test]
fn deadline_runs_until_a_generation_is_ready_for_the_first_time() {
    const RETRY: &str = "Unknown Reconciling/ProgressingWithRetry";
    const STALLED: &str = "False Stalled/ProgressDeadlineExceeded";
    let mut before = BundleInstanceStatus::default();
    for (second, generation, activity, facts, expected) in ::tests::rows![
        0, 1, "Applying", BLOCKED => format!("{RETRY} 0");
        59, 1, "Blocked", BLOCKED => format!("{RETRY} 0");
        60, 1, "Blocked", BLOCKED => format!("{STALLED} 0");
        90, 1, "WaitingForHealth", SLOW => format!("{STALLED} 0");
        99, 1, "UpToDate", READY => "True".to_owned();
        // The deadline of this generation is over.
        100, 1, "WaitingForHealth", SLOW => "Unknown Reconciling/Progressing".to_owned();
        999, 1, "WaitingForHealth", SLOW => "Unknown Reconciling/Progressing".to_owned();
        1000, 1, "Blocked", BLOCKED => RETRY.to_owned();
        // Another generation has its own deadline.
        1010, 2, "Blocked", BLOCKED => format!("{RETRY} 1010");
        1069, 2, "Blocked", BLOCKED => format!("{RETRY} 1010");
        1070, 2, "Blocked", BLOCKED => format!("{STALLED} 1010");
        1080, 3, "Blocked", BLOCKED => format!("{RETRY} 1080");
        // A paused instance has no deadline.
        1090, 4, "Paused", SLOW => "False".to_owned();
        2000, 4, "Paused", SLOW => "False".to_owned();
        2010, 5, "WaitingForHealth", SLOW => "Unknown Reconciling/Progressing 2010".to_owned();
        // A change of a field that does not affect objects.
        2020, 6, "UpToDate", READY => "True".to_owned();
        2030, 7, "UpToDate", READY => "True".to_owned();
        // The clock was set back by a day: the deadline starts again at that time.
        90_000, 8, "Blocked", BLOCKED => format!("{RETRY} 90000");
        3600, 8, "Blocked", BLOCKED => format!("{RETRY} 3600");
        3659, 8, "Blocked", BLOCKED => format!("{RETRY} 3600");
        3660, 8, "Blocked", BLOCKED => format!("{STALLED} 3600");
    ] {
        progress(&mut before, activity);
        update(&mut before, &declaration(generation, 60), facts, at(second));
        assert_eq!(short(&before), expected, "at {second}");
    }
    let mut unlimited = status("Blocked");
    for second in [0, 1_000_000] {
        update(&mut unlimited, &declaration(1, 0), BLOCKED, at(second));
        assert_rows!(short(&unlimited) => "Unknown Reconciling/ProgressingWithRetry 0");
    }
    update(&mut unlimited, &declaration(1, 60), BLOCKED, at(1_000_001));
    assert!(short(&unlimited).starts_with(STALLED));
}

#[test]
fn another_attempt_on_request_starts_the_deadline_again() {
    let mut status = status("Blocked");
    let declared = declaration(1, 60);
    for (second, declared, expected) in ::tests::rows![
        0, &declared => "Unknown Reconciling/ProgressingWithRetry 0";
        60, &declared => "False Stalled/ProgressDeadlineExceeded 0";
        70, &with!(Declaration, is_retried: true; ..declared) => "Unknown Reconciling/ProgressingWithRetry 70";
        129, &declared => "Unknown Reconciling/ProgressingWithRetry 70";
        130, &declared => "False Stalled/ProgressDeadlineExceeded 70";
    ] {
        update(&mut status, declared, BLOCKED, at(second));
        assert_eq!(short(&status), expected, "at {second}");
    }
}

// A restart of the provisioner loses what the informers have observed.
#[test]
fn lost_observation_changes_nothing() {
    let declared = declaration(1, 60);
    for (activity, facts, expected) in ::tests::rows![
        "UpToDate", READY => "True";
        "WaitingForHealth", SLOW => "Unknown Reconciling/Progressing 0";
        "Blocked", with!(Facts, remedy: Some(Remedy::Own); ..BLOCKED) => "False Stalled/Blocked 0";
        "UpToDate", with!(Facts, objects: Objects::Failed; ..READY) => "False Stalled/Unhealthy 0";
    ] {
        let mut status = status(activity);
        let unhealthy = condition(condition::HEALTHY, "False", reason::UNHEALTHY, "");
        condition::set(&mut status.conditions, unhealthy);
        update(&mut status, &declared, facts, at(0));
        assert_eq!(short(&status), expected);
        let before = status.clone();
        update(&mut status, &declared, NOT_OBSERVED, at(1));
        assert_eq!(status, before);
        // The conditions describe another generation.
        update(&mut status, &declaration(2, 60), NOT_OBSERVED, at(2));
        assert_eq!(short(&status), "Unknown Reconciling/Progressing 2");
    }
    let mut slow = status("WaitingForHealth");
    update(&mut slow, &declared, SLOW, at(0));
    for second in [60, 61] {
        update(&mut slow, &declared, NOT_OBSERVED, at(second));
        assert_eq!(short(&slow), "False Stalled/ProgressDeadlineExceeded 0");
    }
}

#[test]
fn time_left_counts_down_to_zero() {
    let mut since = BundleInstanceStatus::default();
    let limit = Some(Duration::from_secs(60));
    assert_eq!(time_left(&since, limit, at(0)), None);
    since.progressing_since = Some(Time(at(100)));
    assert_eq!(time_left(&since, None, at(0)), None);
    // Clocks may differ, but the remaining time never exceeds the limit.
    for (second, expected) in [(40, 60), (100, 60), (159, 1), (160, 0), (9999, 0)] {
        assert_rows!(time_left(&since, limit, at(second)) => Some(Duration::from_secs(expected)), "{second}");
    }
}

#[test]
fn message_is_that_of_the_condition_that_decides() {
    let mut status = status("Blocked");
    update(&mut status, &declaration(1, 60), BLOCKED, at(0));
    let of = |status: &BundleInstanceStatus, type_| find(&status.conditions, type_).cloned();
    let ready = of(&status, condition::READY).unwrap();
    assert_rows!((&*ready.reason, &*ready.message, ready.observed_generation) => ("Blocked", "message of Blocked", Some(1)));
    assert_rows!(of(&status, condition::RECONCILING).unwrap().message => ready.message);

    status.conditions.clear();
    progress(&mut status, "Blocked");
    for condition in &mut status.conditions {
        condition.message = "ü".repeat(5000);
    }
    update(&mut status, &declaration(1, 60), BLOCKED, at(0));
    assert_rows!(of(&status, condition::READY).unwrap().message => format!("{}…", "ü".repeat(1000)));
}

fn instance(metadata: &Value, paused: bool, conditions: &[(&str, &str, &str)]) -> BundleInstance {
    let mut status = with!(BundleInstanceStatus, observed_generation: Some(2));
    for (type_, state, reason) in conditions {
        status.conditions.push(condition(type_, state, reason, ""));
    }
    let mut instance: BundleInstance = serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "metadata": metadata,
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "paused": paused, "template": {"spec": {"source": {
            "type": "upload"
        }}}},
    }))
    .unwrap();
    instance.status = Some(status);
    instance
}

#[test]
fn phase_is_one_word() {
    let ready = ("Ready", "True", "UpToDate");
    let not = ("Ready", "False", "Unhealthy");
    let healthy = ("Healthy", "True", "Healthy");
    let unhealthy = ("Healthy", "False", "Unhealthy");
    let progressing = |reason| ("Progressing", "True", reason);
    let none = json!({"generation": 2});
    let newer = json!({"generation": 3});
    assert_each!(|metadata, paused, conditions, word| phase(&instance(metadata, paused, &conditions), at(0)).to_string() => word;
        &none, false, vec![ready] => "Ready";
        &none, false, vec![("Ready", "Unknown", "Applying"), ("Reconciling", "True", "Progressing")] => "Reconciling";
        &none, false, vec![not, ("Stalled", "True", "Unhealthy")] => "Stalled";
        &none, false, vec![not] => "NotReady";
        &none, true, vec![ready] => "Paused";
        &newer, false, vec![ready] => "Reconciling";
        &newer, true, vec![ready] => "Reconciling";
        &json!({"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"}), true, vec![ready] => "Terminating";
        // An older provisioner wrote these conditions.
        &none, false, vec![healthy, progressing("UpToDate")] => "Ready";
        &none, false, vec![unhealthy, progressing("WaitingForHealth")] => "Reconciling";
        &none, false, vec![healthy, progressing("Blocked")] => "Reconciling";
        &none, false, vec![unhealthy, progressing("UpToDate")] => "Stalled";
        &none, false, vec![] => "Reconciling";
    );
    let mut new = with!(instance(&none, false, &[]) => status: None);
    assert_eq!(phase(&new, at(0)), Phase::Reconciling);
    let status = new.status.insert(BundleInstanceStatus::default());
    status.observed_generation = Some(BundleInstanceStatus::NOT_OBSERVED);
    assert_eq!(status.observed(), None);
    assert_eq!(phase(&new, at(0)), Phase::Reconciling);
}
