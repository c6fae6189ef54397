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

mod danger;
mod roles;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{Object, at, text};
use serde::Serialize;
use serde_json::Value;

use self::roles::Roles;
pub use self::{danger::Danger, rule::Rule};

const RBAC: &str = "rbac.authorization.k8s.io";

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
}

impl Rights {
    /// Every danger of every grant, once.
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

/// Adds up the rights that objects give, ordered by holder and scope, the cluster first.
pub fn of(objects: &[Object]) -> Vec<Rights> {
    let roles = Roles::new(objects);
    let mut sums: BTreeMap<(Holder, Scope), Sum> = BTreeMap::new();
    for binding in objects.iter().filter(|object| object.group() == RBAC) {
        let scope = match binding.kind() {
            "ClusterRoleBinding" => Scope::Cluster,
            "RoleBinding" => Scope::Namespace(binding.namespace().to_owned()),
            _ => continue,
        };
        let role = |field| text(binding.value(), &["roleRef", field]).unwrap_or_default();
        let (kind, name) = (role("kind"), role("name"));
        let found = roles.find(kind, binding.namespace(), name);
        for holder in holders(binding.value()) {
            let sum = sums.entry((holder, scope.clone())).or_default();
            sum.rules.extend(
                found
                    .rules
                    .iter()
                    .filter(|rule| rule.holds_in(&scope))
                    .cloned(),
            );
            if !found.is_ours {
                sum.other_roles.insert(format!("{kind} {name}"));
            }
        }
    }
    for (into, rules) in roles.aggregated() {
        let holder = Holder {
            kind: "ClusterRole".into(),
            namespace: String::new(),
            name: into,
        };
        // Wherever that role is bound.
        sums.entry((holder, Scope::Cluster))
            .or_default()
            .rules
            .extend(rules);
    }
    let rights = sums.into_iter().map(|((holder, scope), sum)| Rights {
        holder,
        scope,
        grants: rule::merge(sum.rules)
            .into_iter()
            .map(|rule| Grant {
                dangers: danger::of(&rule),
                rule,
            })
            .collect(),
        other_roles: sum.other_roles,
    });
    rights
        .filter(|rights| !rights.grants.is_empty() || !rights.other_roles.is_empty())
        .collect()
}

#[derive(Default)]
struct Sum {
    rules: Vec<Rule>,
    other_roles: BTreeSet<String>,
}

fn holders(binding: &Value) -> impl Iterator<Item = Holder> {
    let subjects = at(binding, &["subjects"]).and_then(Value::as_array);
    subjects.into_iter().flatten().map(|subject| {
        let field = |name| text(subject, &[name]).unwrap_or_default().to_owned();
        Holder {
            kind: field("kind"),
            namespace: field("namespace"),
            name: field("name"),
        }
    })
}

#[cfg(test)]
mod tests;
