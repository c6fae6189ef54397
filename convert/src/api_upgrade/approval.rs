//! Community groups: the API server rejects a v1 `CustomResourceDefinition` in them unless an annotation refers to its
//! approval.

use manifests::path::Path;

use super::{
    json::{self, Object, non_empty, object_or_new, text},
    notes::UpgradeNotes,
};
use crate::finding::code::Code;

/// Annotation with the URL of the approval, or with the reason why it is missing.
const ANNOTATION: &str = "api-approved.kubernetes.io";

/// Bundles do not approve community APIs, but users install their CRDs.
const UNAPPROVED: &str =
    "unapproved, shipped by an operator bundle that does not say where the API was approved";

/// Annotates a CRD in a community group, unless it has an annotation that the API server accepts.
pub(super) fn annotate(object: &mut Object, notes: &mut UpgradeNotes<'_>) {
    let Some(group) = json::object(object, "spec").and_then(|spec| non_empty(spec, "group")) else {
        return;
    };
    if !is_protected(group) {
        return;
    }
    let message = format!(
        "is in the protected API group {group}: annotation {ANNOTATION} was added so that the API server accepts the CRD"
    );
    let Some(annotations) =
        object_or_new(object, "metadata").and_then(|meta| object_or_new(meta, "annotations"))
    else {
        return; // Not a mapping: the typed check rejects the object.
    };
    if text(annotations, ANNOTATION).is_some_and(is_accepted) {
        return;
    }
    annotations.insert(ANNOTATION.into(), UNAPPROVED.into());
    notes.change(Code::UpgradedAPI, Path::from(["spec", "group"]), message);
}

/// Reports whether a group belongs to the Kubernetes community.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|owner| {
        group
            .strip_suffix(owner)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Reports whether an annotation is the URL of an approval, or declares that the API is unapproved.
fn is_accepted(annotation: &str) -> bool {
    let is_url = || {
        let (scheme, rest) = annotation.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?;
        let sound = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && !host.is_empty()
            && annotation.bytes().all(|b| b.is_ascii_graphic());
        sound.then_some(())
    };
    annotation.starts_with("unapproved") || is_url().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn community_groups_end_in_a_community_domain() {
        assert_rows!(["k8s.io", "kubernetes.io", "keda.k8s.io", "a.b.kubernetes.io"].map(is_protected) => [true; 4]);
        assert_rows!(["myk8s.io", "k8s.io.example.com", "example.com", ""].map(is_protected) => [false; 4]);
    }

    #[test]
    fn an_approval_is_a_url_or_an_admission() {
        let url = "https://github.com/kubernetes/enhancements/pull/1111";
        assert_rows!([url, "unapproved", "unapproved, experimental"].map(is_accepted) => [true; 3]);
        assert_rows!(["", "yes", "/path", "https://", "https:///path"].map(is_accepted) => [false; 5]);
        assert_rows!(["://host", "https://host/a b"].map(is_accepted) => [false; 2]);
    }
}
