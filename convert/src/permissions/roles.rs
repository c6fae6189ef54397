//! Roles among the objects, and the few roles that exist in every cluster.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{Object, get_path, text};
use serde_json::{Value, json};

use super::{
    OPENSHIFT_RBAC,
    budget::{Budget, spend},
    is_role,
    rule::Rule,
};

const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// A role or subject as kind, namespace and name.
pub type RbacKey<'a> = (&'a str, &'a str, &'a str);

pub(super) struct Roles<'a> {
    bundled: BTreeMap<RbacKey<'a>, Role<'a>>,
    /// ClusterRoles that exist in every cluster, by name.
    builtin: BTreeMap<&'static str, Vec<Rule>>,
}

/// A role. OpenShift stores a role of the group `authorization.openshift.io` as an RBAC role, so objects of both groups can
/// be the same role. Either object may be applied last, so both count.
#[derive(Default)]
struct Role<'a> {
    objects: Vec<&'a Object>,
    /// Rules of the role itself, without those of roles it aggregates.
    rules: Vec<Rule>,
}

impl<'a> Roles<'a> {
    pub(super) fn new(objects: &'a [Object]) -> Self {
        let mut bundled: BTreeMap<RbacKey<'a>, Role<'a>> = BTreeMap::new();
        for object in objects.iter().filter(|object| is_role(object)) {
            let role = bundled.entry(role_key(object)).or_default();
            role.objects.push(object);
            role.rules.extend(rules_of_role(object));
        }
        Self {
            bundled,
            builtin: ["cluster-admin", "admin", "edit"]
                .map(|name| (name, builtin(name)))
                .into(),
        }
    }

    /// Reports whether a role is one of the objects.
    pub(super) fn has(&self, key: &RbacKey<'a>) -> bool {
        self.bundled.contains_key(key)
    }

    /// Returns the rules of the role itself, as far as they are known.
    pub(super) fn own_rules(&self, key: &RbacKey<'a>) -> &[Rule] {
        let rules = match (self.bundled.get(key), key) {
            (Some(role), _) => Some(&role.rules),
            (None, ("ClusterRole", _, name)) => self.builtin.get(*name),
            _ => None,
        };
        rules.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the roles that a role aggregates, like the cluster's controller, or `None` if the budget is exceeded.
    pub(super) fn selected(
        &self,
        key: &RbacKey<'a>,
        budget: &mut Budget,
    ) -> Option<BTreeSet<RbacKey<'a>>> {
        let mut selected = BTreeSet::new();
        let objects = self.bundled.get(key).into_iter();
        let selectors = objects
            .flat_map(|role| &role.objects)
            .filter_map(|role| get_path(role.value(), &["aggregationRule", "clusterRoleSelectors"]))
            .filter_map(Value::as_array);
        for selector in selectors.flatten() {
            let cost = (1 + size(selector)).saturating_mul(self.bundled.len());
            spend(&mut budget.steps, cost)?;
            let is_selected = |role: &&Object| selects(selector, role.value());
            let chosen = self.bundled.iter().filter(|((kind, ..), role)| {
                *kind == "ClusterRole" && role.objects.iter().any(is_selected)
            });
            selected.extend(chosen.map(|(key, _)| *key));
        }
        Some(selected)
    }

    /// Returns the roles that a ClusterRole of the cluster aggregates because of a label, such as `aggregate-to-admin`.
    pub(super) fn aggregated(&self) -> BTreeMap<&'a str, BTreeSet<RbacKey<'a>>> {
        let mut into: BTreeMap<&str, BTreeSet<RbacKey<'_>>> = BTreeMap::new();
        for (key, role) in &self.bundled {
            for name in role.objects.iter().copied().flat_map(aggregated_into) {
                into.entry(name).or_default().insert(*key);
            }
        }
        into
    }
}

/// Returns the key by which bindings refer to a role.
pub fn role_key(role: &Object) -> RbacKey<'_> {
    (role.kind(), role.namespace(), role.name())
}

/// Returns the ClusterRoles of the cluster, such as `admin`, that aggregate a role because of its labels.
pub fn aggregated_into(role: &Object) -> impl Iterator<Item = &str> {
    let labels = get_path(role.value(), &["metadata", "labels"]).and_then(Value::as_object);
    labels
        .filter(|_| role.kind() == "ClusterRole")
        .into_iter()
        .flatten()
        .filter(|(_, value)| *value == "true")
        .filter_map(|(label, _)| label.strip_prefix(AGGREGATE))
}

/// Returns the number of values to compare.
fn size(selector: &Value) -> usize {
    match selector {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(object) => object.values().map(size).sum(),
        _ => 1,
    }
}

/// Returns the rules of a role itself, without those of roles that it aggregates. For a role of OpenShift's API, these are
/// the rules of the RBAC role that its API server stores.
pub fn rules_of_role(role: &Object) -> impl Iterator<Item = Rule> {
    let rules = get_path(role.value(), &["rules"]).and_then(Value::as_array);
    let is_openshift = role.group() == OPENSHIFT_RBAC;
    rules
        .into_iter()
        .flatten()
        .flat_map(move |value| {
            let mut rule = Rule::read(value);
            let mut of_urls = Rule::default();
            if is_openshift && !rule.resources.is_empty() {
                set_default_group(&mut rule, value);
                // A RoleBinding still grants the part for resources.
                if !rule.urls.is_empty() {
                    of_urls.urls = std::mem::take(&mut rule.urls);
                    of_urls.verbs.clone_from(&rule.verbs);
                }
            }
            [rule, of_urls]
        })
        .filter(|rule| !rule.verbs.is_empty())
}

/// Sets the API group that OpenShift's API server sets in a rule without groups (`SetDefaults_PolicyRule`).
fn set_default_group(rule: &mut Rule, value: &Value) {
    if !rule.api_groups.is_empty() {
        return;
    }
    let is_absent = |field: &str| value.get(field).is_none_or(Value::is_null);
    let is_any = |field: &str| value.get(field) == Some(&json!(["*"]));
    let is_everything = is_any("verbs")
        && is_any("resources")
        && is_absent("apiGroups")
        && is_absent("attributeRestrictions")
        && rule.resource_names.is_empty()
        && rule.urls.is_empty();
    let group = if is_everything { "*" } else { "" };
    rule.api_groups.insert(group.to_owned());
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
