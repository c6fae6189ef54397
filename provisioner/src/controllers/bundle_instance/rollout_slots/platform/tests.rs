use serde_json::{Value, json};

use super::*;

/// A status whose newest revision was created at 12:00. The conditions are `type status reason time`.
fn status(cause: &str, state: &str, is_applied: bool, conditions: &[&str]) -> BundleInstanceStatus {
    let revision = |number: i64, cause: &str, state: &str| {
        let mut revision = json!({
            "number": number, "state": state, "cause": cause, "bundle": "a", "digest": "d", "checksum": "c", "parts": 1,
            "created": "2026-01-01T12:00:00Z",
        });
        if is_applied {
            revision["applied"] = "2026-01-01T12:00:01Z".into();
        }
        revision
    };
    let condition = |text: &&str| -> Value {
        let [type_, status, reason, time] = text.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": format!("2026-01-01T{time}:00Z"),
        })
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let first = revision(1, "Install", "Archived");
    let revisions = [first, revision(2, cause, state)];
    serde_json::from_value(json!({"revisions": revisions, "conditions": conditions})).unwrap()
}

#[test]
fn the_stage_of_a_revision_follows_from_the_status() {
    const WELL: &str = "Healthy True Healthy 11:00";
    const ILL: &str = "Healthy False Unhealthy 12:01";
    const ILL_BEFORE: &str = "Healthy False Unhealthy 11:00";
    const WAITS: &str = "Progressing True WaitingForHealth 12:01";
    const APPLIES: &str = "Progressing True Applying 12:01";
    const RETRIES: &str = "Progressing True Retrying 12:01";
    const PAUSED: &str = "Progressing False Paused 12:01";
    const DONE: &str = "Progressing False UpToDate 12:01";
    const REFUSED: &str = "Installed True ReconcileFailed 11:00";
    let stage = |is_rolling_out, is_unhealthy| Some((is_rolling_out, is_unhealthy));
    let found = |status: &_| {
        let stage = Stage::from_status(status)?;
        Some((stage.is_rolling_out, stage.is_unhealthy))
    };
    // Cause, state, whether all objects are applied, conditions, and the stage.
    assert_each!(|cause, state, applied, conditions, expected| found(&status(cause, state, applied, conditions)) => expected;
        "Platform", "RollingOut", false, &[WELL][..] => stage(true, false);
        "Platform", "RollingOut", false, &[WELL, REFUSED][..] => stage(true, true);
        "Platform", "RollingOut", true, &[WELL, REFUSED][..] => stage(true, false);
        "Platform", "RollingOut", true, &[ILL, WAITS][..] => stage(true, false);
        "Platform", "RollingOut", false, &[ILL, APPLIES][..] => stage(true, false);
        // A failed object, while an attempt is repeated or the instance is paused.
        "Platform", "RollingOut", true, &[ILL, RETRIES][..] => stage(true, true);
        "Platform", "RollingOut", true, &[ILL, PAUSED][..] => stage(true, true);
        "Platform", "RollingOut", true, &[ILL, DONE][..] => stage(true, true);
        "Platform", "RollingOut", true, &[ILL_BEFORE, DONE][..] => stage(true, false);
        "Platform", "Active", true, &[WELL, DONE][..] => None;
        "Platform", "Active", true, &[ILL, DONE][..] => stage(false, true);
        // The deadline has passed.
        "Platform", "Active", true, &[ILL, WAITS][..] => stage(false, true);
        "Platform", "Active", true, &[ILL_BEFORE, DONE][..] => None;
        "Platform", "Archived", true, &[ILL, DONE][..] => None;
        "Upgrade", "RollingOut", true, &[ILL, DONE][..] => None;
        "Configuration", "Active", true, &[ILL, DONE][..] => None;
    );
    assert_eq!(found(&BundleInstanceStatus::default()), None);
}

fn platform(state: &str, is_unhealthy: bool) -> BundleInstanceStatus {
    let health = ["True Healthy 11:00", "False Unhealthy 12:01"][usize::from(is_unhealthy)];
    let healthy = format!("Healthy {health}");
    let conditions = [&*healthy, "Progressing False UpToDate 12:01"];
    status("Platform", state, true, &conditions)
}

fn stopped(names: &[&str]) -> Turn {
    Turn::Stopped(names.iter().map(ToString::to_string).collect())
}

#[test]
fn at_most_four_revisions_roll_out_at_a_time() {
    let mut all = Platform::default();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(all.begin(name), Turn::Granted);
    }
    // A turn that leads to no revision ends with its reconcile.
    assert_eq!(all.begin("e"), Turn::Queued);
    assert_eq!(all.begin("f"), Turn::Queued);
    assert_eq!(all.end_reconcile("d"), ["e"]);
    all.begin_reconcile("e");
    assert_eq!(all.begin("e"), Turn::Granted);
    for name in ["a", "b", "c", "e"] {
        let woken = all.observe(name, 10, Some(&platform("RollingOut", false)));
        assert!(woken.is_empty(), "{woken:?}");
        assert!(all.end_reconcile(name).is_empty());
    }
    // The state is the same after a restart.
    assert_rows! {
        all.begin("g") => Turn::Queued;
        all.begin("a") => Turn::Granted, "the rollout continues";
        all.end_reconcile("a").is_empty() => true;
        // The watch may be older than the last write.
        all.observe("a", 9, Some(&status("Upgrade", "Active", true, &[]))).is_empty() => true;
        all.observe("a", 11, Some(&platform("Active", false))) => ["f"];
        all.forget("b") => ["g"];
        // An instance that was called and gets another spec passes its turn on.
        all.begin("h") => Turn::Queued;
        { all.begin_reconcile("f"); all.end_reconcile("f") } => ["h"];
    }
}

#[test]
fn two_unhealthy_revisions_stop_all_others_until_they_recover() {
    let mut all = Platform::default();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(all.begin(name), Turn::Granted);
        all.observe(name, 1, Some(&platform("RollingOut", false)));
        all.end_reconcile(name);
    }
    for name in ["e", "f"] {
        assert_eq!(all.begin(name), Turn::Queued);
    }
    assert_rows!(all.observe("a", 2, Some(&platform("RollingOut", true))).is_empty() => true);
    let mut woken = all.observe("b", 2, Some(&platform("Active", true)));
    woken.sort();
    assert_rows! {
        woken => ["e", "f"], "they report why they wait";
        all.begin("e") => stopped(&["a", "b"]);
        all.observe("c", 2, Some(&platform("Active", false))).is_empty() => true;
        all.observe("d", 2, Some(&platform("Active", false))).is_empty() => true;
        all.begin("f") => stopped(&["a", "b"]);
        // The next release may correct an unhealthy one.
        all.begin("b") => Turn::Granted;
        all.end_reconcile("b").is_empty() => true;
    }
    // One of them recovers, or gets another spec.
    let woken = with!(all.observe("b", 3, Some(&status("Upgrade", "RollingOut", true, &[]))) => |woken| woken.sort());
    assert_rows! {
        woken => ["e", "f"];
        all.begin("e") => Turn::Granted;
        all.begin("g") => Turn::Granted;
        all.begin("h") => Turn::Queued, "a, e, f and g are under way or called";
    }
}
