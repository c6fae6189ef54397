//! Field conflicts in a response of the API server.

use kube::core::response::Status;
use serde_json::Value;

use super::{Conflict, MANAGER};
use crate::api_error;

/// Maximum number of reported conflicts of one object; all of them are resolved.
const MAX_CONFLICTS: usize = 1000;

/// Returns the conflicting fields of a response; empty if it does not report a conflict.
pub(super) fn parse_conflicts(status: &Status) -> Vec<Conflict> {
    let conflicts = api_error::field_conflicts(status).map(|cause| {
        let (manager, subresource) = parse_manager(&cause.message);
        Conflict {
            field: cause.field.clone(),
            manager,
            subresource,
        }
    });
    conflicts.take(MAX_CONFLICTS).collect()
}

/// Reports whether the provisioner itself set the field, by another operation than apply.
pub(super) fn is_ours(conflict: &Conflict) -> bool {
    conflict.manager == MANAGER
}

/// Parses the manager and the subresource of `conflict with "hpa" with subresource "scale" using apps/v1 at 2026-…`.
fn parse_manager(message: &str) -> (String, String) {
    let Some((manager, rest)) = quoted(message.strip_prefix("conflict with ").unwrap_or(message))
    else {
        return (message.to_owned(), String::new());
    };
    let subresource = rest
        .strip_prefix(" with subresource ")
        .and_then(quoted)
        .map(|(subresource, _)| subresource)
        .unwrap_or_default();
    (manager, subresource)
}

/// Parses a quoted Go string at the beginning of a text and returns it with the remaining text.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut unquoted = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((unquoted, text.get(at + 1..)?)),
            '\\' => unquoted.push(chars.next()?.1),
            char => unquoted.push(char),
        }
    }
    None
}

/// Removes a field from an object. Only fields of mappings are supported, because scalers set no others. A key may contain
/// dots, which the path does not distinguish from its separators.
pub(super) fn remove(object: &mut Value, path: &str) -> bool {
    let (Some(path), Some(map)) = (path.strip_prefix('.'), object.as_object_mut()) else {
        return false;
    };
    if map.remove(path).is_some() {
        return true;
    }
    map.iter_mut().any(|(key, value)| {
        path.strip_prefix(key.as_str())
            .is_some_and(|rest| !key.is_empty() && remove(value, rest))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managers_and_subresources_are_parsed_from_messages() {
        assert_each!(|message, manager, subresource| parse_manager(message) => (manager.to_owned(), subresource.to_owned());
            r#"conflict with "kubectl-edit" using apps/v1 at 2026-11-21T10:00:00Z"#, "kubectl-edit" => "";
            r#"conflict with "kube-controller-manager" with subresource "scale" using autoscaling/v1"#, "kube-controller-manager"
                => "scale";
            r#"conflict with "argocd""#, "argocd" => "";
            r#"conflict with "a \"b\" with subresource \"scale\"""#, r#"a "b" with subresource "scale""# => "";
            "unknown text", "unknown text" => "";
            r#"conflict with "broken"#, r#"conflict with "broken"# => "";
        );
    }

    #[test]
    fn fields_are_removed_by_their_paths() {
        let object = json!({"spec": {"replicas": 3, "size.of": {"it": 1, "all": 2}, "list": [{"name": "a"}]}});
        let paths = ".spec.replicas /spec/replicas, .spec.size.of.it /spec/size.of/it, .spec /spec";
        for (path, removed) in ::tests::pairs(paths) {
            let mut changed = object.clone();
            assert_rows!((object.pointer(removed).is_some(), remove(&mut changed, path)) => (true, true), "{path}");
            assert_eq!(changed.pointer(removed), None, "{path}");
        }
        for path in
            r#"|.|spec|.spec.none|.spec.replicas.x|.spec.list[name="a"].name|..spec"#.split('|')
        {
            let mut changed = object.clone();
            assert_rows!((remove(&mut changed, path), &changed) => (false, &object), "{path}");
        }
    }
}
