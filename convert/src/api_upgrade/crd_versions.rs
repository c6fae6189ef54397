//! Versions of a v1beta1 `CustomResourceDefinition`, which could have a list, a single version, or both.

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    json::{Object, default, flag, non_empty, take},
    notes::UpgradeNotes,
};
use crate::finding::code::Code;

/// Removes the versions from a spec. Returns `None`, and adds an error to the notes, if they are malformed.
pub(super) fn take_from(spec: &mut Object, notes: &mut UpgradeNotes<'_>) -> Option<Vec<Object>> {
    let path = Path::from(["spec", "versions"]);
    let named = non_empty(spec, "version").map(str::to_owned);
    spec.remove("version");
    let listed = match take(spec, "versions") {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(_) => {
            notes.reject(path, "versions is not a list");
            return None;
        }
    };
    if listed.is_empty() {
        let Some(name) = named else {
            notes.reject(path, "the CRD has no version");
            return None;
        };
        let Value::Object(version) = json!({"name": name, "served": true, "storage": true}) else {
            return None; // Unreachable: the value above is an object.
        };
        return Some(vec![version]);
    }
    let mut versions = Vec::with_capacity(listed.len());
    for (at, version) in listed.into_iter().enumerate() {
        let Value::Object(version) = version else {
            notes.reject(path.index(at), "one of the versions is not a mapping");
            return None;
        };
        versions.push(version);
    }
    // The API server required both to agree, and read all other fields from the list.
    if let (Some(named), Some(first)) = (
        named,
        versions.first().and_then(|first| non_empty(first, "name")),
    ) && named != first
    {
        notes.warn(
            Code::UpgradedAPI,
            Path::from(["spec", "version"]),
            format!(
                "has spec.version {named:?} but lists {first:?} first; the list takes precedence"
            ),
        );
    }
    store(&mut versions, notes).then_some(versions)
}

/// Ensures that exactly one version is stored; absent flags mean false.
fn store(versions: &mut [Object], notes: &mut UpgradeNotes<'_>) -> bool {
    let path = Path::from(["spec", "versions"]);
    let stored = versions
        .iter()
        .filter(|version| flag(version, "storage"))
        .count();
    if let ([version], 0) = (&mut *versions, stored) {
        version.insert("storage".into(), true.into());
        default(version, "served", true);
        notes.warn(
            Code::UpgradedAPI,
            path.index(0),
            "had no storage version, which the API server rejects; its only version is now the storage version",
        );
    } else if stored != 1 {
        notes.reject(
            path,
            format!("exactly one version must be the storage version, not {stored}"),
        );
        return false;
    }
    for version in versions {
        default(version, "served", false);
        default(version, "storage", false);
    }
    true
}
