//! The recorded revisions of a BundleInstance: listed in its status, stored in Secrets of the system namespace.

use anyhow::anyhow;
use apply::revision::{Revision, store};
use kube::ResourceExt as _;
use manifests::api::{
    bundle_instance::{BundleInstance, RevisionState, RevisionStatus},
    revision::RevisionDetails,
};

use super::Cluster;
use crate::args;

/// The reason why a revision is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FindError {
    /// The status lists no revision at all.
    #[error(
        "BundleInstance {name} has no revision yet; run \"{} status {name}\"",
        args::name()
    )]
    Empty {
        /// The BundleInstance.
        name: String,
    },
    /// The number was never assigned to a revision.
    #[error(
        "revision {number} of BundleInstance {name} not found; choose one of {}",
        list(available)
    )]
    NotFound {
        /// The BundleInstance.
        name: String,
        /// The requested number.
        number: i64,
        /// The recorded numbers.
        available: Vec<i64>,
    },
    /// The history limit has removed the revision.
    #[error(
        "revision {number} of BundleInstance {name} is no longer recorded; choose one of {}",
        list(available)
    )]
    NotRecorded {
        /// The BundleInstance.
        name: String,
        /// The requested number.
        number: i64,
        /// The recorded numbers.
        available: Vec<i64>,
    },
}

/// Returns the revisions in the status, the oldest first.
pub(crate) fn all(instance: &BundleInstance) -> &[RevisionStatus] {
    let status = instance.status.as_ref();
    status.map_or(&[], |status| &status.revisions)
}

/// Returns the newest revision in a state.
pub(crate) fn newest(
    revisions: &[RevisionStatus],
    state: RevisionState,
) -> Option<&RevisionStatus> {
    let in_state = revisions.iter().filter(|revision| revision.state == state);
    in_state.max_by_key(|revision| revision.number)
}

/// Finds a revision by its number.
///
/// # Errors
/// Returns an error if the status does not list the revision.
pub(crate) fn find<'a>(
    name: &str,
    revisions: &'a [RevisionStatus],
    number: i64,
) -> Result<&'a RevisionStatus, FindError> {
    let found = revisions.iter().find(|revision| revision.number == number);
    found.ok_or_else(|| {
        let name = name.to_owned();
        let available = numbers(revisions);
        match available.last() {
            None => FindError::Empty { name },
            Some(newest) if number > *newest => FindError::NotFound {
                name,
                number,
                available,
            },
            Some(_) => FindError::NotRecorded {
                name,
                number,
                available,
            },
        }
    })
}

/// Returns the numbers of revisions, in ascending order.
pub(crate) fn numbers(revisions: &[RevisionStatus]) -> Vec<i64> {
    let mut numbers: Vec<i64> = revisions.iter().map(|revision| revision.number).collect();
    numbers.sort_unstable();
    numbers
}

/// Formats numbers for a message: `1, 2, 4`.
pub(crate) fn list(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    numbers.join(", ")
}

/// Reads a recorded revision.
///
/// # Errors
/// Returns an error if the status does not list the revision, or if its record is missing, altered, or the record of
/// another BundleInstance.
pub(crate) async fn read(
    cluster: &Cluster,
    instance: &BundleInstance,
    number: i64,
) -> anyhow::Result<Revision<RevisionDetails>> {
    let name = instance.name_any();
    let revision = find(&name, all(instance), number)?;
    let read = cluster.record(instance, revision).await;
    read.map_err(|error| {
        let problem = format!("failed to read revision {number} of BundleInstance {name}");
        match error {
            error @ store::Error::Request { .. } => cluster.explain_record(problem, error),
            // The text of the source is a part of the message.
            error @ store::Error::Missing { .. } => {
                anyhow!("{problem}: {error}; check --system-namespace, or choose another revision")
            }
            error => anyhow!("{problem}: {error}; choose another revision"),
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A revision whose digest is `digest`.
    pub(crate) fn revision(number: i64, state: &str, digest: &str) -> RevisionStatus {
        serde_json::from_value(json!({
            "number": number, "state": state, "cause": "Upgrade", "bundle": format!("tide-{number}"),
            "version": format!("1.{number}.0"), "digest": digest, "checksum": "sha256:0", "parts": 1,
            "created": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn missing_revision_is_rejected_with_a_remedy() {
        let revisions = [
            revision(5, "Active", "e"),
            revision(2, "Archived", "b"),
            revision(4, "Archived", "d"),
        ];
        for (revisions, number, expected) in ::tests::rows![
            &revisions[..], 2 => Ok(2);
            &revisions[..], 5 => Ok(5);
            &revisions[..], 6 => Err("revision 6 of BundleInstance tide not found; choose one of 2, 4, 5");
            &revisions[..], 3 => Err("revision 3 of BundleInstance tide is no longer recorded; choose one of 2, 4, 5");
            &revisions[..], 1 => Err("revision 1 of BundleInstance tide is no longer recorded; choose one of 2, 4, 5");
            &[][..], 1 => Err("BundleInstance tide has no revision yet; run \"rukpak status tide\"");
        ] {
            let found = find("tide", revisions, number).map(|revision| revision.number);
            ::tests::table::assert_outcome(found, expected, number);
        }
    }
}
