//! Transfer of the template's fields to `install`: computes new entries of `managedFields`. Pure; no I/O.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use manifests::api::owner::InstanceOwner;
use serde_json::{Map, Value};

use crate::{
    cluster::FIELD_MANAGER,
    commands::adopt::managed_fields::{self, merge_fields},
};

/// Path of the template's spec: class and source of the bundle. An apply of `install` always declares both.
const TEMPLATE_SPEC: [&str; 3] = ["f:spec", "f:template", "f:spec"];

/// Returns the entries of a BundleInstance after a transfer of the template's spec to the apply entry of this program;
/// `None` if no other entry has any of these fields. Only the fields of this program's patches are transferred, and with
/// `is_forced` those of all managers.
///
/// The API server tracks patches (operation Update) and applies of one manager separately, so an apply would conflict
/// with the patches of other commands. An apply never removes fields of other managers, so that a source of another type
/// would be added to the existing one.
pub(super) fn transfer(
    entries: &[ManagedFieldsEntry],
    is_forced: bool,
) -> Option<Vec<ManagedFieldsEntry>> {
    let mut applied = Map::new();
    let mut is_transferred = false;
    let mut remaining = Vec::new();
    for entry in entries {
        let mut entry = entry.clone();
        let is_cli = entry.manager.as_deref() == Some(FIELD_MANAGER);
        let is_applied = is_cli && entry.operation.as_deref() == Some("Apply");
        let is_main = entry.subresource.as_deref().unwrap_or_default().is_empty()
            && entry.api_version.as_deref() == Some(InstanceOwner::API_VERSION);
        if is_main
            && (is_cli || is_forced)
            && let Some(FieldsV1(Value::Object(fields))) = &mut entry.fields_v1
        {
            if is_applied {
                merge_fields(&mut applied, fields);
                continue;
            }
            if let Some(removed) = remove(fields, &TEMPLATE_SPEC) {
                merge_fields(&mut applied, &removed);
                is_transferred = true;
                if fields.is_empty() {
                    continue;
                }
            }
        }
        remaining.push(entry);
    }
    is_transferred.then(|| {
        let applied = Value::Object(applied);
        let own =
            managed_fields::entry(InstanceOwner::API_VERSION, FIELD_MANAGER, "Apply", applied);
        remaining.push(own);
        remaining
    })
}

/// Removes the fields at a path, and returns them at the same path. Also removes fields above that become empty, because an
/// empty field owns the whole value.
fn remove(fields: &mut Map<String, Value>, path: &[&str]) -> Option<Map<String, Value>> {
    let (key, rest) = path.split_first()?;
    let removed = if rest.is_empty() {
        fields.remove(*key)?
    } else {
        let nested = fields.get_mut(*key)?.as_object_mut()?;
        let removed = remove(nested, rest)?;
        if nested.is_empty() {
            fields.remove(*key);
        }
        Value::Object(removed)
    };
    Some(Map::from_iter([((*key).to_owned(), removed)]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        managed_fields::entry("core.rukpak.io/v1alpha1", manager, operation, fields)
    }

    fn template(spec: &Value) -> Value {
        json!({"f:spec": {"f:template": {"f:spec": spec}}})
    }

    #[test]
    fn template_is_transferred_from_own_patches_or_by_force() {
        let source = json!({"f:image": {"f:ref": {}}, "f:type": {}});
        let image = || template(&json!({"f:source": source}));
        let class = || template(&json!({"f:provisionerClassName": {}}));
        let both = || template(&json!({"f:provisionerClassName": {}, "f:source": source}));
        let status = ::tests::with!(entry("provisioner", "Update", image()) => subresource: Some("status".to_owned()));
        let old =
            ::tests::with!(entry("old", "Update", image()) => api_version: Some("v1".to_owned()));
        let unrelated = [status, old];
        let all = |entries: &[ManagedFieldsEntry]| [&unrelated[..], entries].concat();
        let own = |operation: &str, fields: Value| entry("rukpak-cli", operation, fields);
        ::tests::assert_each!(|entries, is_forced, expected| transfer(&all(&entries), is_forced)
            => expected.map(|entries| all(&entries));
            vec![], true => None;
            vec![own("Apply", both())], true => None;
            vec![own("Update", json!({"f:spec": {"f:paused": {}}}))], true => None;
            vec![own("Update", image())], false => Some(vec![own("Apply", image())]);
            vec![own("Apply", class()), own("Update", image())], false => Some(vec![own("Apply", both())]);
            vec![entry("kubectl", "Update", image())], false => None;
            vec![entry("kubectl", "Update", image())], true => Some(vec![own("Apply", image())]);
            vec![entry("flux", "Apply", image()), own("Update", class())], true => Some(vec![own("Apply", both())]);
            vec![entry("flux", "Apply", image()), own("Update", class())], false
                => Some(vec![entry("flux", "Apply", image()), own("Apply", class())]);
        );
    }

    #[test]
    fn other_fields_of_an_entry_are_not_transferred() {
        let source = json!({".": {}, "f:source": {".": {}, "f:upload": {}}});
        let patched = json!({
            "f:metadata": {"f:annotations": {"f:a": {}}},
            "f:spec": {".": {}, "f:paused": {}, "f:template": {".": {}, "f:spec": source}},
        });
        let remaining = json!({
            "f:metadata": {"f:annotations": {"f:a": {}}},
            "f:spec": {".": {}, "f:paused": {}, "f:template": {".": {}}},
        });
        ::tests::assert_rows! {
            transfer(&[entry("rukpak-cli", "Update", patched)], false).unwrap()
                => [entry("rukpak-cli", "Update", remaining), entry("rukpak-cli", "Apply", template(&source))];
        }
    }
}
