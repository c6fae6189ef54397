//! Status of a Bundle, derived from the outcome of a reconcile.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use manifests::api::{
    bundle::{Bundle, BundleInfo, BundleSource, BundleStatus, Phase, SkippedEntries},
    condition::{CONTENT_AVAILABLE, STALLED, UNPACKED, find, reason, with_time_of},
};
use unpacker::Digest;

use super::validate::truncate;

/// Maximum length of the message of a condition, in bytes.
const MAX_MESSAGE_LEN: usize = 32 << 10;
/// Maximum length of the message of Stalled, which repeats the message of Unpacked.
const MAX_STALLED_MESSAGE_LEN: usize = 1000;

/// Outcome of a reconcile of a Bundle.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// This provisioner does not handle the class.
    UnknownClass,
    /// The fetch waits for an upload, a Job or other Bundles.
    Pending(String),
    /// The content is being fetched.
    Unpacking,
    /// The fetch failed, and may succeed later.
    Failed(String),
    /// The content or the spec is invalid.
    Refused(String),
    /// The source has an entry that bundles must not contain.
    Rejected(String),
    /// The content is stored and valid.
    Unpacked(Box<Unpacked>),
    /// The content store has the content of an unpacked Bundle again.
    Found,
}

/// Content that is stored and valid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unpacked {
    /// Source, pinned to a digest or commit.
    pub(super) resolved: BundleSource,
    /// Digest of the content in the store.
    pub(super) digest: Digest,
    /// Skipped entries of the source; `None` if no entry was skipped.
    pub(super) skipped: Option<SkippedEntries>,
    /// Bundle info of the content.
    pub(super) facts: BundleInfo,
}

/// Reports whether the status confirms that the content of the current spec is stored.
pub fn is_unpacked(bundle: &Bundle) -> bool {
    let Some(status) = &bundle.status else {
        return false;
    };
    let condition = find(&status.conditions, UNPACKED);
    status.phase == Some(Phase::Unpacked)
        && status.observed_generation == bundle.metadata.generation
        && status.content_digest.is_some()
        && status.resolved_source.is_some()
        && status.content_url.is_some()
        && condition.is_some_and(|condition| condition.status == "True")
}

/// Reports whether the status says that the content of an unpacked Bundle is missing.
pub(crate) fn is_lost(bundle: &Bundle) -> bool {
    let status = bundle.status.as_ref();
    status.is_some_and(|status| find(&status.conditions, CONTENT_AVAILABLE).is_some())
}

/// Returns the status for an outcome. The pinned source and digest remain, even if the store loses the content.
pub(super) fn build(
    bundle: &Bundle,
    outcome: &Outcome,
    external_address: &str,
    now: Timestamp,
) -> BundleStatus {
    let previous = bundle.status.clone().unwrap_or_default();
    let (phase, holds, reason, message) = match outcome {
        Outcome::Found => {
            let mut status = previous;
            status
                .conditions
                .retain(|condition| condition.type_ != CONTENT_AVAILABLE);
            return status;
        }
        Outcome::UnknownClass => (
            Phase::Failing,
            false,
            reason::UNKNOWN_CLASS,
            format!(
                "no provisioner handles class {:?}; use core-rukpak-io-plain or core-rukpak-io-registry, or start the \
                 provisioner for that class",
                truncate(&bundle.spec.provisioner_class_name, 200)
            ),
        ),
        Outcome::Pending(message) => (
            Phase::Pending,
            false,
            reason::UNPACK_PENDING,
            message.clone(),
        ),
        Outcome::Unpacking => (Phase::Unpacking, false, reason::UNPACKING, String::new()),
        Outcome::Failed(message) | Outcome::Refused(message) => (
            Phase::Failing,
            false,
            reason::UNPACK_FAILED,
            message.clone(),
        ),
        Outcome::Rejected(message) => (
            Phase::Failing,
            false,
            reason::ENTRY_REFUSED,
            message.clone(),
        ),
        Outcome::Unpacked(unpacked) => (
            Phase::Unpacked,
            true,
            reason::UNPACK_SUCCESSFUL,
            format!(
                "Successfully unpacked the {} Bundle{}{}",
                bundle.spec.source.type_,
                unpinned_note(&unpacked.resolved),
                unpacked.skipped.as_ref().map(skipped).unwrap_or_default()
            ),
        ),
    };
    let condition = |type_: &str, holds: bool, message: &str| {
        let condition = Condition {
            type_: type_.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: truncate(message, MAX_MESSAGE_LEN),
            observed_generation: bundle.metadata.generation,
            last_transition_time: Time(now),
        };
        with_time_of(&previous.conditions, condition)
    };
    if !holds && is_unpacked(bundle) && !matches!(outcome, Outcome::UnknownClass) {
        // The content store is a cache: an unpacked Bundle remains unpacked, and the failed fetch is an additional
        // condition.
        let unpacked = previous
            .conditions
            .iter()
            .filter(|condition| condition.type_ == UNPACKED);
        let lost = condition(CONTENT_AVAILABLE, false, &message);
        return BundleStatus {
            conditions: unpacked.cloned().chain([lost]).collect(),
            ..previous
        };
    }
    let unpacked = condition(UNPACKED, holds, &message);
    // Another provisioner may handle an unknown class, and it would not remove the condition.
    let is_stalled = matches!(outcome, Outcome::Refused(_) | Outcome::Rejected(_));
    let message = truncate(&message, MAX_STALLED_MESSAGE_LEN);
    let stalled = is_stalled.then(|| condition(STALLED, true, &message));
    let status = BundleStatus {
        phase: Some(phase),
        observed_generation: bundle.metadata.generation,
        conditions: [unpacked].into_iter().chain(stalled).collect(),
        content_url: None,
        ..previous
    };
    let Outcome::Unpacked(unpacked) = outcome else {
        return status;
    };
    let address = external_address.trim_end_matches('/');
    BundleStatus {
        resolved_source: Some(unpacked.resolved.clone()),
        content_digest: Some(unpacked.digest.to_string()),
        content_url: Some(format!("{address}/bundles/{}.tgz", bundle.name_any())),
        skipped: unpacked.skipped.clone(),
        facts: unpacked.facts.clone(),
        ..status
    }
}

