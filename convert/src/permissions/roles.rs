//! Roles among the objects, and the few roles that exist in every cluster.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{Object, get_path, text};
use serde_json::Value;

use super::{
    OPENSHIFT_RBAC,
    budget::{Budget, spend},
    is_rbac,
    rule::Rule,
};

const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// A role or subject as kind, namespace and name.
pub(super) type Key<'a> = (&'a str, &'a str, &'a str);

pub(super) struct Roles<'a> {
    bundled: BTreeMap<Key<'a>, Role<'a>>,
    /// ClusterRoles that exist in every cluster, by name.
    builtin: BTreeMap<&'static str, Vec<Rule>>,
}

struct Role<'a> {
    value: &'a Value,
    /// Rules of the role itself, without those of roles it aggregates.
    rules: Vec<Rule>,
}

impl<'a> Roles<'a> {
    pub(super) fn new(objects: &'a [Object]) -> Self {
        let bundled = objects
            .iter()
            .filter(|o| is_rbac(o) && matches!(o.kind(), "Role" | "ClusterRole"))
            .map(|object| {
                let role = Role {
                    value: object.value(),
                    rules: own_rules(object),
                };
                ((object.kind(), object.namespace(), object.name()), role)
            });
        Self {
            bundled: bundled.collect(),
            builtin: ["cluster-admin", "admin", "edit"]
                .map(|name| (name, builtin(name)))
                .into(),
        }
    }

    /// Reports whether a role is one of the objects.
    pub(super) fn has(&self, key: &Key<'a>) -> bool {
        self.bundled.contains_key(key)
    }

    /// Returns the rules of the role itself, as far as they are known.
    pub(super) fn own_rules(&self, key: &Key<'a>) -> &[Rule] {
        let rules = match (self.bundled.get(key), key) {
            (Some(role), _) => Some(&role.rules),
            (None, ("ClusterRole", _, name)) => self.builtin.get(*name),
            _ => None,
        };
        rules.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the roles that a role aggregates, like the cluster's controller, or `None` if the budget is exceeded.
    pub(super) fn selected(&self, key: &Key<'a>, budget: &mut Budget) -> Option<BTreeSet<Key<'a>>> {
        let mut selected = BTreeSet::new();
        let selectors = self
            .bundled
            .get(key)
            .and_then(|role| get_path(role.value, &["aggregationRule", "clusterRoleSelectors"]))
            .and_then(Value::as_array);
        for selector in selectors.into_iter().flatten() {
            let cost = (1 + size(selector)).saturating_mul(self.bundled.len());
            spend(&mut budget.steps, cost)?;
            let chosen = self.bundled.iter().filter(|((kind, ..), role)| {
                *kind == "ClusterRole" && selects(selector, role.value)
            });
            selected.extend(chosen.map(|(key, _)| *key));
        }
        Some(selected)
    }

    /// Returns the roles that a ClusterRole of the cluster aggregates because of a label, such as `aggregate-to-admin`.
    pub(super) fn aggregated(&self) -> BTreeMap<&'a str, BTreeSet<Key<'a>>> {
        let mut into: BTreeMap<&str, BTreeSet<Key<'_>>> = BTreeMap::new();
        for (key, role) in &self.bundled {
            let labels = get_path(role.value, &["metadata", "labels"]).and_then(Value::as_object);
            for (label, value) in labels.into_iter().flatten() {
                if let Some(name) = label.strip_prefix(AGGREGATE)
                    && key.0 == "ClusterRole"
                    && value == "true"
                {
                    into.entry(name).or_default().insert(*key);
                }
            }
        }
        into
    }
}

/// Returns the number of values to compare.
fn size(selector: &Value) -> usize {
    match selector {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(object) => object.values().map(size).sum(),
        _ => 1,
    }
}

fn own_rules(role: &Object) -> Vec<Rule> {
    let rules = get_path(role.value(), &["rules"]).and_then(Value::as_array);
    let is_openshift = role.group() == OPENSHIFT_RBAC;
    rules
        .into_iter()
        .flatten()
        .map(Rule::read)
        .map(|rule| {
            if is_openshift {
                with_default_group(rule)
            } else {
                rule
            }
        })
        .filter(|rule| !rule.verbs.is_empty())
        .collect()
}

/// Sets the API group that OpenShift's API server sets in a rule without groups.
fn with_default_group(mut rule: Rule) -> Rule {
    if rule.api_groups.is_empty() && !rule.resources.is_empty() {
        let is_everything = rule.resources.contains("*") && rule.verbs.contains("*");
        let group = if is_everything { "*" } else { "" };
        rule.api_groups.insert(group.to_owned());
    }
    rule
}

/// Reports whether a label selector matches a role.
pub(super) fn selects(selector: &Value, role: &Value) -> bool {
    let label = |key: &str| text(role, &["metadata", "labels", key]);
    let labels = get_path(selector, &["matchLabels"]).and_then(Value::as_object);
    let expressions = get_path(selector, &["matchExpressions"]).and_then(Value::as_array);
    labels
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == value.as_str())
        && expressions.into_iter().flatten().all(|expression| {
            let value = label(text(expression, &["key"]).unwrap_or_default());
            let list = get_path(expression, &["values"]).and_then(Value::as_array);
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

/// Returns the risky rules of roles that exist in every cluster. `admin` and `edit` have further rules, but none of higher
/// risk.
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
