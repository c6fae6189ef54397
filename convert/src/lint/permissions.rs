//! What the operator may do: rules of the CSV's permissions, and of Roles that the bundle ships.

use manifests::path::Path;
use serde_json::Value;

use super::{Input, list, word};
use crate::{
    code::Code,
    report::{Findings, Place},
};

/// One RBAC rule.
pub(super) struct Rule<'a> {
    /// Whose rule it is.
    label: String,
    pub(super) place: Place,
    value: &'a Value,
}

impl<'a> Rule<'a> {
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
            self.place.clone(),
            format!("{} {problem}", self.label),
            remedy,
        );
    }
}

/// All rules of the bundle.
pub(super) fn all(input: Input<'_>) -> Vec<Rule<'_>> {
    let mut rules = Vec::new();
    if let Some(csv) = input.csv {
        for field in ["permissions", "clusterPermissions"] {
            for (index, entry) in csv
                .list(&["spec", "install", "spec", field])
                .iter()
                .enumerate()
            {
                let path = Path::from(["spec", "install", "spec", field])
                    .index(index)
                    .key("rules");
                rules.extend(list(entry, &["rules"]).map(|(at, value)| Rule {
                    label: format!(
                        "a rule of ServiceAccount {:?}",
                        word(entry, &["serviceAccountName"])
                    ),
                    place: csv.at(&path.clone().index(at)),
                    value,
                }));
            }
        }
    }
    for item in input
        .others
        .iter()
        .filter(|item| matches!(item.kind(), "Role" | "ClusterRole"))
    {
        rules.extend(list(&item.value, &["rules"]).map(|(at, value)| Rule {
            label: format!("a rule of {}", item.label()),
            place: item.place.at(&Path::from(["rules"]).index(at)),
            value,
        }));
    }
    rules
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
