//! Changes of permissions, by subject instead of role, because the names of roles change with their rules.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use manifests::{
    api::rbac::{self, Rule},
    object::{Identity, group_version, text},
};
use serde_json::Value;

use crate::cluster::live::LiveObjects;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Prefix of the label that aggregates a ClusterRole into another one.
const AGGREGATION_PREFIX: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// Maximum number of compared rules.
const MAX_RULES: usize = 50_000;

/// Gained and lost permissions, as formatted rules by subject and scope.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PermissionChanges {
    pub(super) gained: Vec<(String, Vec<String>)>,
    pub(super) lost: Vec<(String, Vec<String>)>,
}

/// Key of a role: true for a ClusterRole, the namespace, and the name.
type RoleKey = (bool, String, String);
type Roles = BTreeMap<RoleKey, Vec<PolicyRule>>;
/// A subject, and the scope of its permissions.
type SubjectScope = (String, Scope);
type PermissionSet = BTreeMap<SubjectScope, Vec<PolicyRule>>;

/// Scope of permissions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Cluster,
    Namespace(String),
    /// All scopes in which a role is bound that aggregates the rules.
    Aggregated,
}

/// A binding of a role to subjects.
struct Binding {
    subjects: Vec<String>,
    scope: Scope,
    role: RoleKey,
}

/// Compares the permissions that the objects grant. Referenced roles that are not among them are read from the cluster.
pub(super) async fn compare(
    live: &mut LiveObjects<'_>,
    before: &[Value],
    after: &[Value],
) -> anyhow::Result<PermissionChanges> {
    let (mut old, mut new) = (roles(before), roles(after));
    let bound = before.iter().chain(after).filter_map(binding);
    let others: BTreeSet<RoleKey> = bound
        .map(|binding| binding.role)
        .filter(|role| !old.contains_key(role) && !new.contains_key(role))
        .collect();
    for key in others {
        let (is_cluster, namespace, name) = key.clone();
        let identity = Identity {
            group: RBAC.to_owned(),
            kind: if is_cluster { "ClusterRole" } else { "Role" }.to_owned(),
            namespace,
            name,
        };
        if let Some(role) = live.discover(&identity).await? {
            old.insert(key.clone(), rules(&role));
            new.insert(key, rules(&role));
        }
    }
    Ok(difference(
        &permissions(before, &old),
        &permissions(after, &new),
    ))
}

fn difference(before: &PermissionSet, after: &PermissionSet) -> PermissionChanges {
    PermissionChanges {
        gained: more(after, before),
        lost: more(before, after),
    }
}

/// Returns the permissions that are in one set and not in the other.
fn more(one: &PermissionSet, other: &PermissionSet) -> Vec<(String, Vec<String>)> {
    let mut budget = MAX_RULES;
    let mut lines = Vec::new();
    for ((subject, scope), rules) in one {
        // A permission in the cluster scope applies in every namespace.
        let scopes = [
            (subject.clone(), Scope::Cluster),
            (subject.clone(), scope.clone()),
        ];
        let distinct: BTreeSet<&SubjectScope> = scopes.iter().collect();
        let held: Vec<Rule> = distinct
            .into_iter()
            .filter_map(|key| other.get(key))
            .flatten()
            .map(Rule::from_policy_rule)
            .collect();
        let title = match scope {
            Scope::Namespace(namespace) => format!("{subject}, in namespace {namespace}"),
            Scope::Cluster => format!("{subject}, in the whole cluster"),
            Scope::Aggregated => format!("{subject}, by aggregation, wherever it is bound"),
        };
        let Some(all) = rbac::expand(rules, &mut budget) else {
            lines.push((title, vec!["too many to compare".to_owned()]));
            continue;
        };
        let missing = rbac::missing(all, &held);
        if !missing.is_empty() {
            lines.push((title, rbac::format_rules(&missing)));
        }
    }
    lines
}

/// Returns the permissions that the objects grant to each subject.
fn permissions(objects: &[Value], roles: &Roles) -> PermissionSet {
    let mut permissions = PermissionSet::new();
    for binding in objects.iter().filter_map(binding) {
        let Some(rules) = roles.get(&binding.role) else {
            continue;
        };
        for subject in binding.subjects {
            let rules_in_scope = permissions
                .entry((subject, binding.scope.clone()))
                .or_default();
            rules_in_scope.extend(rules.iter().cloned());
        }
    }
    for role in objects {
        for into in aggregated(role) {
            let rules_in_scope =
                permissions.entry((format!("ClusterRole {into}"), Scope::Aggregated));
            rules_in_scope.or_default().extend(rules(role));
        }
    }
    permissions
}

/// Returns the ClusterRoles that this one is aggregated into.
fn aggregated(role: &Value) -> impl Iterator<Item = &str> {
    let is_role = rbac_kind(role) == Some("ClusterRole");
    let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
    labels
        .filter(|_| is_role)
        .into_iter()
        .flatten()
        .filter(|(_, value)| *value == "true")
        .filter_map(|(key, _)| key.strip_prefix(AGGREGATION_PREFIX))
}

