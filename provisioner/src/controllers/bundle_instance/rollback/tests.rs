use manifests::api::{bundle::Bundle, bundle_instance::RevisionState};

use super::*;
use crate::{
    controllers::bundle_instance::{outcome::Remedy, revisions::tests::status, rollout::unchanged},
    fixtures,
};

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

#[test]
fn rollout_is_given_up_for_its_own_failures_only() {
    use RevisionState::{Active, Archived, RollingOut};
    let failed = || HealthState::Failed(vec!["stuck".to_owned()]);
    let slow = || HealthState::Progressing(vec!["0 of 1 ready".to_owned()]);
    let same = || RolloutState::Unchanged;
    let during: &[RevisionState] = &[Active, RollingOut];
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
    ] {
        let unhealthy = |failed| with!(Unhealthy::default() => failed: failed);
        let evidence = Evidence {
            install: &install,
            health: &health,
            found: &unhealthy(objects(&["a"])),
            excused: &unhealthy(objects(excused)),
            hash: "hash-2",
            lacks_content: false,
        };
        let status = status(states);
        let now = Timestamp::from_second(9999).unwrap();
        assert_rows!(rollback_reason(&instance(policy, None), &status, &evidence, now).as_deref() => expected, "{name}");
    }
    // The objects of an interrupted rollout have the inputs of an earlier spec.
    let nothing = unchanged(
        &object!({"metadata": {"name": "a"}}),
        &BundleInstanceStatus::default(),
    );
    for (is_outdated, expected) in [(false, Some("stuck")), (true, None)] {
        let done = with!(nothing.clone() => is_outdated: is_outdated);
        let evidence = Evidence {
            install: &RolloutState::Done(Box::new(done)),
            health: &failed(),
            found: &with!(Unhealthy::default() => failed: objects(&["a"])),
            excused: &Unhealthy::default(),
            hash: "hash-2",
            lacks_content: false,
        };
        let reason = rollback_reason(
            &instance("OnFailure", None),
            &status(during),
            &evidence,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(reason.as_deref(), expected);
    }
}

#[test]
fn slow_rollout_is_given_up_only_with_an_explicit_deadline() {
    use RevisionState::{Active, RollingOut};
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
        let found = with!(Unhealthy::default() => slow: objects(&["a"]));
        let (failed, slow) = (objects(failed), objects(slow));
        let excused = Unhealthy { failed, slow };
        let evidence = Evidence {
            install: &install,
            health: &health,
            found: &found,
            excused: &excused,
            hash: "hash-2",
            lacks_content: false,
        };
        let now = Timestamp::from_second(second).unwrap();
        let mut status = status(&[Active, RollingOut]);
        if matches!(install, RolloutState::Failed(_)) {
            // Not all objects of the revision are applied.
            status.applied_digest = None;
        }
        assert_rows!(rollback_reason(&instance("OnFailure", deadline), &status, &evidence, now).as_deref() => expected, "{name}");
    }
}

#[test]
fn later_attempts_do_not_hide_failures_of_the_applied_revision() {
    use RevisionState::{Active, RollingOut};
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
        let evidence = Evidence {
            install: &install,
            health: &health,
            found: &with!(Unhealthy::default() => failed: objects(&["a"])),
            excused: &Unhealthy::default(),
            hash,
            lacks_content,
        };
        let mut status = status(&[Active, RollingOut]);
        if !is_applied {
            status.applied_digest = None;
        }
        let instance = instance("OnFailure", Some(60));
        let now = Timestamp::from_second(9999).unwrap();
        assert_rows!(rollback_reason(&instance, &status, &evidence, now).as_deref() => expected, "{name}");
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
        let evidence = Evidence {
            install: &install,
            health: &HealthState::Progressing(vec!["starting".to_owned()]),
            found: &with!(Unhealthy::default() => slow: objects(&["a"])),
            excused: &Unhealthy::default(),
            hash: "hash-2",
            lacks_content: true,
        };
        let now = Timestamp::from_second(9999).unwrap();
        let reason = rollback_reason(&instance("OnFailure", Some(60)), &status, &evidence, now);
        assert_eq!(reason, None);
    }
}

#[test]
fn template_of_the_active_revision_is_never_given_up() {
    use RevisionState::{Active, RollingOut};
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
        assert_rows! {
            is_possible(&choices, target.as_ref(), &status) => expected, "{hash} {source:?} {pin:?}";
        }
    }
}
