//! What the operator may do: rules of the CSV's permissions, and of Roles that the bundle ships.

use manifests::{object::shortened, path::Path};
use serde_json::Value;

use super::{Input, list, word};
use crate::{
    bundle::Item,
    code::Code,
    csv::Csv,
    report::{Findings, Place},
};

/// One RBAC rule.
pub(super) struct Rule<'a> {
    owner: Owner<'a>,
    /// Its position in the list of its owner.
    index: usize,
    value: &'a Value,
}

/// The list that holds a rule.
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
    pub(super) fn place(&self) -> Place {
        match self.owner {
            Owner::Entry {
                csv, list, index, ..
            } => {
                let entry = Path::from(["spec", "install", "spec", list]).index(index);
                csv.at(&entry.key("rules").index(self.index))
            }
            Owner::Role(item) => item.place.at(&Path::from(["rules"]).index(self.index)),
        }
    }

    fn label(&self) -> String {
        match self.owner {
            Owner::Entry { value, .. } => {
                let account = shortened(word(value, &["serviceAccountName"]), 253);
                format!("a rule of ServiceAccount {account:?}")
            }
            Owner::Role(item) => format!("a rule of {}", item.label()),
        }
    }

    fn words(&self, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        list(self.value, &[field]).filter_map(|(_, word)| word.as_str())
    }

    /// Whether the rule names a resource of a group. All groups at once are another rule's business.
    pub(super) fn names(&self, group: &str, resource: &str) -> bool {
        self.words("apiGroups").any(|other| other == group)
            && self
                .words("resources")
                .any(|other| other == resource || other == "*")
    }

    /// The first of some verbs that the rule allows.
    fn allows<'v>(&self, verbs: &[&'v str]) -> Option<&'v str> {
        verbs.iter().copied().find(|verb| {
            self.words("verbs")
                .any(|other| other == *verb || other == "*")
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

/// All rules of the bundle.
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
        definitions(&rule, findings);
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
        .filter(|(field, _)| rule.words(field).any(|word| word == "*"))
        .map(|(_, name)| *name)
        .collect();
    if !wild.is_empty() {
        let problem = format!("allows all {} by \"*\"", wild.join(" and all "));
        rule.warn(
            Code::WildcardPermissions,
            &problem,
            "list what the operator needs",
            findings,
        );
    }
}

fn definitions(rule: &Rule<'_>, findings: &mut Findings) {
    if rule.names("apiextensions.k8s.io", "customresourcedefinitions")
        && let Some(verb) = rule.allows(&["create", "patch"])
    {
        let problem =
            format!("allows to {verb} CustomResourceDefinitions; an operator should not need that");
        let remedy = "ship the definitions in the bundle, and allow get, list and watch";
        rule.warn(Code::CRDPermissions, &problem, remedy, findings);
    }
}

fn budgets(rule: &Rule<'_>, findings: &mut Findings) {
    if rule.names("policy", "poddisruptionbudgets")
        && let Some(verb) = rule.allows(&["create", "update", "patch"])
    {
        let problem = format!(
            "allows to {verb} PodDisruptionBudgets, with which an operator can keep nodes from being drained"
        );
        rule.warn(
            Code::BudgetPermissions,
            &problem,
            "make sure that budgets leave room for disruptions",
            findings,
        );
    }
}

fn security_constraints(rule: &Rule<'_>, findings: &mut Findings) {
    /// What OpenShift comes with; some also as a second version with a suffix.
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
    let mut names = rule.words("resourceNames").peekable();
    let concerns_defaults = names.peek().is_none() || names.any(is_default);
    if rule.names("security.openshift.io", "securitycontextconstraints")
        && concerns_defaults
        && let Some(verb) = rule.allows(&["update", "patch", "delete"])
    {
        let problem = format!(
            "allows to {verb} OpenShift's default SecurityContextConstraints; operator-sdk refuses this"
        );
        let remedy = "create constraints of your own, and name them in resourceNames";
        rule.warn(Code::SecurityConstraints, &problem, remedy, findings);
    }
}
