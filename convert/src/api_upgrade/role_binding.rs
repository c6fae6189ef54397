//! Role bindings of v1alpha1, whose subjects had an API version instead of a group.

use super::{
    json::{Object, objects_in, text},
    notes::UpgradeNotes,
};
use crate::finding::code::Code;
use manifests::path::Path;

/// API group of users and groups.
const GROUP: &str = "rbac.authorization.k8s.io";

/// Sets the group of every subject. The user `*` meant all authenticated users.
pub(super) fn reshape(object: &mut Object, notes: &mut UpgradeNotes<'_>) {
    for (at, subject) in objects_in(object, "subjects") {
        let version = subject.remove("apiVersion");
        let group = match text(subject, "kind") {
            Some("ServiceAccount") => "",
            Some("User" | "Group") => GROUP,
            _ => version
                .as_ref()
                .and_then(|version| version.as_str()?.split_once('/'))
                .map_or("", |(group, _)| group),
        };
        if !group.is_empty() {
            subject.insert("apiGroup".into(), group.into());
        }
        if text(subject, "kind") == Some("User") && text(subject, "name") == Some("*") {
            subject.insert("kind".into(), "Group".into());
            subject.insert("name".into(), "system:authenticated".into());
            notes.change(
                Code::UpgradedAPI,
                Path::from(["subjects"]).index(at),
                "now binds the group system:authenticated, because the user \"*\" is not a wildcard in v1",
            );
        }
    }
}
