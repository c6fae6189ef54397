//! The versions of a v1beta1 `CustomResourceDefinition`, which could be listed, named or both.

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    json::{Object, default, filled, flag, take},
    notes::Notes,
};
use crate::code::Code;

/// Takes the versions out of a spec; nothing, and an error in the notes, when there is no telling what they are.
pub(super) fn take_from(spec: &mut Object, notes: &mut Notes<'_>) -> Option<Vec<Object>> {
    let path = Path::from(["spec", "versions"]);
    let named = filled(spec, "version").map(str::to_owned);
    spec.remove("version");
    let listed = match take(spec, "versions") {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(_) => {
            notes.refuse(path, "its versions are not a list");
            return None;
        }
    };
    if listed.is_empty() {
        let Some(name) = named else {
            notes.refuse(path, "it names no version");
            return None;
        };
        let Value::Object(version) = json!({"name": name, "served": true, "storage": true}) else {
            return None; // It is one: written just above.
        };
        return Some(vec![version]);
    }
    let mut versions = Vec::with_capacity(listed.len());
    for (at, version) in listed.into_iter().enumerate() {
        let Value::Object(version) = version else {
            notes.refuse(path.index(at), "one of its versions is not a mapping");
            return None;
        };
        versions.push(version);
    }
    // The API server wanted the two to agree, and looked at the list for everything else.
    if let (Some(named), Some(first)) = (
        named,
        versions.first().and_then(|first| filled(first, "name")),
    ) && named != first
    {
        notes.warn(
            Code::UpgradedAPI,
            Path::from(["spec", "version"]),
            format!("names the version {named:?} but lists {first:?} first: the list counts"),
        );
    }
    store(&mut versions, notes).then_some(versions)
}

/// Makes sure that exactly one version is stored; absent flags meant false.
fn store(versions: &mut [Object], notes: &mut Notes<'_>) -> bool {
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
            "does not store its only version, which the apiserver refuses: it does now",
        );
    } else if stored != 1 {
        notes.refuse(
            path,
            format!("{stored} of its versions are stored instead of one"),
        );
        return false;
    }
    for version in versions {
        default(version, "served", false);
        default(version, "storage", false);
    }
    true
}
