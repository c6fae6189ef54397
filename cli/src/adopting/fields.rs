//! Who has set which fields: the entries of managedFields, as plain functions.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use manifests::api::MANAGER;
use serde_json::{Map, Value};

/// Programs that put objects into clusters, by what their managers begin with. What others have set, controllers and
/// webhooks above all, is still wanted when the owner changes.
const DEPLOYERS: &[&str] = &[
    "kubectl",
    "helm",
    "Helm",
    "Go-http-client", // older Helm
    "before-first-apply",
    "argocd",
    "kustomize-controller",
    "helm-controller",
    "olm",
    "catalog",
    "operator-controller",
    "operator-sdk",
    "kapp",
    "pulumi",
    "Terraform",
    "terraform",
    "rukpak",
];

/// What becomes of an object's entries.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Takeover {
    /// All entries, with those that are taken in one of the provisioner's; `None` if none is.
    pub(super) entries: Option<Vec<ManagedFieldsEntry>>,
    /// Whose were taken.
    pub(super) taken: BTreeSet<String>,
    /// Fields that go with the next apply, because the bundle does not have them.
    pub(super) going: Vec<String>,
}

/// Takes the entries of deployers, and of those that are named besides. `ours` are the fields of the bundle, and all
/// entries are of the version in which these are applied; fields of other versions stay whose they are.
pub(super) fn take(
    entries: &[ManagedFieldsEntry],
    api_version: &str,
    ours: &Map<String, Value>,
    named: &[String],
) -> Takeover {
    let mut kept = Vec::new();
    let mut union = Map::new();
    let mut taken = BTreeSet::new();
    for entry in entries {
        let manager = entry.manager.as_deref().unwrap_or_default();
        let is_ours = manager == MANAGER && entry.operation.as_deref() == Some("Apply");
        let is_main = entry.subresource.as_deref().unwrap_or_default().is_empty();
        let is_version = entry.api_version.as_deref() == Some(api_version);
        let is_wanted = is_ours
            || DEPLOYERS.iter().any(|it| manager.starts_with(it))
            || named.iter().any(|it| it == manager);
        if let Some(Value::Object(fields)) = entry.fields_v1.as_ref().map(|it| &it.0)
            && is_main
            && is_version
            && is_wanted
        {
            unite(&mut union, fields);
            if !is_ours {
                taken.insert(manager.to_owned());
            }
        } else {
            kept.push(entry.clone());
        }
    }
    if taken.is_empty() {
        return Takeover {
            entries: None,
            taken,
            going: Vec::new(),
        };
    }
    let mut others = Map::new();
    for entry in &kept {
        if let Some(Value::Object(fields)) = entry.fields_v1.as_ref().map(|it| &it.0) {
            unite(&mut others, fields);
        }
    }
    let mut going = Vec::new();
    left(&union, ours, &others, "", &mut going);
    kept.push(ManagedFieldsEntry {
        api_version: Some(api_version.to_owned()),
        fields_type: Some("FieldsV1".to_owned()),
        fields_v1: Some(FieldsV1(Value::Object(union))),
        manager: Some(MANAGER.to_owned()),
        operation: Some("Apply".to_owned()),
        subresource: None,
        time: None,
    });
    Takeover {
        entries: Some(kept),
        taken,
        going,
    }
}

/// The fields that the provisioner has applied, or would have.
pub(super) fn of_provisioner(entries: &[ManagedFieldsEntry]) -> Map<String, Value> {
    let ours = entries.iter().find(|entry| {
        entry.manager.as_deref() == Some(MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    });
    match ours
        .and_then(|entry| entry.fields_v1.as_ref())
        .map(|it| &it.0)
    {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    }
}

/// Adds the fields of one set to another.
fn unite(into: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, below) in more {
        let entry = into
            .entry(key.as_str())
            .or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(into), Value::Object(more)) = (entry, below) {
            unite(into, more);
        }
    }
}

