//! The end of a rollback. Pure; no I/O.

use manifests::api::{
    bundle_instance::{BundleInstance, RevisionState},
    condition::{self, find, reason},
};

use crate::{
    cluster::revisions,
    commands::install::assess::{self, WaitState},
};

/// Evaluates a BundleInstance whose generation `generation` pins revision `number`.
pub(super) fn evaluate(
    instance: &BundleInstance,
    generation: Option<i64>,
    number: i64,
) -> WaitState {
    if instance.metadata.deletion_timestamp.is_none() && instance.spec.rollback_to != Some(number) {
        return WaitState::Failed("spec.rollbackTo was changed by another client".to_owned());
    }
    if let Some(state) = evaluate_without_template(instance, generation, number) {
        return state;
    }
    let accepted = [reason::INSTALLATION_SUCCEEDED, reason::ROLLED_BACK];
    match assess::evaluate_with_reasons(instance, generation, &accepted) {
        WaitState::Done if !has_arrived(instance, number) => {
            // An automatic rollback of this rollout results in another revision.
            let conditions = instance.status.iter().flat_map(|status| &status.conditions);
            let mut failed = conditions.filter(|condition| {
                condition.type_ == condition::INSTALLED && condition.reason == reason::ROLLED_BACK
            });
            match failed.next() {
                Some(condition) => WaitState::Unhealthy(condition.message.clone()),
                None => WaitState::Wait(format!("waiting for the rollout of revision {number}")),
            }
        }
        verdict => verdict,
    }
}

/// Evaluates a BundleInstance whose condition Progressing reports that the Bundle of the template is not unpacked. A pinned
/// revision does not need that Bundle, and Ready reports the state of the revision. Returns `None` in all other cases, also
/// if the instance is terminating or a condition is outdated.
fn evaluate_without_template(
    instance: &BundleInstance,
    generation: Option<i64>,
    number: i64,
) -> Option<WaitState> {
    let conditions = &instance.status.as_ref()?.conditions;
    let current = |type_: &str| {
        find(conditions, type_).filter(|condition| condition.observed_generation >= generation)
    };
    let progressing = current(condition::PROGRESSING)?;
    let lacks_bundle = matches!(
        progressing.reason.as_str(),
        reason::UNPACK_PENDING | reason::UNPACK_FAILED
    );
    if !lacks_bundle || instance.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let ready = current(condition::READY)?;
    Some(match find(conditions, condition::HEALTHY) {
        _ if ready.status == "True" && has_arrived(instance, number) => WaitState::Done,
        Some(healthy) if ready.status == "False" && healthy.status == "False" => {
            WaitState::Unhealthy(healthy.message.clone())
        }
        _ => WaitState::Wait(ready.message.clone()),
    })
}

/// Reports whether the active revision is the pinned one, or was created from it.
fn has_arrived(instance: &BundleInstance, number: i64) -> bool {
    let revisions = revisions::all(instance);
    let active = revisions::newest(revisions, RevisionState::Active);
    let pinned = revisions.iter().find(|revision| revision.number == number);
    active.is_some_and(|active| {
        active.number == number
            || active.rollback_of == Some(number)
            || pinned.is_some_and(|pinned| pinned.digest == active.digest)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::condition;

    /// A BundleInstance with these reasons of Progressing and Installed, pinned to revision 1.
    fn instance(
        progressing: &str,
        installed: &str,
        revisions: &[(i64, &str, i64)],
    ) -> BundleInstance {
        let condition = |type_: &str, status: &str, reason: &str| {
            condition((type_, status, reason, &format!("message of {reason}")))
        };
        let revision = |(number, state, of): &(i64, &str, i64)| {
            let cause = if *of == 0 { "Upgrade" } else { "Rollback" };
            json!({
                "number": number, "state": state, "cause": cause, "rollbackOf": of, "bundle": "tide-1",
                "digest": number.to_string(), "checksum": "", "parts": 1, "created": "2026-01-01T00:00:00Z",
            })
        };
        let revisions: Vec<_> = revisions.iter().map(revision).collect();
        let conditions = [
            condition("Progressing", "False", progressing),
            condition("Installed", "True", installed),
            condition("Healthy", "True", "Healthy"),
        ];
        crate::testing::instance(&json!({
            "spec": {"rollbackTo": 1}, "status": {"conditions": conditions, "revisions": revisions},
        }))
    }

    #[test]
    fn rollback_is_done_when_its_revision_is_active() {
        let before = [(1, "Archived", 0), (2, "Active", 0)];
        let after = [(1, "Archived", 0), (2, "Archived", 0), (3, "Active", 1)];
        let during = [(1, "Archived", 0), (2, "Active", 0), (3, "RollingOut", 1)];
        let trimmed = [(2, "Archived", 0), (3, "Active", 1)];
        let cancelled = [(1, "Active", 0), (2, "Archived", 0)];
        let succeeded = "InstallationSucceeded";
        let wait = || WaitState::Wait("waiting for the rollout of revision 1".to_owned());
        ::tests::assert_each!(|progressing, installed, revisions, expected|
            evaluate(&instance(progressing, installed, revisions), Some(2), 1) => expected;
            "UpToDate", succeeded, &before[..] => wait();
            "UpToDate", succeeded, &during[..] => wait();
            "UpToDate", succeeded, &after[..] => WaitState::Done;
            "UpToDate", "RolledBack", &after[..] => WaitState::Done;
            "UpToDate", succeeded, &trimmed[..] => WaitState::Done;
            "UpToDate", succeeded, &cancelled[..] => WaitState::Done;
            "UpToDate", "RolledBack", &before[..] => WaitState::Unhealthy("message of RolledBack".to_owned());
            // The unit tests of `install::assess` cover the other failures.
            "Blocked", "UpgradeFailed", &before[..] => WaitState::Failed("message of UpgradeFailed".to_owned());
        );
        // A pinned revision does not need the Bundle of the template.
        for progressing in ["UnpackPending", "UnpackFailed"] {
            for (ready, revisions, expected) in ::tests::rows![
                "True", &after[..] => WaitState::Done;
                "Unknown", &during[..] => WaitState::Wait("message of Ready".to_owned());
            ] {
                let mut instance = instance(progressing, "RolledBack", revisions);
                let ready = condition(("Ready", ready, "Healthy", "message of Ready"));
                let conditions = &mut instance.status.as_mut().unwrap().conditions;
                conditions.push(serde_json::from_value(ready).unwrap());
                assert_eq!(evaluate(&instance, Some(2), 1), expected, "{progressing}");
            }
        }
        let instance = instance("UpToDate", succeeded, &before);
        let expected = "spec.rollbackTo was changed by another client".to_owned();
        assert_eq!(evaluate(&instance, Some(2), 2), WaitState::Failed(expected));
    }
}
