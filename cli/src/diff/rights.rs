//! Who may do more, and who less: by account and not by role, as names of roles change with what they grant.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use manifests::{
    api::rights::{self, Rule},
    object::{Identity, group_version, text},
};
use serde_json::Value;

use crate::live::Live;

const RBAC: &str = "rbac.authorization.k8s.io";
/// The label by which a role of the cluster becomes a part of another one.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// What is more is not compared.
const MOST: usize = 50_000;

/// What changes, by who and where: as rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) gained: Vec<(String, Vec<String>)>,
    pub(super) lost: Vec<(String, Vec<String>)>,
}

/// A role: whether it is one of the cluster, its namespace, its name.
type Key = (bool, String, String);
type Roles = BTreeMap<Key, Vec<PolicyRule>>;
/// Somebody, and where.
type Place = (String, Scope);
type Held = BTreeMap<Place, Vec<PolicyRule>>;

/// Where rights hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Cluster,
    Namespace(String),
    /// Wherever a role is bound that they are aggregated to.
    Bound,
}

/// A role that somebody is given.
struct Binding {
    subjects: Vec<String>,
    scope: Scope,
    role: Key,
}

/// Compares what the objects give to others; roles that are not among them are looked up.
pub(super) async fn compare(
    live: &mut Live<'_>,
    before: &[Value],
    after: &[Value],
) -> anyhow::Result<Rights> {
    let (mut old, mut new) = (roles(before), roles(after));
    let bound = before.iter().chain(after).filter_map(binding);
    let others: BTreeSet<Key> = bound
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
        if let Some(role) = live.look_up(&identity).await? {
            old.insert(key.clone(), rules(&role));
            new.insert(key, rules(&role));
        }
    }
    Ok(difference(&held(before, &old), &held(after, &new)))
}

fn difference(before: &Held, after: &Held) -> Rights {
    Rights {
        gained: more(after, before),
        lost: more(before, after),
    }
}

/// What one has more than the other.
fn more(one: &Held, other: &Held) -> Vec<(String, Vec<String>)> {
    let mut left = MOST;
    let mut lines = Vec::new();
    for ((who, scope), rules) in one {
        // What holds in the cluster holds in every namespace.
        let places = [(who.clone(), Scope::Cluster), (who.clone(), scope.clone())];
        let known: BTreeSet<&Place> = places.iter().collect();
        let held: Vec<Rule> = known
            .into_iter()
            .filter_map(|place| other.get(place))
            .flatten()
            .map(Rule::of)
            .collect();
        let place = match scope {
            Scope::Namespace(namespace) => format!("{who}, in namespace {namespace}"),
            Scope::Cluster => format!("{who}, in the whole cluster"),
            Scope::Bound => format!("{who}, by aggregation, wherever it is bound"),
        };
        let Some(all) = rights::expand(rules, &mut left) else {
            lines.push((place, vec!["more than can be compared".to_owned()]));
            continue;
        };
        let missing = rights::not_covered(all, &held);
        if !missing.is_empty() {
            lines.push((place, rights::lines(&missing)));
        }
    }
    lines
}

/// What everybody is given.
fn held(objects: &[Value], roles: &Roles) -> Held {
    let mut held = Held::new();
    for binding in objects.iter().filter_map(binding) {
        let Some(rules) = roles.get(&binding.role) else {
            continue;
        };
        for subject in binding.subjects {
            let place = held.entry((subject, binding.scope.clone())).or_default();
            place.extend(rules.iter().cloned());
        }
    }
    for role in objects {
        for into in aggregated(role) {
            let place = held.entry((format!("ClusterRole {into}"), Scope::Bound));
            place.or_default().extend(rules(role));
        }
    }
    held
}

/// The roles of the cluster that this one becomes a part of.
fn aggregated(role: &Value) -> impl Iterator<Item = &str> {
    let is_role = rbac_kind(role) == Some("ClusterRole");
    let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
    labels
        .filter(|_| is_role)
        .into_iter()
        .flatten()
        .filter(|(_, value)| *value == "true")
        .filter_map(|(key, _)| key.strip_prefix(AGGREGATE))
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

/// Rules of a wrong shape are for the server to refuse.
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
        let metadata = json!({"name": role, "namespace": scope});
        let kind = format!("{prefix}Role");
        vec![
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules,
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"kind": kind, "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "tide", "namespace": "tides"}],
            }),
        ]
    }

    fn compared(before: &[Value], after: &[Value]) -> Rights {
        let (old, new) = (roles(before), roles(after));
        difference(&held(before, &old), &held(after, &new))
    }

    #[test]
    fn accounts_are_compared_and_not_roles() {
        let read = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
        let write = json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        ]);
        let cluster = |name, rules| objects(name, None, rules);
        let same = compared(&cluster("a", &read), &cluster("b", &read));
        assert_eq!(same, Rights::default());
        let rights = compared(&cluster("a", &read), &cluster("b", &write));
        let place = "ServiceAccount tides/tide, in the whole cluster".to_owned();
        let line = |resource: &str, verb: &str| {
            format!("- {{apiGroups: [\"\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}")
        };
        assert_eq!(rights.gained, [(place.clone(), vec![line("secrets", "*")])]);
        assert_eq!(rights.lost, [(place, vec![line("pods", "list")])]);
        // A namespace less than the cluster is nothing gained.
        let narrowed = compared(&cluster("a", &read), &objects("a", Some("tides"), &read));
        assert_eq!(narrowed.gained, []);
        assert_eq!(narrowed.lost.len(), 1);
    }

    #[test]
    fn what_is_aggregated_is_gained_by_whoever_has_the_other_role() {
        let role = |verbs: &[&str], label: &str| {
            let labels =
                json!({"rbac.authorization.k8s.io/aggregate-to-admin": label, "app": "true"});
            vec![json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "tides", "labels": labels},
                "rules": [{"apiGroups": ["example.com"], "resources": ["tides"], "verbs": verbs}],
            })]
        };
        let read = role(&["get"], "true");
        assert_eq!(compared(&read, &read), Rights::default());
        assert_eq!(compared(&[], &role(&["get"], "false")), Rights::default());
        let place = "ClusterRole admin, by aggregation, wherever it is bound".to_owned();
        let line = |verb: &str| {
            let rule = "apiGroups: [\"example.com\"], resources: [\"tides\"]";
            vec![format!("- {{{rule}, verbs: [\"{verb}\"]}}")]
        };
        let rights = compared(&[], &read);
        assert_eq!(rights.gained, [(place.clone(), line("get"))]);
        let rights = compared(&read, &role(&["list"], "true"));
        assert_eq!(rights.gained, [(place.clone(), line("list"))]);
        assert_eq!(rights.lost, [(place, line("get"))]);
    }
}