/// The topmost fields of a set that are in neither of two others.
fn left(
    fields: &Map<String, Value>,
    ours: &Map<String, Value>,
    others: &Map<String, Value>,
    path: &str,
    going: &mut Vec<String>,
) {
    for (key, below) in fields {
        if key == "." {
            continue; // the thing itself
        }
        let path = format!("{path}{}", step(key));
        let empty = Map::new();
        let under = |map: &Map<String, Value>| match map.get(key) {
            Some(Value::Object(below)) => Some(below.clone()),
            Some(_) => Some(Map::new()),
            None => None,
        };
        match (under(ours), under(others)) {
            (None, None) => going.push(path),
            (mine, theirs) => {
                // Who has a field without parts has all of it.
                let is_whole =
                    |map: &Option<Map<String, Value>>| map.as_ref().is_some_and(Map::is_empty);
                if is_whole(&mine) || is_whole(&theirs) {
                    continue;
                }
                if let Value::Object(below) = below {
                    let mine = mine.unwrap_or_default();
                    left(
                        below,
                        &mine,
                        theirs.as_ref().unwrap_or(&empty),
                        &path,
                        going,
                    );
                }
            }
        }
    }
}

/// `f:data` is a field, `k:{"name":"a"}` an entry of a list by its keys, `v:"x"` one by its value.
fn step(key: &str) -> String {
    match key.split_once(':') {
        Some(("f", name)) if name.contains(['.', '/']) => format!("[{name}]"),
        Some(("f", name)) => format!(".{name}"),
        Some((_, rest)) => format!("[{rest}]"),
        None => format!("[{key}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            api_version: Some("v1".to_owned()),
            fields_type: Some("FieldsV1".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            subresource: None,
            time: None,
        }
    }

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn deployers_are_taken_over_and_controllers_are_not() {
        let helm = json!({"f:data": {".": {}, "f:a": {}, "f:old": {}}});
        let injector = json!({"f:metadata": {"f:labels": {"f:injected": {}}}});
        let scaled = ManagedFieldsEntry {
            subresource: Some("scale".to_owned()),
            ..entry("kubectl", "Update", json!({"f:spec": {"f:replicas": {}}}))
        };
        let entries = [
            entry("helm", "Update", helm),
            entry("injector", "Update", injector.clone()),
            scaled.clone(),
        ];
        let ours = map(&json!({"f:data": {"f:a": {}, "f:b": {}}}));
        let takeover = take(&entries, "v1", &ours, &[]);
        assert_eq!(takeover.taken, ["helm".to_owned()].into());
        assert_eq!(takeover.going, [".data.old"]);
        let kept = takeover.entries.unwrap();
        assert_eq!(&kept[..2], &entries[1..]);
        assert_eq!(kept[2].manager.as_deref(), Some(MANAGER));
        assert_eq!(kept[2].operation.as_deref(), Some("Apply"));

        let named = take(&entries, "v1", &ours, &["injector".to_owned()]);
        assert_eq!(named.taken.len(), 2);
        assert_eq!(named.going, [".data.old", ".metadata"]);
        assert_eq!(take(&entries[1..], "v1", &ours, &[]).entries, None);
        let of_another_version = take(&entries, "v2", &ours, &[]);
        assert_eq!(of_another_version.entries, None);
    }

    #[test]
    fn what_others_have_set_as_well_does_not_go() {
        let edited = json!({"f:spec": {"f:x": {}, "f:y": {"f:z": {}}}});
        let controlled = json!({"f:spec": {"f:x": {}}});
        let entries = [
            entry("kubectl-edit", "Update", edited),
            entry("controller", "Apply", controlled),
        ];
        let takeover = take(&entries, "v1", &map(&json!({"f:spec": {"f:y": {}}})), &[]);
        assert_eq!(takeover.going, [""; 0]);
    }

    #[test]
    fn paths_are_readable() {
        ::tests::assert_rows! {
            step("f:data") => ".data";
            step("f:example.com/a") => "[example.com/a]";
            step("k:{\"name\":\"a\"}") => "[{\"name\":\"a\"}]";
            step("v:\"x\"") => "[\"x\"]";
            step("i:3") => "[3]";
            step("odd") => "[odd]";
        }
    }
}
