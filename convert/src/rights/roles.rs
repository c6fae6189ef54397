//! The roles among the objects, and the few that every cluster has.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{Object, at, text};
use serde_json::Value;

use super::{RBAC, rule::Rule};

const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

pub(super) struct Roles<'a> {
    /// By kind, namespace and name.
    ours: BTreeMap<(&'a str, &'a str, &'a str), &'a Value>,
}

/// What is known of a role.
pub(super) struct Found {
    pub(super) rules: Vec<Rule>,
    /// Whether it is one of the objects.
    pub(super) is_ours: bool,
}

impl<'a> Roles<'a> {
    pub(super) fn new(objects: &'a [Object]) -> Self {
        let roles = objects
            .iter()
            .filter(|o| o.group() == RBAC && matches!(o.kind(), "Role" | "ClusterRole"));
        Self {
            ours: roles
                .map(|role| ((role.kind(), role.namespace(), role.name()), role.value()))
                .collect(),
        }
    }

    /// The role that a binding in a namespace names.
    pub(super) fn find(&self, kind: &str, namespace: &str, name: &str) -> Found {
        let namespace = if kind == "Role" { namespace } else { "" };
        match self.ours.get(&(kind, namespace, name)) {
            Some(role) => Found {
                rules: self.rules(role),
                is_ours: true,
            },
            None => Found {
                rules: if kind == "ClusterRole" {
                    builtin(name)
                } else {
                    Vec::new()
                },
                is_ours: false,
            },
        }
    }

    /// Its own rules, and those of the roles it aggregates; the cluster's controller does the same.
    fn rules(&self, role: &Value) -> Vec<Rule> {
        let mut rules = own_rules(role);
        let selectors =
            at(role, &["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
        for selector in selectors.into_iter().flatten() {
            for ((kind, _, _), other) in &self.ours {
                if *kind == "ClusterRole" && selects(selector, other) {
                    rules.extend(own_rules(other));
                }
            }
        }
        rules
    }

    /// Rules that roles of the cluster take over because of a label: `aggregate-to-admin` and the like.
    pub(super) fn aggregated(&self) -> BTreeMap<String, Vec<Rule>> {
        let mut into: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
        for ((kind, _, _), role) in &self.ours {
            let labels = at(role, &["metadata", "labels"]).and_then(Value::as_object);
            for (label, value) in labels.into_iter().flatten() {
                if let Some(name) = label.strip_prefix(AGGREGATE)
                    && *kind == "ClusterRole"
                    && value == "true"
                {
                    into.entry(name.to_owned())
                        .or_default()
                        .extend(own_rules(role));
                }
            }
        }
        into
    }
}

fn own_rules(role: &Value) -> Vec<Rule> {
    let rules = at(role, &["rules"]).and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .map(Rule::read)
        .filter(|rule| !rule.verbs.is_empty())
        .collect()
}

/// Whether a label selector takes a role.
pub(super) fn selects(selector: &Value, role: &Value) -> bool {
    let label = |key: &str| text(role, &["metadata", "labels", key]);
    let labels = at(selector, &["matchLabels"]).and_then(Value::as_object);
    let expressions = at(selector, &["matchExpressions"]).and_then(Value::as_array);
    labels
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == value.as_str())
        && expressions.into_iter().flatten().all(|expression| {
            let value = label(text(expression, &["key"]).unwrap_or_default());
            let list = at(expression, &["values"]).and_then(Value::as_array);
            let is_listed = value
                .is_some_and(|value| list.is_some_and(|list| list.iter().any(|one| one == value)));
            match text(expression, &["operator"]) {
                Some("In") => is_listed,
                Some("NotIn") => !is_listed,
                Some("Exists") => value.is_some(),
                Some("DoesNotExist") => value.is_none(),
                _ => false,
            }
        })
}

/// The dangerous part of the roles that every cluster has. `admin` and `edit` allow more, but nothing worse.
fn builtin(name: &str) -> Vec<Rule> {
    let set = |entries: &[&str]| -> BTreeSet<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    };
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| Rule {
        api_groups: set(groups),
        resources: set(resources),
        verbs: set(verbs),
        ..Rule::default()
    };
    match name {
        "cluster-admin" => vec![
            rule(&["*"], &["*"], &["*"]),
            Rule {
                urls: set(&["*"]),
                verbs: set(&["*"]),
                ..Rule::default()
            },
        ],
        "admin" | "edit" => {
            let write = ["create", "delete", "deletecollection", "patch", "update"];
            vec![
                rule(&[""], &["secrets"], &["get", "list", "watch"]),
                rule(
                    &[""],
                    &[
                        "secrets",
                        "pods",
                        "replicationcontrollers",
                        "serviceaccounts",
                    ],
                    &write,
                ),
                rule(
                    &[""],
                    &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy"],
                    &["create", "get"],
                ),
                rule(&[""], &["serviceaccounts"], &["impersonate"]),
                rule(&[""], &["serviceaccounts/token"], &["create"]),
                rule(
                    &["apps"],
                    &["daemonsets", "deployments", "replicasets", "statefulsets"],
                    &write,
                ),
                rule(&["batch"], &["cronjobs", "jobs"], &write),
            ]
        }
        _ => Vec::new(),
    }
}
