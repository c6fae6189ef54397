use apply::informers::ObservedObject;
use manifests::api::{bundle::Bundle, bundle_instance::RevisionState};

use super::*;
use crate::{
    controllers::bundle_instance::{outcome::Remedy, revisions::tests::status, rollout::unchanged},
    fixtures,
};
use RevisionState::{Active, Archived, RollingOut};

fn instance(rollback: &str, deadline: Option<i64>) -> BundleInstance {
    object!({"metadata": {"name": "a"}, "spec": {"rollback": rollback, "progressDeadlineSeconds": deadline}})
}

fn failure(touched: bool, retry: RetryClass) -> RolloutState {
    RolloutState::Failed(Failure {
        bundle: "new".to_owned(),
        message: "broken".to_owned(),
        touched,
        retry,
        remedy: Remedy::World,
    })
}

fn objects(names: &[&str]) -> BTreeSet<Identity> {
    let identity = |name: &&str| fixtures::identity("", "ConfigMap", "default", name);
    names.iter().map(identity).collect()
}

fn unhealthy(failed: &[&str], slow: &[&str]) -> Unhealthy {
    let (failed, slow) = (objects(failed), objects(slow));
    Unhealthy { failed, slow }
}

static NOTHING: Unhealthy = Unhealthy {
    failed: BTreeSet::new(),
    slow: BTreeSet::new(),
};

/// Returns the evidence for a rollout of the template that caused all unhealthy objects, and whose content is available.
fn evidence<'a>(
    install: &'a RolloutState,
    health: &'a HealthState,
    found: &'a Unhealthy,
) -> Evidence<'a> {
    Evidence {
        install,
        health,
        found,
        excused: &NOTHING,
        hash: "hash-2",
        lacks_content: false,
    }
}

/// Returns the reason for a rollback at a time in seconds.
fn reason(
    deadline: Option<i64>,
    status: &BundleInstanceStatus,
    evidence: &Evidence<'_>,
    second: i64,
) -> Option<String> {
    let now = Timestamp::from_second(second).unwrap();
    rollback_reason(&instance("OnFailure", deadline), status, evidence, now)
}

#[test]
fn rollout_is_given_up_for_its_own_failures_only() {
    let failed = || HealthState::Failed(vec!["stuck".to_owned()]);
    let slow = || HealthState::Progressing(vec!["0 of 1 ready".to_owned()]);
    let same = || RolloutState::Unchanged;
    let during: &[RevisionState] = &[Active, RollingOut];
    let nothing = unchanged(
        &object!({"metadata": {"name": "a"}}),
        &BundleInstanceStatus::default(),
    );
    let done = |is_outdated| {
        let done = with!(nothing.clone() => is_outdated: is_outdated);
        RolloutState::Done(Box::new(done))
    };
    for ((name, policy, states, install, health, excused), expected) in ::tests::rows![
        ("disabled", "Never", during, same(), failed(), &[][..]) => None;
        ("an object is stuck", "OnFailure", during, same(), failed(), &[]) => Some("stuck");
        ("stuck before", "OnFailure", during, same(), failed(), &["a"]) => None;
        ("slow", "OnFailure", during, same(), slow(), &[]) => None;
        ("over", "OnFailure", &[Archived, Active], same(), failed(), &[]) => None;
        ("first", "OnFailure", &[RollingOut], same(), failed(), &[]) => None;
        ("no revision", "OnFailure", &[], same(), failed(), &[]) => None;
        ("refused", "OnFailure", during, failure(true, RetryClass::Backoff), slow(), &[]) => Some("broken");
        ("denied", "OnFailure", during, failure(true, RetryClass::AfterGrant), slow(), &[]) => Some("broken");
        ("not begun", "OnFailure", during, failure(false, RetryClass::Backoff), slow(), &[]) => None;
        ("API server away", "OnFailure", during, failure(true, RetryClass::Soon), slow(), &[]) => None;
        ("a repair failed", "OnFailure", &[Active], failure(true, RetryClass::Backoff), slow(), &[]) => None;
        ("complete", "OnFailure", during, done(false), failed(), &[]) => Some("stuck");
        // The objects of an interrupted rollout have the inputs of an earlier spec.
        ("outdated", "OnFailure", during, done(true), failed(), &[]) => None;
    ] {
        let (found, excused) = (unhealthy(&["a"], &[]), unhealthy(excused, &[]));
        let evidence = with!(evidence(&install, &health, &found) => excused: &excused);
        let now = Timestamp::from_second(9999).unwrap();
        assert_rows!(rollback_reason(&instance(policy, None), &status(states), &evidence, now).as_deref() => expected, "{name}");
    }
}

