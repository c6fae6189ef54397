use manifests::api::bundle_instance::ready::Declaration;
use serde_json::{Value, json};

use super::*;
use crate::{
    controllers::bundle_instance::{outcome::TemplateState, reconcile, status::build},
    fixtures::{condition, spec},
};
use RevisionState::{Active, Archived, RollingOut};

/// A revision that is being rolled out since 1970.
pub(crate) fn revision(number: i64) -> RevisionStatus {
    let epoch = "1970-01-01T00:00:00Z";
    let revision = json!({
        "number": number, "state": "RollingOut", "cause": "Upgrade", "bundle": format!("bundle-{number}"), "checksum": "",
        "templateHash": format!("hash-{number}"), "digest": format!("sha256:{number}"), "parts": 1, "created": epoch,
        "applied": epoch,
    });
    serde_json::from_value(revision).unwrap()
}

/// A status with revisions in these states, all of whose objects are applied.
pub(crate) fn status(states: &[RevisionState]) -> BundleInstanceStatus {
    let revisions = states.iter().zip(1..);
    let revisions = revisions.map(|(state, number)| with!(revision(number) => state: *state));
    with!(BundleInstanceStatus::default() => applied_digest: Some("sha256:aa".to_owned()), revisions: revisions.collect())
}

#[test]
fn rollout_ends_when_objects_are_healthy_or_late() {
    let unwell = || HealthState::Failed(vec!["stuck".to_owned()]);
    let unset = json!({});
    let no_limit = json!({"progressDeadlineSeconds": 0});
    let short = json!({"progressDeadlineSeconds": 30});
    for (states, applied, spec_of, health, seconds, expected) in ::tests::rows![
        &[Active, RollingOut][..], true, &unset, HealthState::Healthy, 1 => true;
        &[RollingOut], true, &unset, HealthState::Healthy, 1 => true;
        &[RollingOut], false, &unset, HealthState::Healthy, 1 => false;
        &[Active], true, &unset, HealthState::Healthy, 1 => false;
        &[RollingOut], true, &unset, HealthState::NotObserved, 9999 => false;
        &[RollingOut], true, &unset, unwell(), 599 => false;
        &[RollingOut], true, &unset, unwell(), 600 => true;
        &[RollingOut], true, &short, unwell(), 30 => true;
        &[RollingOut], true, &no_limit, unwell(), 999_999 => false;
        // The clock was set back.
        &[RollingOut], true, &unset, unwell(), -100 => false;
    ] {
        let mut status = status(states);
        status.applied_digest = status.applied_digest.filter(|_| applied);
        let outcome = with!(Outcome::of_bundle(TemplateState::Unchanged) => health: health.clone());
        assert_rows! {
            is_rolled_out(&spec(spec_of), &status, &outcome, Timestamp::from_second(seconds).unwrap())
                => expected, "{states:?} {applied} {spec_of} {health:?} {seconds}";
        }
    }
}

#[test]
fn promotion_archives_all_older_revisions() {
    let mut status = status(&[Archived, Active, RollingOut, RollingOut]);
    assert_eq!(status.active().map(|active| active.number), Some(2));
    assert_rows!(status.live().map(|live| live.number).collect::<Vec<_>>() => [4, 3, 2]);
    for revision in &mut status.revisions {
        revision.removed_apis = Some(Vec::new());
    }
    promote(&mut status);
    assert_rows! {
        status.revisions.iter().map(|revision| revision.removed_apis.is_some()).collect::<Vec<_>>()
            => [false, false, false, true];
    }
    let states = |revisions: &[RevisionStatus]| {
        let states = revisions.iter().map(|revision| revision.state);
        states.collect::<Vec<_>>()
    };
    assert_rows!(states(&status.revisions) => [Archived, Archived, Archived, Active]);
    // A newer revision supersedes a rollout.
    let mut revisions = self::status(&[Active, RollingOut]).revisions;
    add(&mut revisions, revision(3));
    assert_rows!(states(&revisions) => [Active, Archived, RollingOut]);
}

