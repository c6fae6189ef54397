//! Transfer of managed fields: computes new entries of `managedFields`. Pure; no I/O.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use manifests::api::MANAGER;
use serde_json::{Map, Value};

/// Prefixes of the field managers of deployment tools. Fields of other managers, mostly controllers and webhooks, are still
/// needed after a change of the owner.
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

/// New entries of an object, and the effects of the transfer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldTransfer {
    /// All entries, with the transferred ones merged into one entry of the provisioner; `None` if no entry is transferred.
    pub(super) entries: Option<Vec<ManagedFieldsEntry>>,
    /// Managers of the transferred entries.
    pub(super) transferred: BTreeSet<String>,
    /// Fields that the next apply removes, because the bundle does not contain them.
    pub(super) dropped: Vec<String>,
}

/// Transfers the entries of deployment tools and of the managers in `extra_managers`. `ours` are the fields of the
/// bundle. Only entries of `api_version`, the version in which they are applied, are transferred.
pub(super) fn take(
    entries: &[ManagedFieldsEntry],
    api_version: &str,
    ours: &Map<String, Value>,
    extra_managers: &[String],
) -> FieldTransfer {
    let mut unchanged = Vec::new();
    let mut merged = Map::new();
    let mut transferred = BTreeSet::new();
    for entry in entries {
        let manager = entry.manager.as_deref().unwrap_or_default();
        let is_ours = manager == MANAGER && entry.operation.as_deref() == Some("Apply");
        let is_main = entry.subresource.as_deref().unwrap_or_default().is_empty();
        let is_version = entry.api_version.as_deref() == Some(api_version);
        let is_transferred = is_ours
            || DEPLOYERS
                .iter()
                .any(|deployer| manager.starts_with(deployer))
            || extra_managers.iter().any(|extra| extra == manager);
        if let Some(Value::Object(fields)) = entry.fields_v1.as_ref().map(|fields| &fields.0)
            && is_main
            && is_version
            && is_transferred
        {
            merge_fields(&mut merged, fields);
            if !is_ours {
                transferred.insert(manager.to_owned());
            }
        } else {
            unchanged.push(entry.clone());
        }
    }
    if transferred.is_empty() {
        return FieldTransfer {
            entries: None,
            transferred,
            dropped: Vec::new(),
        };
    }
    let mut others = Map::new();
    for entry in &unchanged {
        if let Some(Value::Object(fields)) = entry.fields_v1.as_ref().map(|fields| &fields.0) {
            merge_fields(&mut others, fields);
        }
    }
    let mut dropped = Vec::new();
    remaining(&merged, ours, &others, "", &mut dropped);
    unchanged.push(entry(api_version, MANAGER, "Apply", Value::Object(merged)));
    FieldTransfer {
        entries: Some(unchanged),
        transferred,
        dropped,
    }
}

/// Returns the fields that the provisioner has applied.
pub(super) fn of_provisioner(entries: &[ManagedFieldsEntry]) -> Map<String, Value> {
    let own_entry = entries.iter().find(|entry| {
        entry.manager.as_deref() == Some(MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    });
    match own_entry
        .and_then(|entry| entry.fields_v1.as_ref())
        .map(|fields| &fields.0)
    {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    }
}

/// Returns an entry for the object itself, not for a subresource. The API server sets the time.
pub(in crate::commands) fn entry(
    api_version: &str,
    manager: &str,
    operation: &str,
    fields: Value,
) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        api_version: Some(api_version.to_owned()),
        fields_type: Some("FieldsV1".to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        manager: Some(manager.to_owned()),
        operation: Some(operation.to_owned()),
        subresource: None,
        time: None,
    }
}

/// Adds the fields of one set to another.
pub(in crate::commands) fn merge_fields(into: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, nested) in more {
        let entry = into
            .entry(key.as_str())
            .or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(into), Value::Object(more)) = (entry, nested) {
            merge_fields(into, more);
        }
    }
}

/// Collects the topmost fields of a set that are in neither of two other sets.
fn remaining(
    fields: &Map<String, Value>,
    ours: &Map<String, Value>,
    others: &Map<String, Value>,
    path: &str,
    dropped: &mut Vec<String>,
) {
    for (key, nested) in fields {
        if key == "." {
            continue; // the field itself
        }
        let path = format!("{path}{}", step(key));
        let empty = Map::new();
        let under = |map: &Map<String, Value>| match map.get(key) {
            Some(Value::Object(nested)) => Some(nested.clone()),
            Some(_) => Some(Map::new()),
            None => None,
        };
        match (under(ours), under(others)) {
            (None, None) => dropped.push(path),
            (ours_nested, others_nested) => {
                // An entry for a field without nested fields owns the whole field.
                let is_whole =
                    |map: &Option<Map<String, Value>>| map.as_ref().is_some_and(Map::is_empty);
                if is_whole(&ours_nested) || is_whole(&others_nested) {
                    continue;
                }
                if let Value::Object(nested) = nested {
                    let ours_nested = ours_nested.unwrap_or_default();
                    remaining(
                        nested,
                        &ours_nested,
                        others_nested.as_ref().unwrap_or(&empty),
                        &path,
                        dropped,
                    );
                }
            }
        }
    }
}

/// Formats a key of managedFields: `f:data` is a field, `k:{"name":"a"}` a list item by its keys, `v:"x"` a list item by
/// its value.
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
        super::entry("v1", manager, operation, fields)
    }

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn fields_of_deployers_are_adopted_but_not_of_controllers() {
        let helm = json!({"f:data": {".": {}, "f:a": {}, "f:old": {}}});
        let injector = json!({"f:metadata": {"f:labels": {"f:injected": {}}}});
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let scaled = ::tests::with!(entry("kubectl", "Update", replicas) => subresource: Some("scale".to_owned()));
        let entries = [
            entry("helm", "Update", helm),
            entry("injector", "Update", injector.clone()),
            scaled.clone(),
        ];
        let applied = map(&json!({"f:data": {"f:a": {}, "f:b": {}}}));
        let takeover = take(&entries, "v1", &applied, &[]);
        assert_eq!(takeover.transferred, ["helm".to_owned()].into());
        assert_eq!(takeover.dropped, [".data.old"]);
        let unchanged = takeover.entries.unwrap();
        assert_eq!(&unchanged[..2], &entries[1..]);
        assert_eq!(unchanged[2].manager.as_deref(), Some(MANAGER));
        assert_eq!(unchanged[2].operation.as_deref(), Some("Apply"));

        let named = take(&entries, "v1", &applied, &["injector".to_owned()]);
        assert_eq!(named.transferred.len(), 2);
        assert_eq!(named.dropped, [".data.old", ".metadata"]);
        assert_eq!(take(&entries[1..], "v1", &applied, &[]).entries, None);
        assert_eq!(take(&entries, "v2", &applied, &[]).entries, None);
    }

    #[test]
    fn fields_shared_with_other_managers_are_not_dropped() {
        let edited = json!({"f:spec": {"f:x": {}, "f:y": {"f:z": {}}}});
        let entries = [
            entry("kubectl-edit", "Update", edited),
            entry("controller", "Apply", json!({"f:spec": {"f:x": {}}})),
        ];
        ::tests::assert_rows!(take(&entries, "v1", &map(&json!({"f:spec": {"f:y": {}}})), &[]).dropped => [""; 0]);
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