#[test]
fn slow_rollout_is_given_up_only_with_an_explicit_deadline() {
    const PASSED: &str = "the deadline of 60 seconds (spec.progressDeadlineSeconds) has passed";
    let slow_object = format!("{PASSED}: 0 of 1 ready");
    let failed_attempt = format!("{PASSED}: broken");
    let slow = || HealthState::Progressing(vec!["0 of 1 ready".to_owned()]);
    let unknown = || HealthState::Unknown("a watch does not work".to_owned());
    let unchanged = || RolloutState::Unchanged;
    let none: &[&str] = &[];
    for ((name, deadline, second, install, health, failed, slow), expected) in ::tests::rows![
        ("default", None, 9999, unchanged(), slow(), none, none) => None;
        ("no limit", Some(0), 9999, unchanged(), slow(), none, none) => None;
        ("in time", Some(60), 59, unchanged(), slow(), none, none) => None;
        ("late", Some(60), 60, unchanged(), slow(), none, none) => Some(&*slow_object);
        ("slow before", Some(60), 60, unchanged(), slow(), none, &["a"][..]) => None;
        ("failed before", Some(60), 60, unchanged(), slow(), &["a"][..], none) => None;
        ("not observed", Some(60), 60, unchanged(), HealthState::NotObserved, none, none) => None;
        ("not known", Some(60), 60, unchanged(), unknown(), none, none) => None;
        ("API server away", Some(60), 59, failure(true, RetryClass::Soon), slow(), none, none) => None;
        ("API server away for long", Some(60), 60, failure(true, RetryClass::Soon), slow(), none, none) => Some(&*failed_attempt);
        ("nothing applied", Some(60), 60, failure(false, RetryClass::Soon), slow(), none, none) => None;
    ] {
        let (found, excused) = (unhealthy(&[], &["a"]), unhealthy(failed, slow));
        let evidence = with!(evidence(&install, &health, &found) => excused: &excused);
        let mut status = status(&[Active, RollingOut]);
        if matches!(install, RolloutState::Failed(_)) {
            // Not all objects of the revision are applied.
            status.applied_digest = None;
        }
        assert_rows!(reason(deadline, &status, &evidence, second).as_deref() => expected, "{name}");
    }
}

#[test]
fn object_cannot_time_out_before_its_deadline_has_passed() {
    let seconds = Duration::from_secs;
    let at = |second| Timestamp::from_second(second).unwrap();
    let timed_out = |deadline, written: Option<i64>| Health::TimedOut {
        message: String::new(),
        deadline: seconds(deadline),
        written: written.map(at),
    };
    let mut view = InstanceView::default();
    for (name, health) in [
        ("a", timed_out(60, Some(0))),
        ("b", timed_out(30, Some(10))),
        ("c", timed_out(600, None)),
        ("d", Health::Failed(String::new())),
    ] {
        let identity = fixtures::identity("", "ConfigMap", "default", name);
        let observed = with!(ObservedObject::default() => health: health);
        view.objects.insert(identity, observed);
    }
    let all = &["a", "b", "c", "d"];
    for ((applied, second), (failed, left)) in ::tests::rows![
        (None, 39) => (&["c", "d"][..], Some(seconds(1)));
        (None, 40) => (&["b", "c", "d"][..], Some(seconds(20)));
        (None, 60) => (&all[..], None);
        // Repaired after the revision was applied, or written by the clock of an API server that is ahead.
        (Some(5), 35) => (&["b", "d"][..], Some(seconds(25)));
        // Without managedFields, the deadline starts with the revision.
        (Some(20), 619) => (&["a", "b", "d"][..], Some(seconds(1)));
        (Some(20), 620) => (&all[..], None);
        // The clock was set back.
        (None, -100) => (&["c", "d"][..], Some(seconds(30)));
    ] {
        let mut found = with!(Unhealthy::default() => failed: objects(all));
        let applied = applied.map(at);
        assert_rows!(defer_timeouts(&mut found, &view, applied, at(second)) => left);
        assert_rows!(found.failed => objects(failed));
        assert_rows!(found.all() => objects(all));
    }
}