fn roles(objects: &[Value]) -> Roles {
    let role = |object: &Value| {
        let is_cluster = match rbac_kind(object)? {
            "ClusterRole" => true,
            "Role" => false,
            _ => return None,
        };
        let namespace = text(object, &["metadata", "namespace"]).unwrap_or_default();
        let name = text(object, &["metadata", "name"])?;
        let key = (is_cluster, namespace.to_owned(), name.to_owned());
        Some((key, rules(object)))
    };
    objects.iter().filter_map(role).collect()
}

fn binding(object: &Value) -> Option<Binding> {
    let scope = match rbac_kind(object)? {
        "ClusterRoleBinding" => Scope::Cluster,
        "RoleBinding" => Scope::Namespace(text(object, &["metadata", "namespace"])?.to_owned()),
        _ => return None,
    };
    let name = text(object, &["roleRef", "name"])?.to_owned();
    let role = match (text(object, &["roleRef", "kind"])?, &scope) {
        ("ClusterRole", _) => (true, String::new(), name),
        (_, Scope::Namespace(namespace)) => (false, namespace.clone(), name),
        _ => return None,
    };
    let subject = |subject: &Value| {
        let name = text(subject, &["name"])?;
        let kind = text(subject, &["kind"])?;
        Some(match text(subject, &["namespace"]) {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        })
    };
    let subjects = object.get("subjects").and_then(Value::as_array);
    Some(Binding {
        subjects: subjects.into_iter().flatten().filter_map(subject).collect(),
        scope,
        role,
    })
}

fn rbac_kind(object: &Value) -> Option<&str> {
    let (group, _) = group_version(text(object, &["apiVersion"])?);
    (group == RBAC).then(|| text(object, &["kind"])).flatten()
}

/// Returns the rules of a role. Malformed rules are skipped: the API server rejects them.
fn rules(role: &Value) -> Vec<PolicyRule> {
    let rules = role.get("rules").and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(role: &str, scope: Option<&str>, rules: &Value) -> Vec<Value> {
        let prefix = if scope.is_some() { "" } else { "Cluster" };
        let (api_version, kind) = ("rbac.authorization.k8s.io/v1", format!("{prefix}Role"));
        let metadata = json!({"name": role, "namespace": scope});
        let subject = json!({"kind": "ServiceAccount", "name": "tide", "namespace": "tides"});
        vec![
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"kind": kind, "name": role}, "subjects": [subject],
            }),
        ]
    }

    fn compared(before: &[Value], after: &[Value]) -> PermissionChanges {
        let (old, new) = (roles(before), roles(after));
        difference(&permissions(before, &old), &permissions(after, &new))
    }

    #[test]
    fn permissions_are_compared_by_service_account() {
        let read = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
        let write = json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        ]);
        let cluster = |name, rules| objects(name, None, rules);
        let same = compared(&cluster("a", &read), &cluster("b", &read));
        assert_eq!(same, PermissionChanges::default());
        let changes = compared(&cluster("a", &read), &cluster("b", &write));
        let scope = "ServiceAccount tides/tide, in the whole cluster".to_owned();
        let line = |resource: &str, verb: &str| {
            format!("- {{apiGroups: [\"\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}")
        };
        assert_eq!(
            changes.gained,
            [(scope.clone(), vec![line("secrets", "*")])]
        );
        assert_eq!(changes.lost, [(scope, vec![line("pods", "list")])]);
        // A smaller scope adds no permission.
        let narrowed = compared(&cluster("a", &read), &objects("a", Some("tides"), &read));
        assert_eq!(narrowed.gained, []);
        assert_eq!(narrowed.lost.len(), 1);
    }

    #[test]
    fn aggregated_permissions_are_gained_by_the_other_role() {
        let role = |verbs: &[&str], label: &str| {
            let labels =
                json!({"rbac.authorization.k8s.io/aggregate-to-admin": label, "app": "true"});
            vec![json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "tides", "labels": labels},
                "rules": [{"apiGroups": ["example.com"], "resources": ["tides"], "verbs": verbs}],
            })]
        };
        let (read, none) = (role(&["get"], "true"), PermissionChanges::default());
        assert_eq!(compared(&read, &read), none);
        assert_eq!(compared(&[], &role(&["get"], "false")), none);
        let scope = "ClusterRole admin, by aggregation, wherever it is bound".to_owned();
        let line = |verb: &str| {
            let rule = "apiGroups: [\"example.com\"], resources: [\"tides\"]";
            vec![format!("- {{{rule}, verbs: [\"{verb}\"]}}")]
        };
        let changes = compared(&[], &read);
        assert_eq!(changes.gained, [(scope.clone(), line("get"))]);
        let changes = compared(&read, &role(&["list"], "true"));
        assert_eq!(changes.gained, [(scope.clone(), line("list"))]);
        assert_eq!(changes.lost, [(scope, line("get"))]);
    }
}
