//! Permissions: with AllNamespaces, each becomes a ClusterRole and its binding.

use std::collections::BTreeMap;

use manifests::{names, object::text, path::Path};
use serde_json::{Value, json};

use crate::{code::Code, csv::Csv, render::accounts, report::Findings};

/// The roles and bindings of all permissions. Promoted ones may also look at namespaces, as OLM adds it: an operator
/// that watches all of them lists them first. Identical entries become one.
pub(crate) fn objects(csv: Csv<'_>, namespace: &str, findings: &mut Findings) -> Vec<Value> {
    let lists = [
        ("permissions", csv.permissions(), true),
        ("clusterPermissions", csv.cluster_permissions(), false),
    ];
    let mut roles: BTreeMap<String, [Value; 2]> = BTreeMap::new();
    for (list, entries, promoted) in lists {
        for (index, entry) in entries.iter().enumerate() {
            let account = accounts::named(text(entry, &["serviceAccountName"]).unwrap_or_default());
            let mut rules = entry
                .get("rules")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            if promoted {
                rules.push(json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}));
            }
            let place = || csv.at(&Path::from(["spec", "install", "spec", list]).index(index));
            let name = role_name(csv.name(), account, &rules);
            if roles.contains_key(&name) {
                findings.change(
                    Code::Permissions,
                    place(),
                    format!("the permissions of ServiceAccount {account:?} repeat an entry before; both become one"),
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
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": rules,
            });
            roles.insert(name, [role, binding]);
        }
    }
    roles.into_values().flatten().collect()
}

/// Role and binding share a name: they differ in kind. It hashes all that makes them distinct in a cluster, the CSV
/// included, so that two packages with the same rules do not collide.
fn role_name(csv: &str, account: &str, rules: &[Value]) -> String {
    let rules = Value::from(rules.to_vec()).to_string();
    names::generated(
        &format!("{csv}-{account}"),
        &[csv, "ClusterRole", account, &rules],
        names::SHORT,
    )
}
