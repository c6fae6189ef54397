use serde_json::{Value, json};

use super::*;
use crate::fixtures::{self, spec};

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
        let time = format!("2026-01-01T{time}:00Z");
        with!(fixtures::condition(type_, status, reason, "") => |condition| condition["lastTransitionTime"] = time.into())
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let first = revision(1, "Install", "Archived");
    let revisions = [first, revision(2, cause, state)];
    serde_json::from_value(json!({"revisions": revisions, "conditions": conditions})).unwrap()
}

/// Returns the stage of a status at a time, with a progress deadline in seconds.
fn stage_at(status: &BundleInstanceStatus, time: &str, deadline: Option<i64>) -> Option<Stage> {
    let spec = spec(&json!({"progressDeadlineSeconds": deadline}));
    let now = format!("2026-01-01T{time}Z").parse().unwrap();
    Stage::new(&spec, status, now)
}

const fn stage(is_under_way: bool, is_unhealthy: bool) -> Stage {
    Stage {
        is_under_way,
        is_unhealthy,
    }
}

const WELL: &str = "Healthy True Healthy 11:00";
const ILL: &str = "Healthy False Unhealthy 12:01";
const ILL_BEFORE: &str = "Healthy False Unhealthy 11:00";
const WAITS: &str = "Progressing True WaitingForHealth 12:01";

#[test]
fn the_stage_of_a_revision_follows_from_the_status() {
    const APPLIES: &str = "Progressing True Applying 12:01";
    const RETRIES: &str = "Progressing True Retrying 12:01";
    const PAUSED: &str = "Progressing False Paused 12:01";
    const DONE: &str = "Progressing False UpToDate 12:01";
    const REFUSED: &str = "Installed True ReconcileFailed 11:00";
    let found = |status: &_| stage_at(status, "12:05:00", None);
    // Cause, state, whether all objects are applied, conditions, and the stage.
    assert_each!(|cause, state, applied, conditions, expected| found(&status(cause, state, applied, conditions)) => expected;
        "Platform", "RollingOut", false, &[WELL][..] => Some(stage(true, false));
        "Platform", "RollingOut", false, &[WELL, REFUSED][..] => Some(stage(true, true));
        "Platform", "RollingOut", true, &[WELL, REFUSED][..] => Some(stage(true, false));
        "Platform", "RollingOut", true, &[ILL, WAITS][..] => Some(stage(true, false));
        "Platform", "RollingOut", false, &[ILL, APPLIES][..] => Some(stage(true, false));
        // A failed object, while an attempt is repeated or the instance is paused.
        "Platform", "RollingOut", true, &[ILL, RETRIES][..] => Some(stage(true, true));
        "Platform", "RollingOut", true, &[ILL, PAUSED][..] => Some(stage(true, true));
        "Platform", "RollingOut", true, &[ILL, DONE][..] => Some(stage(true, true));
        "Platform", "RollingOut", true, &[ILL_BEFORE, DONE][..] => Some(stage(true, false));
        "Platform", "Active", true, &[WELL, DONE][..] => None;
        "Platform", "Active", true, &[ILL, DONE][..] => Some(stage(false, true));
        // The deadline has passed.
        "Platform", "Active", true, &[ILL, WAITS][..] => Some(stage(false, true));
        "Platform", "Active", true, &[ILL_BEFORE, DONE][..] => None;
        "Platform", "Archived", true, &[ILL, DONE][..] => None;
        "Upgrade", "RollingOut", true, &[ILL, DONE][..] => None;
        "Configuration", "Active", true, &[ILL, DONE][..] => None;
    );
    assert_eq!(found(&BundleInstanceStatus::default()), None);
}

