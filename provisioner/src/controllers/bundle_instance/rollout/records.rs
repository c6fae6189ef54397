//! Selection of the records that contain the objects of a Bundle. Content that cannot be loaded does not stop a rollout if a
//! revision records its objects. Pure; no I/O.

use kube::ResourceExt as _;
use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstanceStatus, RevisionStatus},
    labels,
    revision::RevisionDetails,
};

/// Revisions that may record the objects of a Bundle, the newest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Records<'a> {
    /// Revision that is only partly applied. Its record is used even if the content is available.
    pub(crate) interrupted: Option<&'a RevisionStatus>,
    /// The interrupted revision if it is one of the same template. If neither the content nor another record has the objects,
    /// its rollout ends with the recorded inputs, and a rollout with the present inputs follows.
    pub(crate) unfinished: Option<&'a RevisionStatus>,
    /// Other revisions of the same template. Their records are used if the content cannot be loaded.
    pub(crate) of_template: Vec<&'a RevisionStatus>,
}

impl<'a> Records<'a> {
    /// Selects the revisions for a Bundle.
    pub(crate) fn new(before: &'a BundleInstanceStatus, bundle: &Bundle) -> Self {
        let interrupted = before.newest().filter(|_| before.applied_digest.is_none());
        let number = interrupted.map(|interrupted| interrupted.number);
        let hash = bundle.labels().get(labels::TEMPLATE_HASH);
        let is_of_template =
            |revision: &&RevisionStatus| hash.is_some() && revision.template_hash.as_ref() == hash;
        let others = before.revisions.iter().rev();
        let others = others.filter(|revision| Some(revision.number) != number);
        Self {
            interrupted,
            unfinished: interrupted.filter(is_of_template),
            of_template: others.filter(is_of_template).collect(),
        }
    }
}

/// Reports whether a record was rendered from the inputs that have this key.
pub(crate) fn has_key(details: &RevisionDetails, key: &str) -> bool {
    details.key.as_deref() == Some(key)
}

#[cfg(test)]
mod tests {
    use manifests::api::bundle_instance::RevisionState;

    use super::*;
    use crate::controllers::bundle_instance::revisions::tests::status;

    #[test]
    fn records_of_the_template_replace_lost_content() {
        use RevisionState::{Active, Archived, RollingOut};
        let numbers = |states: &[RevisionState], applied: Option<&str>, hash: Option<&str>| {
            let mut status = with!(status(states) => applied_digest: applied.map(str::to_owned));
            if let Some(rollback) = status.revisions.get_mut(2) {
                // A rollback to revision 1.
                rollback.template_hash = Some("hash-1".to_owned());
            }
            let labels = hash.map(|hash| serde_json::json!({(labels::TEMPLATE_HASH): hash}));
            let bundle: Bundle = object!({"metadata": {"name": "a", "labels": labels}});
            let records = Records::new(&status, &bundle);
            let number = |revision: &RevisionStatus| revision.number;
            let of_template = records.of_template.into_iter();
            (
                records.interrupted.map(number),
                records.unfinished.is_some(),
                of_template.map(number).collect::<Vec<_>>(),
            )
        };
        let key = Some("key");
        assert_each!(|states, applied, hash, interrupted, is_unfinished, others| numbers(states, applied, hash)
            => (interrupted, is_unfinished, others);
            &[Active][..], key, Some("hash-1"), None, false => vec![1];
            &[], None, Some("hash-1"), None, false => vec![];
            &[Active], key, Some("hash-2"), None, false => vec![];
            &[Active], key, None, None, false => vec![];
            // An API of deferred objects is served, and the process was killed.
            &[Active], None, Some("hash-1"), Some(1), true => vec![];
            // The template was reverted during a rollout.
            &[Active, RollingOut], None, Some("hash-1"), Some(2), false => vec![1];
            &[Active, RollingOut], None, Some("hash-2"), Some(2), true => vec![];
            &[Active, RollingOut], None, None, Some(2), false => vec![];
            // The template was reverted, or the pin was removed, after a rollback.
            &[Archived, Archived, Active], key, Some("hash-1"), None, false => vec![3, 1];
            &[Archived, Active, RollingOut], None, Some("hash-2"), Some(3), false => vec![2];
        );
    }

    #[test]
    fn record_of_other_inputs_is_not_used() {
        let details = |key: Option<&str>| with!(RevisionDetails, key: key.map(str::to_owned));
        assert_rows! {
            has_key(&details(Some("key")), "key") => true;
            has_key(&details(Some("other")), "key") => false;
            has_key(&details(None), "key") => false;
        }
    }
}
