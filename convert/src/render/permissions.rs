//! Permissions: with AllNamespaces, each entry becomes a ClusterRole and a binding.

use std::collections::BTreeMap;

use manifests::{
    names,
    object::{mapping, text},
    path::Path,
};
use serde_json::{Value, json};

use super::{Input, service_accounts};
use crate::{
    budget::Budget,
    finding::{Findings, code::Code},
};

/// Memory of a role and its binding without the rules, in bytes.
const ROLE: usize = 8 << 10;

/// Returns the roles and bindings of all permissions. Promoted ones also allow reading namespaces, as in OLM: an operator
/// that watches all namespaces lists them first. Identical entries are merged.
pub(crate) fn objects(
    input: &Input<'_>,
    [permissions, cluster_permissions]: [Vec<Value>; 2],
    budget: &mut Budget,
    findings: &mut Findings,
) -> Vec<Value> {
    let (csv, namespace) = (input.csv, input.namespace);
    let lists = [
        ("permissions", permissions, true),
        ("clusterPermissions", cluster_permissions, false),
    ];
    let mut roles: BTreeMap<String, [Value; 2]> = BTreeMap::new();
    for (list, entries, promoted) in lists {
        for (index, mut entry) in entries.into_iter().enumerate() {
            let mut rules = match entry.get_mut("rules").map(Value::take) {
                Some(Value::Array(rules)) => rules,
                _ => Vec::new(),
            };
            let account = service_accounts::account_name(
                text(&entry, &["serviceAccountName"]).unwrap_or_default(),
            );
            if promoted {
                rules.push(json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}));
            }
            let place =
                || csv.path_place(&Path::from(["spec", "install", "spec", list]).index(index));
            if !budget.take(ROLE + 2 * account.len()) {
                findings.too_large(place(), "one of many permissions");
                return Vec::new();
            }
            let name = role_name(csv.name(), account, &rules);
            if roles.contains_key(&name) {
                findings.change(
                    Code::Permissions,
                    place(),
                    format!("the permissions of ServiceAccount {account:?} repeat an earlier entry; the entries are merged"),
                );
                continue;
            }
            if promoted {
                findings.change(
                    Code::Permissions,
                    place(),
                    format!("the permissions of ServiceAccount {account:?} are cluster-wide: ClusterRole {name:?}"),
                );
            }
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            });
            let mut role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
            });
            // The macro above would copy the rules.
            mapping(&mut role).insert("rules".into(), rules.into());
            roles.insert(name, [role, binding]);
        }
    }
    roles.into_values().flatten().collect()
}

/// Returns the common name of a role and its binding. The name contains a hash of everything that distinguishes them in a
/// cluster, including the CSV, so that two packages with the same rules do not collide.
fn role_name(csv: &str, account: &str, rules: &[Value]) -> String {
    // Serializing JSON values cannot fail.
    let rules = serde_json::to_string(rules).unwrap_or_default();
    names::generate_name(
        &format!("{csv}-{account}"),
        &[csv, "ClusterRole", account, &rules],
        names::SHORT,
    )
}