#[test]
fn late_revision_counts_like_an_active_one() {
    const REFUSED: &str = "Installed True ReconcileFailed 12:01";
    let rolling_out =
        |is_applied, conditions: &[&str]| status("Platform", "RollingOut", is_applied, conditions);
    let [applied, slow, before] = [&[WELL][..], &[ILL, WAITS], &[ILL_BEFORE, WAITS]]
        .map(|conditions| rolling_out(true, conditions));
    let interrupted = rolling_out(false, &[WELL]);
    let refused = rolling_out(false, &[WELL, REFUSED]);
    // Status, time, deadline, and the stage. All objects were applied at 12:00:01.
    assert_each!(|status, time, deadline, expected| stage_at(status, time, deadline) => expected;
        &before, "12:10:00", Some(0) => Some(stage(true, false));
        &before, "12:10:01", Some(0) => None;
        &before, "12:10:01", None => None;
        &before, "12:10:01", Some(3600) => Some(stage(true, false));
        &before, "12:00:31", Some(30) => None;
        &applied, "12:10:01", Some(0) => None;
        &slow, "12:10:00", Some(0) => Some(stage(true, false));
        &slow, "12:10:01", Some(0) => Some(stage(false, true));
        &interrupted, "12:09:59", Some(0) => Some(stage(true, false));
        &interrupted, "12:10:00", Some(0) => None;
        &refused, "12:10:00", Some(0) => Some(stage(false, true));
        // The clock was set back.
        &before, "11:00:00", Some(0) => Some(stage(true, false));
    );
}

#[test]
fn late_revisions_release_their_slots() {
    let unhealthy = status("Platform", "RollingOut", true, &[ILL_BEFORE, WAITS]);
    let at = |time| stage_at(&unhealthy, time, Some(0));
    let mut all = Platform::default();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(all.begin(name), Turn::Granted);
        all.observe(name, 1, at("12:05:00"));
        all.end_reconcile(name);
    }
    assert_rows! {
        all.begin("e") => Turn::Queued;
        all.observe("a", 1, at("12:10:00")).is_empty() => true;
        all.observe("a", 1, at("12:10:01")) => ["e"];
        { all.begin_reconcile("e"); all.begin("e") } => Turn::Granted;
        all.begin("f") => Turn::Queued, "b, c, d and e are under way";
        all.begin("a") => Turn::Queued, "the next release is another rollout";
    }
}

fn platform(state: &str, is_unhealthy: bool) -> Option<Stage> {
    let health = ["True Healthy 11:00", "False Unhealthy 12:01"][usize::from(is_unhealthy)];
    let healthy = format!("Healthy {health}");
    let conditions = [&*healthy, "Progressing False UpToDate 12:01"];
    stage_at(
        &status("Platform", state, true, &conditions),
        "12:05:00",
        None,
    )
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
        let woken = all.observe(name, 10, platform("RollingOut", false));
        assert!(woken.is_empty(), "{woken:?}");
        assert!(all.end_reconcile(name).is_empty());
    }
    // The state is the same after a restart.
    assert_rows! {
        all.begin("g") => Turn::Queued;
        all.begin("a") => Turn::Granted, "the rollout continues";
        all.end_reconcile("a").is_empty() => true;
        // The watch may be older than the last write.
        all.observe("a", 9, None).is_empty() => true;
        all.observe("a", 11, platform("Active", false)) => ["f"];
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
        all.observe(name, 1, platform("RollingOut", false));
        all.end_reconcile(name);
    }
    for name in ["e", "f"] {
        assert_eq!(all.begin(name), Turn::Queued);
    }
    assert_rows!(all.observe("a", 2, platform("RollingOut", true)).is_empty() => true);
    let mut woken = all.observe("b", 2, platform("Active", true));
    woken.sort();
    assert_rows! {
        woken => ["e", "f"], "they report why they wait";
        all.begin("e") => stopped(&["a", "b"]);
        all.observe("c", 2, platform("Active", false)).is_empty() => true;
        all.observe("d", 2, platform("Active", false)).is_empty() => true;
        all.begin("f") => stopped(&["a", "b"]);
        // The next release may correct an unhealthy one.
        all.begin("b") => Turn::Granted;
        all.end_reconcile("b").is_empty() => true;
    }
    // One of them recovers, or gets another spec.
    let woken = with!(all.observe("b", 3, None) => |woken| woken.sort());
    assert_rows! {
        woken => ["e", "f"];
        all.begin("e") => Turn::Granted;
        all.begin("g") => Turn::Granted;
        all.begin("h") => Turn::Queued, "a, e, f and g are under way or called";
    }
}