#[test]
fn later_attempts_do_not_hide_failures_of_the_applied_revision() {
    let queued = || RolloutState::Queued;
    let waits = || RolloutState::Waiting(Remedy::World);
    let rejected = || failure(false, RetryClass::Backoff);
    let touched = || failure(true, RetryClass::Backoff);
    let passed = "the deadline of 60 seconds (spec.progressDeadlineSeconds) has passed, and some objects are not applied";
    for ((name, is_applied, hash, install, lacks_content), expected) in ::tests::rows![
        ("rejected", true, "hash-2", rejected(), false) => Some("stuck");
        ("waits", true, "hash-2", waits(), false) => Some("stuck");
        ("queued", true, "hash-2", queued(), false) => Some("stuck");
        ("stopped", true, "hash-2", RolloutState::Stopped(Vec::new()), false) => Some("stuck");
        ("content lost", true, "hash-2", rejected(), true) => Some("stuck");
        // The failure is that of another template.
        ("other, rejected", true, "hash-3", rejected(), false) => None;
        ("other, queued", true, "hash-3", queued(), false) => None;
        ("partly applied, rejected", false, "hash-2", rejected(), false) => None;
        ("partly applied", false, "hash-2", touched(), false) => Some("broken");
        ("partly applied, content lost", false, "hash-2", touched(), true) => Some("stuck");
        ("partly applied, waits", false, "hash-2", waits(), false) => Some(passed);
        ("partly applied, waits for content", false, "hash-2", waits(), true) => Some("stuck");
    ] {
        let health = HealthState::Failed(vec!["stuck".to_owned()]);
        let found = unhealthy(&["a"], &[]);
        let evidence = evidence(&install, &health, &found);
        let evidence = with!(evidence => hash: hash, lacks_content: lacks_content);
        let mut status = status(&[Active, RollingOut]);
        if !is_applied {
            status.applied_digest = None;
        }
        assert_rows!(reason(Some(60), &status, &evidence, 9999).as_deref() => expected, "{name}");
    }
}

#[test]
fn content_that_cannot_be_loaded_does_not_lead_to_a_rollback() {
    let status =
        with!(status(&[RevisionState::Active, RevisionState::RollingOut]) => applied_digest: None);
    for install in [
        failure(true, RetryClass::Backoff),
        RolloutState::Waiting(Remedy::World),
    ] {
        let health = HealthState::Progressing(vec!["starting".to_owned()]);
        let found = unhealthy(&[], &["a"]);
        let evidence = with!(evidence(&install, &health, &found) => lacks_content: true);
        assert_eq!(reason(Some(60), &status, &evidence, 9999), None);
    }
}

#[test]
fn template_of_the_active_revision_is_never_given_up() {
    let status = status(&[Active, RollingOut]);
    let newest = &status.revisions[1];
    let desired: Bundle = object!({"metadata": {"name": "new"}});
    for (hash, source, pin, expected) in [
        ("hash-2", Some(Source::Newest(newest)), None, true),
        ("hash-3", Some(Source::Newest(newest)), None, false),
        ("hash-3", Some(Source::Bundle(&desired)), None, true),
        ("hash-1", Some(Source::Bundle(&desired)), None, false),
        ("hash-2", Some(Source::Revision(newest)), None, false),
        // Nothing is to be rolled out.
        ("hash-2", None, None, true),
        ("hash-3", None, None, false),
        ("hash-2", Some(Source::Newest(newest)), Some(2), false),
        ("hash-2", None, Some(2), false),
    ] {
        let spec = with!(instance("OnFailure", None).spec => rollback_to: pin);
        let choices = Choices {
            spec: &spec,
            status: &status,
            hash,
            desired: Some(&desired),
            installed: None,
        };
        let target = source.map(|source| Target {
            source,
            rollback: None,
        });
        assert_rows!(is_possible(&choices, target.as_ref(), &status) => expected, "{hash} {source:?} {pin:?}");
    }
}
