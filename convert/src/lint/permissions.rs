//! Permissions of the operator: rules of the CSV's permissions, and of Roles in the bundle.

use manifests::{object::truncate, path::Path};
use serde_json::Value;

use super::{Input, list, string_at};
use crate::{
    bundle::Item,
    csv::Csv,
    finding::{Findings, Location, code::Code},
};

/// One RBAC rule.
pub(super) struct Rule<'a> {
    owner: Owner<'a>,
    /// The position in the list of its owner.
    index: usize,
    value: &'a Value,
}

/// The list that contains a rule.
#[derive(Clone, Copy)]
enum Owner<'a> {
    /// An entry of a list of the CSV's permissions.
    Entry {
        csv: Csv<'a>,
        list: &'static str,
        index: usize,
        value: &'a Value,
    },
    /// A Role or ClusterRole.
    Role(&'a Item),
}

impl<'a> Rule<'a> {
    pub(super) fn place(&self) -> Location {
        match self.owner {
            Owner::Entry {
                csv, list, index, ..
            } => {
                let entry = Path::from(["spec", "install", "spec", list]).index(index);
                csv.path_place(&entry.key("rules").index(self.index))
            }
            Owner::Role(item) => item.place.at(&Path::from(["rules"]).index(self.index)),
        }
    }

    fn label(&self) -> String {
        match self.owner {
            Owner::Entry { value, .. } => {
                let account = truncate(string_at(value, &["serviceAccountName"]), 253);
                format!("a rule of ServiceAccount {account:?}")
            }
            Owner::Role(item) => format!("a rule of {}", item.label()),
        }
    }

    fn values(&self, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        list(self.value, &[field]).filter_map(|(_, value)| value.as_str())
    }

    /// Reports whether the rule names a resource of a group. Rules for all groups are the subject of another check.
    pub(super) fn names(&self, group: &str, resource: &str) -> bool {
        self.values("apiGroups").any(|value| value == group)
            && self
                .values("resources")
                .any(|value| value == resource || value == "*")
    }

    /// Returns the first of several verbs that the rule allows.
    fn allows<'v>(&self, verbs: &[&'v str]) -> Option<&'v str> {
        verbs.iter().copied().find(|verb| {
            self.values("verbs")
                .any(|value| value == *verb || value == "*")
        })
    }

    fn warn(&self, code: Code, problem: &str, remedy: &str, findings: &mut Findings) {
        findings.warn(
            code,
            self.place(),
            format!("{} {problem}", self.label()),
            remedy,
        );
    }
}

/// Returns all rules of the bundle.
pub(super) fn all(input: Input<'_>) -> impl Iterator<Item = Rule<'_>> {
    let lists = ["permissions", "clusterPermissions"];
    let entries = input.csv.into_iter().flat_map(move |csv| {
        lists.into_iter().flat_map(move |list| {
            let entries = csv.list(&["spec", "install", "spec", list]).iter();
            entries.enumerate().map(move |(index, value)| {
                let owner = Owner::Entry {
                    csv,
                    list,
                    index,
                    value,
                };
                (owner, value)
            })
        })
    });
    let roles = input
        .others
        .iter()
        .filter(|item| matches!(item.kind(), "Role" | "ClusterRole"))
        .map(|item| (Owner::Role(item), &item.value));
    entries.chain(roles).flat_map(|(owner, holder)| {
        list(holder, &["rules"]).map(move |(index, value)| Rule {
            owner,
            index,
            value,
        })
    })
}

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    for rule in all(input) {
        wildcard(&rule, findings);
        crd_permissions(&rule, findings);
        budgets(&rule, findings);
        security_constraints(&rule, findings);
    }
}

fn wildcard(rule: &Rule<'_>, findings: &mut Findings) {
    let fields = [
        ("apiGroups", "API groups"),
        ("resources", "resources"),
        ("verbs", "verbs"),
    ];
    let wild: Vec<_> = fields
        .iter()
        .filter(|(field, _)| rule.values(field).any(|value| value == "*"))
        .map(|(_, name)| *name)
        .collect();
    if !wild.is_empty() {
        let problem = format!("grants all {} with \"*\"", wild.join(" and all "));
        rule.warn(
            Code::WildcardPermissions,
            &problem,
            "list only those that the operator needs",
            findings,
        );
    }
}

fn crd_permissions(rule: &Rule<'_>, findings: &mut Findings) {
    if rule.names("apiextensions.k8s.io", "customresourcedefinitions")
        && let Some(verb) = rule.allows(&["create", "patch"])
    {
        let problem = format!("grants {verb} on CRDs; an operator should not need this");
        let remedy = "put the CRDs into the bundle, and grant only get, list and watch";
        rule.warn(Code::CRDPermissions, &problem, remedy, findings);
    }
}

fn budgets(rule: &Rule<'_>, findings: &mut Findings) {
    if rule.names("policy", "poddisruptionbudgets")
        && let Some(verb) = rule.allows(&["create", "update", "patch"])
    {
        let problem = format!(
            "grants {verb} on PodDisruptionBudgets, with which an operator can block node drains"
        );
        rule.warn(
            Code::BudgetPermissions,
            &problem,
            "make sure that the budgets allow disruptions",
            findings,
        );
    }
}

fn security_constraints(rule: &Rule<'_>, findings: &mut Findings) {
    /// Default constraints of OpenShift; some also exist in a second version with a suffix.
    const DEFAULTS: [&str; 8] = [
        "anyuid",
        "hostaccess",
        "hostmount-anyuid",
        "hostnetwork",
        "node-exporter",
        "nonroot",
        "privileged",
        "restricted",
    ];
    let is_default = |name: &str| DEFAULTS.contains(&name.strip_suffix("-v2").unwrap_or(name));
    let mut names = rule.values("resourceNames").peekable();
    let concerns_defaults = names.peek().is_none() || names.any(is_default);
    if rule.names("security.openshift.io", "securitycontextconstraints")
        && concerns_defaults
        && let Some(verb) = rule.allows(&["update", "patch", "delete"])
    {
        let problem = format!(
            "grants {verb} on OpenShift's default SecurityContextConstraints; operator-sdk rejects this"
        );
        let remedy = "create separate SecurityContextConstraints, and list them in resourceNames";
        rule.warn(Code::SecurityConstraints, &problem, remedy, findings);
    }
}