#[test]
fn history_keeps_the_newest_archived_revisions() {
    let five = [Archived, Archived, Archived, Archived, Active];
    let numbers = |more: &Value, status: &BundleInstanceStatus| -> Vec<i64> {
        let surplus = surplus(&spec(more), status);
        surplus.iter().map(|revision| revision.number).collect()
    };
    assert_each!(|limit, states, expected| numbers(&limit, &status(states)) => expected;
        json!({}), &five[..] => &[1][..];
        json!({"revisionHistoryLimit": 1}), &five => &[1, 2, 3];
        json!({"revisionHistoryLimit": 4}), &five => &[];
        json!({"revisionHistoryLimit": 1, "rollbackTo": 2}), &five => &[1, 3, 4];
        json!({"revisionHistoryLimit": 1}), &[Active, RollingOut] => &[];
        // Objects of revision 3 may exist.
        json!({"revisionHistoryLimit": 1}), &[Archived, Active, Archived, RollingOut] => &[];
    );
    let mut pruning = status(&five);
    pruning.removing = vec!["ConfigMap default/a".to_owned()];
    assert_eq!(numbers(&json!({}), &pruning), [0; 0]);
    // A failing template after the other does not fill the status.
    pruning.revisions = status(&[Archived; 40]).revisions;
    assert_eq!(numbers(&json!({}), &pruning).len(), 32);
}

#[test]
fn inventory_covers_all_revisions_whose_objects_may_exist() {
    let leaving = vec!["ConfigMap a/b".to_owned()];
    let numbers = |states: &[RevisionState], removing: &[String]| {
        let status = with!(status(states) => removing: removing.to_vec());
        let numbers = status.indexed().map(|revision| revision.number);
        numbers.collect::<Vec<_>>()
    };
    assert_each!(|states, removing, expected| numbers(states, removing) => expected;
        &[Archived, Active][..], &[][..] => &[2][..];
        &[Archived, Active], &leaving => &[2, 1];
        &[Archived, Active, RollingOut], &[] => &[3, 2];
        // The rollout of revision 3 was not finished.
        &[Archived, Active, Archived, RollingOut], &[] => &[4, 3, 2];
        &[Archived, RollingOut], &[] => &[2, 1];
    );
}

#[test]
fn given_up_revision_awaits_its_rollback() {
    let never =
        with!(status(&[Active, RollingOut]) => failed_template_hash: Some("hash-2".to_owned()));
    assert_rows!(awaits_rollback(&spec(&json!({})), &never, "hash-2") => false);
    for (states, failed, pin, hash, expected) in ::tests::rows![
        &[Active, RollingOut][..], Some("hash-2"), None, "hash-2" => true;
        &[Active, RollingOut], None, None, "hash-2" => false;
        &[Active, RollingOut], Some("hash-2"), None, "hash-3" => false;
        &[Active, RollingOut], Some("hash-2"), Some(2), "hash-2" => false;
        &[Active], Some("hash-2"), None, "hash-2" => false;
        &[RollingOut], Some("hash-1"), None, "hash-1" => false;
    ] {
        let status = with!(status(states) => failed_template_hash: failed.map(str::to_owned));
        let spec = spec(&json!({"rollback": "OnFailure", "rollbackTo": pin}));
        assert_rows!(awaits_rollback(&spec, &status, hash) => expected, "{states:?} {failed:?} {pin:?} {hash}");
    }
}

#[test]
fn failed_revision_without_an_earlier_one_is_not_rolled_back() {
    let upgrade = Cause::Upgrade;
    for (states, cause, failed, expected) in ::tests::rows![
        &[Active, RollingOut][..], upgrade, Some("hash-2") => false;
        // The record of the active revision was lost.
        &[Archived, RollingOut], upgrade, Some("hash-2") => true;
        &[Archived, Active], upgrade, Some("hash-2") => true;
        &[Archived, Active], upgrade, Some("hash-1") => false;
        &[Archived, Active], upgrade, None => false;
        &[Archived, Active], Cause::Rollback, Some("hash-2") => false;
        &[], upgrade, Some("hash-2") => false;
    ] {
        let mut status = with!(status(states) => failed_template_hash: failed.map(str::to_owned));
        for revision in &mut status.revisions {
            revision.cause = cause;
        }
        assert_rows!(has_lost_rollback_target(&status) => expected, "{states:?} {cause:?} {failed:?}");
    }
}