/// Returns the note for an image whose tag could not be pinned: a node pulled it, and the registry could not be queried.
fn unpinned_note(resolved: &BundleSource) -> &'static str {
    match &resolved.image {
        Some(image) if !image.reference.contains("@sha256:") => {
            "; the tag could not be resolved, so the content is pinned by contentDigest only"
        }
        _ => "",
    }
}

/// Returns the note for entries that are not part of the content although the bundle does not need them.
fn skipped(skipped: &SkippedEntries) -> String {
    format!("; skipped entries that are not regular files: {skipped}")
}

/// Reports whether a Bundle has this status already. Conditions of other controllers are ignored.
pub(super) fn is_written(bundle: &Bundle, status: &BundleStatus) -> bool {
    let Some(current) = &bundle.status else {
        return false;
    };
    let owned_conditions = |status: &BundleStatus| {
        [UNPACKED, CONTENT_AVAILABLE, STALLED].map(|type_| find(&status.conditions, type_).cloned())
    };
    let other_fields = |status: &BundleStatus| BundleStatus {
        conditions: Vec::new(),
        ..status.clone()
    };
    owned_conditions(current) == owned_conditions(status)
        && other_fields(current) == other_fields(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(class: &str) -> Bundle {
        object!({
            "metadata": {"name": "b", "uid": "u", "generation": 1},
            "spec": {"provisionerClassName": class, "source": {"type": "image", "image": {"ref": "quay.io/a/b:v1"}}},
        })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn unpacked() -> Outcome {
        Outcome::Unpacked(Box::new(Unpacked {
            resolved: with!(BundleSource::default() => type_: "image".to_owned()),
            digest: Digest::sha256(b"content"),
            skipped: None,
            facts: with!(BundleInfo::default() => package: Some("p".to_owned())),
        }))
    }

    fn summary(status: &BundleStatus) -> (Phase, &str, &str, &str) {
        let [condition, ..] = status.conditions.as_slice() else {
            panic!("{status:?}");
        };
        let (reason, message) = (&condition.reason, &condition.message);
        (status.phase.unwrap(), &condition.status, reason, message)
    }

    // parity: complaint-12
    #[test]
    fn every_outcome_has_its_phase_and_reason() {
        let class = "core-rukpak-io-plain";
        for (outcome, expected) in ::tests::rows![
            Outcome::Pending("wait".to_owned()) => (Phase::Pending, "False", "UnpackPending", "wait");
            Outcome::Unpacking => (Phase::Unpacking, "False", "Unpacking", "");
            Outcome::Failed("why".to_owned()) => (Phase::Failing, "False", "UnpackFailed", "why");
            Outcome::Refused("why".to_owned()) => (Phase::Failing, "False", "UnpackFailed", "why");
            Outcome::Rejected("why".to_owned()) => (Phase::Failing, "False", "EntryRefused", "why");
            unpacked() => (Phase::Unpacked, "True", "UnpackSuccessful", "Successfully unpacked the image Bundle");
        ] {
            let mut bundle = bundle(class);
            let status = build(&bundle, &outcome, "https://core.x.svc/", at(1));
            assert_eq!(summary(&status), expected);
            let is_refused = matches!(outcome, Outcome::Refused(_) | Outcome::Rejected(_));
            let stalled: Vec<_> = status.conditions.iter().skip(1).collect();
            assert_rows! {
                stalled.iter().map(|one| (&*one.type_, &*one.status, &*one.reason, &*one.message)).collect::<Vec<_>>()
                    => Vec::from_iter(is_refused.then_some((STALLED, "True", expected.2, expected.3)));
                status.observed_generation => Some(1);
                !is_written(&bundle, &status) => true;
                { bundle.status = Some(status.clone()); is_written(&bundle, &status) } => true;
                is_unpacked(&bundle) => expected.1 == "True";
            }
        }
        let unknown = bundle("example.com/other");
        let status = build(&unknown, &Outcome::UnknownClass, "", at(1));
        let (phase, _, reason, message) = summary(&status);
        assert_rows!((phase, reason) => (Phase::Failing, "UnknownProvisionerClass"));
        assert_rows!(message.contains("\"example.com/other\"") && message.contains("core-rukpak-io-registry") => true);
    }

    #[test]
    fn skipped_entries_are_in_the_status_and_in_the_message() {
        let bundle = bundle("core-rukpak-io-plain");
        let Outcome::Unpacked(mut unpacked) = unpacked() else {
            panic!("it is unpacked");
        };
        let paths = ["docs/a", "docs/b"].map(str::to_owned);
        let skipped = with!(SkippedEntries, symlinks: 2, special: 1, paths: paths.into());
        unpacked.skipped = Some(skipped.clone());
        let status = build(&bundle, &Outcome::Unpacked(unpacked), "", at(1));
        let message = "Successfully unpacked the image Bundle; skipped entries that are not regular files: 2 symbolic \
                       links, 1 special file (docs/a, docs/b and 1 more)";
        assert_eq!(summary(&status).3, message);
        assert_eq!(status.skipped, Some(skipped));
    }

    #[test]
    fn unpacked_bundle_stays_unpacked_while_its_content_is_lost() {
        let mut bundle = bundle("core-rukpak-io-plain");
        bundle.status = Some(build(&bundle, &unpacked(), "https://core.x.svc/", at(1)));
        let unpacked_before = bundle.status.clone().unwrap();
        assert_rows!(unpacked_before.content_url.as_deref() => Some("https://core.x.svc/bundles/b.tgz"));
        for outcome in [Outcome::Failed, Outcome::Pending] {
            let lost = build(&bundle, &outcome("not found".to_owned()), "", at(2));
            let [unpacked, available] = lost.conditions.as_slice() else {
                panic!("{lost:?}");
            };
            assert_rows! {
                *unpacked => unpacked_before.conditions[0];
                available.type_ => CONTENT_AVAILABLE;
                (available.status.as_str(), available.message.as_str()) => ("False", "not found");
                BundleStatus { conditions: unpacked_before.conditions.clone(), ..lost.clone() } => unpacked_before;
                !is_written(&bundle, &lost) => true;
            }
        }
        for outcome in [unpacked(), Outcome::Found] {
            let lost = build(&bundle, &Outcome::Failed("not found".to_owned()), "", at(2));
            let lost = with!(bundle.clone() => status: Some(lost));
            assert!(is_lost(&lost) && is_unpacked(&lost));
            assert_rows!(build(&lost, &outcome, "https://core.x.svc/", at(3)) => unpacked_before);
        }
    }

    #[test]
    fn foreign_conditions_are_kept_and_messages_truncated() {
        let mut bundle = bundle("core-rukpak-io-plain");
        let status = build(&bundle, &Outcome::Failed("ä".repeat(40_000)), "", at(1));
        assert!(status.conditions[0].message.len() <= MAX_MESSAGE_LEN);
        let other = with!(status.conditions[0].clone() => type_: "Other".to_owned());
        bundle.status = Some(with!(status.clone() => |status| status.conditions.insert(0, other)));
        assert!(is_written(&bundle, &status));
    }
}
