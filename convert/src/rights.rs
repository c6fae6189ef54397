//! What the objects of a bundle let whom do in a cluster, and which of it is dangerous.
//!
//! ```text
//! Role, ClusterRole (+ aggregation) ──┐
//!                                     ├── Holder ── Rule, where it holds ── Danger
//! RoleBinding, ClusterRoleBinding ────┘
//! ```
//!
//! Pure RBAC: whether the cluster has further roles and bindings for the same holders is not known here. Roles that the
//! objects bind without bringing them are listed by name; of those that every cluster has, the rules are known.

mod budget;
mod danger;
mod gained;
mod roles;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{Object, at, text};
use serde::Serialize;
use serde_json::Value;

use self::{
    budget::{Budget, spend},
    roles::{Key, Roles},
};
pub use self::{
    danger::Danger,
    gained::{Gained, gained},
    rule::Rule,
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// No namespace has a longer name, so a binding in one cannot be created.
const LONGEST_NAMESPACE: usize = 63;

/// Who has rights.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Holder {
    /// `ServiceAccount`, `User` or `Group`; `ClusterRole` for whoever is bound to a role of the cluster that aggregates
    /// roles of the bundle.
    pub kind: String,
    /// The namespace of a ServiceAccount.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Where rights hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In one namespace.
    Namespace(String),
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
        }
    }
}

/// What one holder may do in one scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rights {
    /// Who.
    pub holder: Holder,
    /// Where.
    pub scope: Scope,
    /// What, merged and sorted.
    pub grants: Vec<Grant>,
    /// Roles that are bound and not part of the objects: `ClusterRole view`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub other_roles: BTreeSet<String>,
    /// Whether there is more, too much to list; no real bundle has that.
    #[serde(rename = "incomplete", skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
}

impl Rights {
    /// Every danger of every grant that is listed, once.
    pub fn dangers(&self) -> BTreeSet<Danger> {
        self.grants
            .iter()
            .flat_map(|grant| grant.dangers.iter().copied())
            .collect()
    }
}

/// A rule, and why to look at it twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// What is allowed.
    #[serde(flatten)]
    pub rule: Rule,
    /// What makes it dangerous.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub dangers: BTreeSet<Danger>,
}

/// Reports whether an object can give rights: a role or a binding.
pub fn is_rbac(object: &Object) -> bool {
    object.group() == RBAC
}

/// Adds up the rights that objects give, ordered by holder and scope, the cluster first.
pub fn of(objects: &[Object]) -> Vec<Rights> {
    within(objects, &mut Budget::default())
}

fn within(objects: &[Object], budget: &mut Budget) -> Vec<Rights> {
    let roles = Roles::new(objects);
    let mut sums: BTreeMap<(Key<'_>, Option<&str>), Sum<'_>> = BTreeMap::new();
    for binding in objects.iter().filter(|object| object.group() == RBAC) {
        let namespace = match binding.kind() {
            "ClusterRoleBinding" => None,
            "RoleBinding" if binding.namespace().len() <= LONGEST_NAMESPACE => {
                Some(binding.namespace())
            }
            _ => continue,
        };
        let role = |field| text(binding.value(), &["roleRef", field]).unwrap_or_default();
        let (kind, name) = (role("kind"), role("name"));
        let within = if kind == "Role" {
            binding.namespace()
        } else {
            ""
        };
        for holder in holders(binding.value()) {
            let sum = sums.entry((holder, namespace)).or_default();
            sum.bound.insert((kind, within, name));
        }
    }
    for (into, parts) in roles.aggregated() {
        // Wherever that role is bound.
        let sum = sums.entry((("ClusterRole", "", into), None)).or_default();
        sum.aggregated = parts;
    }
    sums.into_iter()
        .map(|((holder, namespace), sum)| listed(holder, namespace, &sum, &roles, budget))
        .filter(|rights| {
            rights.is_incomplete || !rights.grants.is_empty() || !rights.other_roles.is_empty()
        })
        .collect()
}

/// What gives one holder rights in one scope.
#[derive(Default)]
struct Sum<'a> {
    bound: BTreeSet<Key<'a>>,
    aggregated: BTreeSet<Key<'a>>,
}

fn listed<'a>(
    (kind, namespace, name): Key<'_>,
    scope: Option<&str>,
    sum: &Sum<'a>,
    roles: &Roles<'a>,
    budget: &mut Budget,
) -> Rights {
    let mut rights = Rights {
        holder: Holder {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        scope: scope.map_or(Scope::Cluster, |name| Scope::Namespace(name.to_owned())),
        grants: Vec::new(),
        other_roles: BTreeSet::new(),
        is_incomplete: false,
    };
    let mut rules = Vec::new();
    rights.is_incomplete = collect(&mut rights, &mut rules, sum, roles, budget).is_none();
    let grant = |rule| Grant {
        dangers: danger::of(&rule),
        rule,
    };
    rights.grants = rule::merge(rules, &mut budget.comparisons)
        .into_iter()
        .map(grant)
        .collect();
    rights
}

/// Gathers rules and other roles; nothing when the budget ends before they do.
fn collect<'a>(
    rights: &mut Rights,
    rules: &mut Vec<Rule>,
    sum: &Sum<'a>,
    roles: &Roles<'a>,
    budget: &mut Budget,
) -> Option<()> {
    let mut add = |found: &[Rule], budget: &mut Budget| {
        spend(&mut budget.steps, found.len())?;
        for rule in found.iter().filter(|rule| rule.holds_in(&rights.scope)) {
            spend(&mut budget.memory, rule.memory())?;
            rules.push(rule.clone());
        }
        Some(())
    };
    for key in &sum.bound {
        if !roles.has(key) {
            let (kind, _, name) = key;
            spend(&mut budget.memory, kind.len() + name.len())?;
            rights.other_roles.insert(format!("{kind} {name}"));
        }
        add(roles.own_rules(key), budget)?;
        for part in roles.selected(key, budget)? {
            add(roles.own_rules(&part), budget)?;
        }
    }
    for part in &sum.aggregated {
        add(roles.own_rules(part), budget)?;
    }
    Some(())
}

/// Kind, namespace and name of every subject.
fn holders(binding: &Value) -> impl Iterator<Item = Key<'_>> {
    let subjects = at(binding, &["subjects"]).and_then(Value::as_array);
    subjects.into_iter().flatten().map(|subject| {
        let field = |name| text(subject, &[name]).unwrap_or_default();
        (field("kind"), field("namespace"), field("name"))
    })
}

#[cfg(test)]
mod tests;