#[test]
fn deadline_restarts_after_a_pause() {
    let now = Timestamp::from_second(5000).unwrap();
    let left = |states: &[RevisionState], reason: &str| {
        let conditions = json!([condition("Progressing", "False", reason, "")]);
        let conditions = serde_json::from_value(conditions).unwrap();
        let mut status = with!(status(states) => conditions: conditions);
        let is_restarted = restart_deadline(&mut status, now);
        let spec = spec(&json!({"progressDeadlineSeconds": 30}));
        let newest = status.rolling_out().filter(|_| is_restarted)?;
        let applied = newest.applied.as_ref();
        assert!(newest.created.0 < now && applied.is_none_or(|applied| applied.0 < now));
        time_left(&spec, newest, now)
    };
    assert_rows! {
        left(&[Active, RollingOut], "Paused") => Some(Duration::from_secs(30));
        left(&[Active, RollingOut], "UnknownProvisionerClass") => Some(Duration::from_secs(30));
        left(&[Active, RollingOut], "WaitingForHealth") => None;
        left(&[Active], "Paused") => None;
    }
}

#[test]
fn rollout_times_are_never_in_the_future() {
    let at = |second| Time(Timestamp::from_second(second).unwrap());
    let newest = with!(revision(1) => created: at(90), applied: None, resumed: Some(at(200)));
    let mut status = with!(BundleInstanceStatus::default() => revisions: vec![newest]);
    // The clock was set back.
    follow_clock(&mut status, at(50).0);
    let newest = &status.revisions[0];
    assert_eq!(newest.created, at(50));
    assert_eq!(newest.applied, None);
    assert_eq!(newest.resumed, Some(at(50)));
    // The creation of an active revision remains recorded.
    let active = with!(revision(1) => created: at(90), state: RevisionState::Active);
    let mut others = with!(BundleInstanceStatus::default() => revisions: vec![active]);
    follow_clock(&mut others, at(50).0);
    assert_eq!(others.revisions[0].created, at(90));
    let limit = Duration::from_secs(30);
    let unapplied = with!(newest.clone() => resumed: None);
    // Without applied objects, the time starts with the creation.
    assert_eq!(left(&unapplied, limit, at(60).0), Duration::from_secs(20));
}

#[test]
fn failed_reads_do_not_hide_a_pause() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let registry = "core-rukpak-io-registry";
    for (is_paused, class, expected) in ::tests::rows![
        true, registry => true;
        true, "example.com/helm" => true;
        false, registry => false;
    ] {
        let instance: BundleInstance = object!({
            "metadata": {"name": "a"}, "spec": {"paused": is_paused, "provisionerClassName": class},
        });
        let outcome =
            reconcile::inventory_error_outcome(&instance, "ConfigMaps are forbidden".to_owned());
        let declaration = Declaration::new(&instance);
        let before = status(&[Active, RollingOut]);
        let mut status = build(&before, &declaration, &outcome, at(1));
        assert_eq!(restart_deadline(&mut status, at(5000)), expected, "{class}");
    }
}

#[test]
fn rollback_remains_in_effect_without_its_record() {
    let spec = spec(&json!({}));
    for (states, failed, is_given_up, expected) in ::tests::rows![
        &[Active][..], Some("hash-2"), true => Some(1);
        &[Active], Some("hash-2"), false => None;
        &[Active], None, false => None;
        &[Archived, Archived], Some("hash-2"), true => Some(2);
        &[Archived, Archived], Some("hash-2"), false => None;
        // An older provisioner has recorded no revision.
        &[], Some("hash-2"), true => Some(0);
        // The rollback has not started.
        &[Active, RollingOut], Some("hash-2"), true => None;
        // No rollback is possible.
        &[Archived, Active], Some("hash-2"), true => None;
    ] {
        let failed = failed.map(str::to_owned);
        let status = with!(status(states) => failed_template_hash: failed.clone());
        let back = rollback(&spec, &status, is_given_up);
        assert_rows!(back.as_ref().and_then(|back| back.template_hash.clone()) => failed.filter(|_| expected.is_some()));
        assert_rows!(back.map(|back| back.to) => expected, "{states:?} {is_given_up}");
    }
}
