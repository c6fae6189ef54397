use manifests::api::{bundle::Bundle, bundle_instance::RevisionState};

use super::*;
use crate::{
    controllers::bundle_instance::{outcome::Remedy, revisions::tests::status},
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
    let unchanged = || RolloutState::Unchanged;
    let during: &[RevisionState] = &[Active, RollingOut];
    for ((name, policy, states, install, health, excused), expected) in ::tests::rows![
        ("disabled", "Never", during, unchanged(), failed(), &[][..]) => None;
        ("an object is stuck", "OnFailure", during, unchanged(), failed(), &[]) => Some("stuck");
        ("stuck before", "OnFailure", during, unchanged(), failed(), &["a"]) => None;
        ("slow", "OnFailure", during, unchanged(), slow(), &[]) => None;
        ("over", "OnFailure", &[Archived, Active], unchanged(), failed(), &[]) => None;
        ("first", "OnFailure", &[RollingOut], unchanged(), failed(), &[]) => None;
        ("no revision", "OnFailure", &[], unchanged(), failed(), &[]) => None;
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
        };
        let status = status(states);
        let now = Timestamp::from_second(9999).unwrap();
        assert_rows!(rollback_reason(&instance(policy, None), &status, &evidence, now).as_deref() => expected, "{name}");
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
        let excused = Unhealthy {
            failed: objects(failed),
            slow: objects(slow),
        };
        let evidence = Evidence {
            install: &install,
            health: &health,
            found: &found,
            excused: &excused,
        };
        let now = Timestamp::from_second(second).unwrap();
        let status = status(&[Active, RollingOut]);
        let found = rollback_reason(&instance("OnFailure", deadline), &status, &evidence, now);
        assert_eq!(found.as_deref(), expected, "{name}");
    }
}

#[test]
fn template_of_the_active_revision_is_never_given_up() {
    use RevisionState::{Active, RollingOut};
    let spec = instance("OnFailure", None).spec;
    let status = status(&[Active, RollingOut]);
    let newest = &status.revisions[1];
    let desired: Bundle = object!({"metadata": {"name": "new"}});
    for (hash, source, expected) in [
        ("hash-2", Source::Newest(newest), true),
        ("hash-3", Source::Newest(newest), false),
        ("hash-3", Source::Bundle(&desired), true),
        ("hash-1", Source::Bundle(&desired), false),
        ("hash-2", Source::Revision(newest), false),
    ] {
        let choices = Choices {
            spec: &spec,
            status: &status,
            hash,
            desired: Some(&desired),
            installed: None,
        };
        assert_rows! {
            is_possible(&choices, &Target { source, rollback: None }, &status) => expected, "{hash} {source:?}";
        }
    }
}
