//! Permissions that the objects of a bundle grant in a cluster, and their risks.
//!
//! ```text
//! Role, ClusterRole (+ aggregation) ──┐
//!                                     ├── Subject ── Rule with its scope ── Risk
//! RoleBinding, ClusterRoleBinding ────┘
//! ```
//!
//! Evaluates RBAC only; further roles and bindings in the cluster for the same subjects are unknown. Roles that the objects
//! bind but do not contain are listed by name. The rules of roles that exist in every cluster are known.

mod budget;
mod diff;
mod risk;
mod roles;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{Object, text};
use serde::Serialize;
use serde_json::Value;

use self::{
    budget::{Budget, spend},
    roles::Roles,
};
pub use self::{
    diff::{PermissionDiff, gained},
    risk::Risk,
    roles::{RbacKey, aggregated_into, role_key, rules_of_role},
    rule::Rule,
};

/// API group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// OpenShift's API for the same roles and bindings, which its API server stores as RBAC objects.
const OPENSHIFT_RBAC: &str = "authorization.openshift.io";

/// Maximum length of a namespace name. A binding in a namespace with a longer name cannot be created.
const MAX_NAMESPACE_LEN: usize = 63;

/// A subject with permissions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subject {
    /// `ServiceAccount`, `User` or `Group`; `ClusterRole` for all subjects of a cluster's role that aggregates roles of the
    /// bundle.
    pub kind: String,
    /// The namespace of a ServiceAccount.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the subject.
    pub name: String,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl From<RbacKey<'_>> for Subject {
    fn from((kind, namespace, name): RbacKey<'_>) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// Scope of permissions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// The permissions apply to the whole cluster.
    Cluster,
    /// The permissions apply to one namespace.
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

/// Permissions of one subject in one scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectPermissions {
    /// The subject with the permissions.
    pub holder: Subject,
    /// The scope of the permissions.
    pub scope: Scope,
    /// The granted rules, merged and sorted.
    pub grants: Vec<Grant>,
    /// Bound roles that are not part of the objects: `ClusterRole view`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub other_roles: BTreeSet<String>,
    /// Whether more permissions exist than are listed; no real bundle has that many.
    #[serde(rename = "incomplete", skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
}

/// A rule with its risks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// The allowed operations.
    #[serde(flatten)]
    pub rule: Rule,
    /// The risks of the rule.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub dangers: BTreeSet<Risk>,
}

/// Reports whether an object can grant permissions: a role or a binding.
pub fn is_rbac(object: &Object) -> bool {
    matches!(object.group(), RBAC | OPENSHIFT_RBAC)
}

/// Reports whether an object is a role.
pub fn is_role(object: &Object) -> bool {
    is_rbac(object) && matches!(object.kind(), "Role" | "ClusterRole")
}

/// A binding of a role to subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding<'a> {
    /// The namespace of the permissions, or `None` for the whole cluster.
    pub namespace: Option<&'a str>,
    /// The bound role.
    pub role: RbacKey<'a>,
    /// The subjects that have the permissions of the role.
    pub subjects: Vec<RbacKey<'a>>,
}

impl<'a> Binding<'a> {
    /// Parses a binding; `None` for other objects, and for a binding that cannot be created.
    pub fn parse(object: &'a Object) -> Option<Self> {
        if !is_rbac(object) {
            return None;
        }
        let namespace = match object.kind() {
            "ClusterRoleBinding" => None,
            "RoleBinding" if object.namespace().len() <= MAX_NAMESPACE_LEN => {
                Some(object.namespace())
            }
            _ => return None,
        };
        let role = |field| text(object.value(), &["roleRef", field]).unwrap_or_default();
        let kind = match object.group() {
            // OpenShift derives the kind from the namespace.
            OPENSHIFT_RBAC if role("namespace").is_empty() => "ClusterRole",
            OPENSHIFT_RBAC => "Role",
            _ => role("kind"),
        };
        let role_namespace = if kind == "Role" {
            object.namespace()
        } else {
            ""
        };
        Some(Self {
            namespace,
            role: (kind, role_namespace, role("name")),
            subjects: subjects(object),
        })
    }
}

