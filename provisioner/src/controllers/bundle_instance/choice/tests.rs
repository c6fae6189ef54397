use manifests::api::{bundle::Phase, bundle_instance::RevisionState};
use serde_json::json;

use super::*;
use crate::{
    controllers::bundle_instance::revisions::tests::{revision, status},
    fixtures::spec,
};
use RevisionState::{Active, Archived, RollingOut};

fn bundle(name: &str, phase: Phase) -> Bundle {
    object!({"metadata": {"name": name}, "status": {"phase": phase}})
}

/// Formats a goal as a word and a name or number.
fn decided(goal: &Goal<'_>) -> String {
    match goal {
        Goal::Bundle(bundle) => format!("bundle {}", bundle.metadata.name.as_deref().unwrap()),
        Goal::Revision(revision) => format!("revision {}", revision.number),
        Goal::Keep => "keep".to_owned(),
        Goal::Unrecorded(number) => format!("unrecorded {number}"),
    }
}

#[test]
fn goal_follows_the_pin_the_failure_and_the_template() {
    let ready = bundle("new", Phase::Unpacked);
    let pending = bundle("new", Phase::Pending);
    let old = bundle("old", Phase::Unpacked);
    // Revisions by state, and by the revision that they record again.
    let none: &[(RevisionState, Option<i64>)] = &[];
    let one = &[(Active, None)];
    let during = &[(Active, None), (RollingOut, None)];
    let lost_active = &[(RollingOut, None)];
    let back = &[(Archived, None), (Archived, None), (Active, Some(1))];
    // The record of revision 3 was lost.
    let lost = &[(Active, None), (Archived, None)];
    for ((name, pin, failed, hash, desired, revisions), expected) in ::tests::rows![
        ("first", None, None, "hash-1", Some(&ready), none) => "bundle new";
        ("unpacking", None, None, "hash-1", Some(&pending), none) => "bundle old";
        ("upgrade", None, None, "hash-2", Some(&ready), one) => "bundle new";
        ("upgrade unpacks", None, None, "hash-2", Some(&pending), one) => "keep";
        ("no Bundle", None, None, "hash-2", None, one) => "keep";
        ("failed before", None, Some("hash-1"), "hash-2", Some(&ready), one) => "bundle new";
        ("failed", None, Some("hash-2"), "hash-2", Some(&ready), during) => "revision 1";
        ("rolled back", None, Some("hash-2"), "hash-2", Some(&ready), back) => "keep";
        ("failed, active lost", None, Some("hash-1"), "hash-1", Some(&ready), lost_active) => "bundle new";
        ("failed, active and content lost", None, Some("hash-1"), "hash-1", Some(&pending), lost_active) => "keep";
        ("failed, first", None, Some("hash-2"), "hash-2", Some(&ready), none) => "keep";
        ("reverted", None, None, "hash-1", Some(&ready), during) => "bundle new";
        ("reverted, no content", None, None, "hash-1", Some(&pending), during) => "revision 1";
        ("other, no content", None, None, "hash-3", Some(&pending), during) => "keep";
        ("pinned", Some(1), None, "hash-2", Some(&ready), during) => "revision 1";
        ("pinned, failed", Some(1), Some("hash-2"), "hash-2", Some(&ready), during) => "revision 1";
        ("pin reached", Some(1), None, "hash-2", Some(&ready), back) => "keep";
        ("pinned to the newest", Some(2), None, "hash-3", Some(&ready), during) => "keep";
        ("pinned, newest lost", Some(2), None, "hash-3", Some(&ready), lost) => "revision 2";
        ("pinned to nothing", Some(7), None, "hash-2", Some(&ready), during) => "unrecorded 7";
    ] {
        let spec = spec(&json!({"rollbackTo": pin}));
        let revisions = revisions.iter().zip(1..).map(|((state, of), number)| {
            let cause = of.map_or(Cause::Upgrade, |_| Cause::Rollback);
            with!(revision(number) => state: *state, cause: cause, rollback_of: *of)
        });
        let status = with!(BundleInstanceStatus::default() =>
            failed_template_hash: failed.map(str::to_owned), revisions: revisions.collect());
        assert_rows! {
            decided(&Choices { spec: &spec, status: &status, hash, desired, installed: Some(&old) }.goal()) => expected, "{name}";
        }
    }
}

#[test]
fn half_applied_revision_is_rolled_out_again() {
    let spec = spec(&json!({}));
    let number = |states: &[RevisionState], applied: Option<&str>| {
        let status = with!(status(states) => applied_digest: applied.map(str::to_owned));
        let choices = Choices {
            spec: &spec,
            status: &status,
            hash: "hash-3",
            desired: None,
            installed: None,
        };
        match choices.target(&Goal::Keep, false, None)?.source {
            Source::Newest(newest) => Some(newest.number),
            other => panic!("{other:?}"),
        }
    };
    assert_rows! {
        number(&[], None) => None;
        number(&[Active], Some("key")) => None;
        number(&[Active, RollingOut], None) => Some(2);
        // The record of revision 2 was lost.
        number(&[Active], None) => Some(1);
        number(&[Archived, Active], None) => Some(2);
    }
}

#[test]
fn lost_rollback_is_rolled_out_again() {
    let spec = spec(&json!({}));
    let ready = bundle("new", Phase::Unpacked);
    let installed = bundle("old", Phase::Unpacked);
    assert_each!(|states, applied, installed, expected| {
        let status = with!(status(states) => applied_digest: applied.map(str::to_owned),
            failed_template_hash: Some("hash-2".to_owned()));
        decided(&Choices { spec: &spec, status: &status, hash: "hash-2", desired: Some(&ready), installed }.goal())
    } => expected;
        &[Archived, Archived][..], Some("revision sha256:1"), Some(&installed) => "revision 1";
        &[Archived, Archived], Some("revision sha256:3"), None => "keep";
        &[Archived, Archived], Some("key"), None => "keep";
        &[Archived, Archived], None, None => "keep";
        &[Active, Archived], Some("revision sha256:1"), Some(&installed) => "keep";
        // No record has the installed objects.
        &[Archived, Archived], Some("revision sha256:3"), Some(&installed) => "bundle old";
    );
}
