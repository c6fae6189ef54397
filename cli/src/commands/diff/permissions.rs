//! Changes of permissions, by subject instead of role, because the names of roles change with their rules.

use std::collections::{BTreeMap, BTreeSet};

use convert::permissions::{
    Binding, RBAC, RbacKey, Subject, aggregated_into, is_role, role_key, rules_of_role,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use manifests::{
    api::rbac::{self, Rule},
    object::{Identity, Object},
};
use serde_json::Value;

use crate::cluster::live::LiveObjects;

/// Maximum number of compared rules.
const MAX_RULES: usize = 50_000;

/// Gained and lost permissions, as formatted rules by subject and scope.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PermissionChanges {
    pub(super) gained: Vec<(String, Vec<String>)>,
    pub(super) lost: Vec<(String, Vec<String>)>,
}

type Roles<'a> = BTreeMap<RbacKey<'a>, Vec<PolicyRule>>;
/// Rules by subject and namespace; `None` is the whole cluster. A ClusterRole as subject is one that aggregates the rules.
type PermissionSet<'a> = BTreeMap<(RbacKey<'a>, Option<&'a str>), Vec<PolicyRule>>;

/// Compares the permissions that the objects grant. Referenced roles that are not among them are read from the cluster.
pub(super) async fn compare(
    live: &mut LiveObjects<'_>,
    before: Vec<Value>,
    after: Vec<Value>,
) -> anyhow::Result<PermissionChanges> {
    let [before, after] = [before, after].map(parse);
    let (mut old, mut new) = (roles(&before), roles(&after));
    let bound = before.iter().chain(&after).filter_map(Binding::parse);
    let others: BTreeSet<RbacKey<'_>> = bound
        .map(|binding| binding.role)
        .filter(|role| !old.contains_key(role) && !new.contains_key(role))
        .collect();
    for key in others {
        let (kind, namespace, name) = key;
        if name.is_empty() {
            continue; // the API server rejects the binding
        }
        let identity = Identity {
            group: RBAC.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        if let Some(role) = live.discover(&identity).await? {
            let rules = rules(&Object::try_from(role)?);
            old.insert(key, rules.clone());
            new.insert(key, rules);
        }
    }
    Ok(difference(
        &permissions(&before, &old),
        &permissions(&after, &new),
    ))
}

fn difference(before: &PermissionSet<'_>, after: &PermissionSet<'_>) -> PermissionChanges {
    PermissionChanges {
        gained: more(after, before),
        lost: more(before, after),
    }
}

/// Returns the permissions that are in one set and not in the other.
fn more(one: &PermissionSet<'_>, other: &PermissionSet<'_>) -> Vec<(String, Vec<String>)> {
    let mut budget = MAX_RULES;
    let mut lines = Vec::new();
    for (&(subject, namespace), rules) in one {
        // A permission in the whole cluster applies in every namespace.
        let held: Vec<Rule> = BTreeSet::from([None, namespace])
            .into_iter()
            .filter_map(|namespace| other.get(&(subject, namespace)))
            .flatten()
            .map(Rule::from_policy_rule)
            .collect();
        let subject = Subject::from(subject);
        let title = match namespace {
            Some(namespace) => format!("{subject}, in namespace {namespace}"),
            None if subject.kind == "ClusterRole" => {
                format!("{subject}, by aggregation, in all scopes in which the role is bound")
            }
            None => format!("{subject}, in the whole cluster"),
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
fn permissions<'a>(objects: &'a [Object], roles: &Roles<'a>) -> PermissionSet<'a> {
    let mut permissions = PermissionSet::new();
    for binding in objects.iter().filter_map(Binding::parse) {
        let Some(rules) = roles.get(&binding.role) else {
            continue;
        };
        for subject in binding.subjects {
            let rules_in_scope = permissions.entry((subject, binding.namespace));
            rules_in_scope.or_default().extend(rules.iter().cloned());
        }
    }
    for role in objects.iter().filter(|object| is_role(object)) {
        for into in aggregated_into(role) {
            let rules_in_scope = permissions.entry((("ClusterRole", "", into), None));
            rules_in_scope.or_default().extend(rules(role));
        }
    }
    permissions
}

/// Returns the rules of each role. Objects of different APIs can be the same role, and the rules of both count.
fn roles(objects: &[Object]) -> Roles<'_> {
    let mut roles = Roles::new();
    for role in objects.iter().filter(|object| is_role(object)) {
        roles.entry(role_key(role)).or_default().extend(rules(role));
    }
    roles
}

fn rules(role: &Object) -> Vec<PolicyRule> {
    let rules = rules_of_role(role);
    rules
        .filter_map(|rule| serde_json::from_value(serde_json::to_value(rule).ok()?).ok())
        .collect()
}

fn parse(objects: Vec<Value>) -> Vec<Object> {
    let objects = objects.into_iter();
    objects
        .filter_map(|object| Object::try_from(object).ok())
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
        let [before, after] = [before, after].map(|objects| parse(objects.to_vec()));
        let (old, new) = (roles(&before), roles(&after));
        difference(&permissions(&before, &old), &permissions(&after, &new))
    }

    #[test]
    fn permissions_are_compared_by_service_account() {
        let read = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
        let write = json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        ]);
        let cluster = |name, rules| objects(name, None, rules);
        ::tests::assert_rows!(compared(&cluster("a", &read), &cluster("b", &read)) => PermissionChanges::default());
        let changes = compared(&cluster("a", &read), &cluster("b", &write));
        let scope = "ServiceAccount tides/tide, in the whole cluster".to_owned();
        let line = |resource: &str, verb: &str| {
            format!("- {{apiGroups: [\"\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}")
        };
        ::tests::assert_rows!(changes.gained => [(scope.clone(), vec![line("secrets", "*")])]);
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
        let scope = "ClusterRole admin, by aggregation, in all scopes in which the role is bound"
            .to_owned();
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

    #[test]
    fn openshift_roles_and_bindings_grant_permissions() {
        let object = |kind: &str, mut object: Value| {
            object["apiVersion"] = "authorization.openshift.io/v1".into();
            object["kind"] = kind.into();
            object["metadata"] = json!({"name": "a"});
            object
        };
        let rules = json!([{"resources": ["pods"], "verbs": ["get"]}]);
        let role = object("ClusterRole", json!({"rules": rules}));
        let account = "system:serviceaccount:tides:tide";
        let binding = json!({"roleRef": {"name": "a"}, "userNames": [account]});
        let binding = object("ClusterRoleBinding", binding);
        let scope = "ServiceAccount tides/tide, in the whole cluster".to_owned();
        let pods = r#"- {apiGroups: [""], resources: ["pods"], verbs: ["get"]}"#.to_owned();
        ::tests::assert_rows!(compared(&[], &[role.clone(), binding.clone()]).gained => [(scope.clone(), vec![pods.clone()])]);
        // OpenShift stores its role as an RBAC role, and either may be applied last.
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let wide = objects("a", None, &rules).remove(0);
        let all = r#"- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}"#.to_owned();
        let gained = [(scope, vec![pods, all])];
        for roles in [[wide.clone(), role.clone()], [role, wide]] {
            ::tests::assert_rows!(compared(&[], &[&roles[..], std::slice::from_ref(&binding)].concat()).gained => gained);
        }
    }
}