/// Returns the subjects of a binding.
fn subjects(binding: &Object) -> Vec<RbacKey<'_>> {
    let get = |name: &str| binding.value().get(name).filter(|value| !value.is_null());
    let list = |name: &str| get(name).and_then(Value::as_array).into_iter().flatten();
    // In OpenShift's bindings, these lists replace the subjects, even if they are empty.
    let has_names = get("userNames").is_some() || get("groupNames").is_some();
    if binding.group() == OPENSHIFT_RBAC && has_names {
        let users = list("userNames").filter_map(Value::as_str).map(|user| {
            let account = user.strip_prefix("system:serviceaccount:");
            match account.and_then(|account| account.split_once(':')) {
                Some((namespace, name)) => ("ServiceAccount", namespace, name),
                None => ("User", "", user),
            }
        });
        let groups = list("groupNames").filter_map(Value::as_str);
        let groups = groups.map(|group| ("Group", "", group));
        return users.chain(groups).collect();
    }
    let subjects = list("subjects").map(|subject| {
        let field = |name| text(subject, &[name]).unwrap_or_default();
        let kind = match field("kind") {
            // OpenShift's kinds for names that its User and Group objects cannot have.
            "SystemUser" => "User",
            "SystemGroup" => "Group",
            kind => kind,
        };
        (kind, field("namespace"), field("name"))
    });
    subjects.collect()
}

/// Collects the permissions that objects grant, ordered by subject and scope, the cluster first.
pub fn granted_by(objects: &[Object]) -> Vec<SubjectPermissions> {
    collect_rights(objects, &mut Budget::default())
}

fn collect_rights(objects: &[Object], budget: &mut Budget) -> Vec<SubjectPermissions> {
    let roles = Roles::new(objects);
    let mut collected_by_subject: BTreeMap<(RbacKey<'_>, Option<&str>), Collected<'_>> =
        BTreeMap::new();
    for binding in objects.iter().filter_map(Binding::parse) {
        for subject in binding.subjects {
            let collected = collected_by_subject.entry((subject, binding.namespace));
            collected.or_default().bound.insert(binding.role);
        }
    }
    for (into, parts) in roles.aggregated() {
        // Applies to all bindings of that role.
        let collected = collected_by_subject
            .entry((("ClusterRole", "", into), None))
            .or_default();
        collected.aggregated = parts;
    }
    collected_by_subject
        .into_iter()
        .map(|((holder, namespace), collected)| {
            listed(holder, namespace, &collected, &roles, budget)
        })
        .filter(|permissions| {
            permissions.is_incomplete
                || !permissions.grants.is_empty()
                || !permissions.other_roles.is_empty()
        })
        .collect()
}

/// Roles that grant permissions to one subject in one scope.
#[derive(Default)]
struct Collected<'a> {
    bound: BTreeSet<RbacKey<'a>>,
    aggregated: BTreeSet<RbacKey<'a>>,
}

fn listed<'a>(
    holder: RbacKey<'_>,
    scope: Option<&str>,
    collected: &Collected<'a>,
    roles: &Roles<'a>,
    budget: &mut Budget,
) -> SubjectPermissions {
    let mut permissions = SubjectPermissions {
        holder: holder.into(),
        scope: scope.map_or(Scope::Cluster, |name| Scope::Namespace(name.to_owned())),
        grants: Vec::new(),
        other_roles: BTreeSet::new(),
        is_incomplete: false,
    };
    let mut rules = Vec::new();
    permissions.is_incomplete =
        collect(&mut permissions, &mut rules, collected, roles, budget).is_none();
    let grant = |rule| Grant {
        dangers: risk::risks_of_rule(&rule),
        rule,
    };
    permissions.grants = rule::merge(rules, &mut budget.comparisons)
        .into_iter()
        .map(grant)
        .collect();
    permissions
}

/// Collects rules and other roles, or returns `None` if the budget is exceeded.
fn collect<'a>(
    permissions: &mut SubjectPermissions,
    rules: &mut Vec<Rule>,
    collected: &Collected<'a>,
    roles: &Roles<'a>,
    budget: &mut Budget,
) -> Option<()> {
    let mut add = |own_rules: &[Rule], budget: &mut Budget| {
        spend(&mut budget.steps, own_rules.len())?;
        for rule in own_rules
            .iter()
            .filter(|rule| rule.holds_in(&permissions.scope))
        {
            spend(&mut budget.memory, rule.memory())?;
            rules.push(rule.clone());
        }
        Some(())
    };
    for key in &collected.bound {
        if !roles.has(key) {
            let (kind, _, name) = key;
            spend(&mut budget.memory, kind.len() + name.len())?;
            permissions.other_roles.insert(format!("{kind} {name}"));
        }
        add(roles.own_rules(key), budget)?;
        for part in roles.selected(key, budget)? {
            add(roles.own_rules(&part), budget)?;
        }
    }
    for part in &collected.aggregated {
        add(roles.own_rules(part), budget)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
