//! Permissions that the objects of one bundle grant, and those of another do not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use manifests::object::Object;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    Rule, Scope, Subject, SubjectPermissions,
    budget::{Budget, spend},
    granted_by, rule,
};

/// Maximum number of comparisons of a single permission with a held rule. Rules multiply: a hundred resources in ten groups
/// with eight verbs are 8,000 permissions.
const MAX_COMPARED: usize = 4_000_000;
/// Maximum number of single permissions that are stored until they are merged. Each takes about a kilobyte.
const MAX_KEPT: usize = 20_000;

/// Remaining budget for comparisons and stored permissions.
struct Remaining {
    compared: usize,
    stored: usize,
}

/// Permissions that one bundle grants in addition to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PermissionDiff {
    /// `sha256:…` of all lines: an approval covers exactly these.
    pub digest: String,
    /// Subject, scope and rule, one rule per line, sorted: `ServiceAccount a/b, in the whole cluster: {"apiGroups":…}`.
    pub lines: Vec<String>,
}

/// Returns the permissions that `after` grants and `before` does not, or `None` without a difference. Compares
/// subjects instead of roles, because names of roles change with their rules.
///
/// Permissions that are too many to compare count as gained.
pub fn gained(before: &[Object], after: &[Object]) -> Option<PermissionDiff> {
    let before = granted_by(before);
    let held: BTreeMap<(&Subject, &Scope), &SubjectPermissions> = before
        .iter()
        .map(|permissions| ((&permissions.holder, &permissions.scope), permissions))
        .collect();
    let mut remaining = Remaining {
        compared: MAX_COMPARED,
        stored: MAX_KEPT,
    };
    let mut comparisons = Budget::default().comparisons;
    let mut lines = BTreeSet::new();
    for permissions in &granted_by(after) {
        // Permissions for the cluster include every namespace.
        let mut held_rights: Vec<&SubjectPermissions> = [&Scope::Cluster, &permissions.scope]
            .into_iter()
            .filter_map(|scope| held.get(&(&permissions.holder, scope)).copied())
            .collect();
        held_rights.dedup_by_key(|permissions| &permissions.scope);
        let place = match &permissions.scope {
            Scope::Cluster => format!("{}, in the whole cluster", permissions.holder),
            Scope::Namespace(name) => format!("{}, in namespace {name}", permissions.holder),
        };
        let rules: Vec<&Rule> = held_rights
            .iter()
            .flat_map(|permissions| permissions.grants.iter().map(|grant| &grant.rule))
            .collect();
        let new = permissions
            .grants
            .iter()
            .flat_map(|grant| more(&grant.rule, &rules, &mut remaining))
            .collect();
        for rule in rule::merge(new, &mut comparisons) {
            lines.insert(format!("{place}: {}", text(&rule)));
        }
        for role in &permissions.other_roles {
            if !held_rights
                .iter()
                .any(|permissions| permissions.other_roles.contains(role))
            {
                lines.insert(format!("{place}: whatever {role} allows"));
            }
        }
        if permissions.is_incomplete {
            lines.insert(format!("{place}: more than can be listed"));
        }
    }
    (!lines.is_empty()).then(|| PermissionDiff {
        digest: digest(&lines),
        lines: lines.into_iter().collect(),
    })
}

/// Formats a rule as JSON, which is valid YAML.
fn text(rule: &Rule) -> String {
    serde_json::to_string(rule).unwrap_or_default()
}

/// Returns the digest that `spec.approvedRights` approves. It covers the text of the lines: another wording of a line would
/// make approved permissions wait for another approval.
fn digest(lines: &BTreeSet<String>) -> String {
    let mut sha = Sha256::new();
    for line in lines {
        sha.update(line.as_bytes());
        sha.update(b"\n");
    }
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    for byte in sha.finalize() {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
    }
    text
}

/// Returns the part of a rule that no other rule covers, or the whole rule if it is too large to split.
fn more(rule: &Rule, held: &[&Rule], remaining: &mut Remaining) -> Vec<Rule> {
    // Most rules are unchanged.
    if held.iter().any(|held| held.covers(rule)) {
        return Vec::new();
    }
    split(rule, held, remaining).unwrap_or_else(|| vec![rule.clone()])
}

/// Returns the single permissions of a rule that no other rule covers, or `None` if they exceed the budget.
fn split(rule: &Rule, held: &[&Rule], remaining: &mut Remaining) -> Option<Vec<Rule>> {
    let size = |set: &BTreeSet<String>| set.len().max(1);
    let resources = [&rule.api_groups, &rule.resources, &rule.resource_names]
        .into_iter()
        .map(size)
        .try_fold(rule.verbs.len(), usize::checked_mul)?;
    let urls = rule.urls.len().checked_mul(rule.verbs.len())?;
    let cost = resources.checked_add(urls)?.checked_mul(1 + held.len())?;
    spend(&mut remaining.compared, cost)?;
    let one = |text: &String| BTreeSet::from([text.clone()]);
    let names: Vec<BTreeSet<String>> = if rule.resource_names.is_empty() {
        vec![BTreeSet::new()]
    } else {
        rule.resource_names.iter().map(one).collect()
    };
    let mut new = Vec::new();
    let mut add = |single: Rule| {
        if !held.iter().any(|held| held.covers(&single)) {
            spend(&mut remaining.stored, 1)?;
            new.push(single);
        }
        Some(())
    };
    for verb in &rule.verbs {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                for name in &names {
                    add(Rule {
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: name.clone(),
                        urls: BTreeSet::new(),
                        verbs: one(verb),
                    })?;
                }
            }
        }
        for url in &rule.urls {
            add(Rule {
                urls: one(url),
                verbs: one(verb),
                ..Rule::default()
            })?;
        }
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn objects(role: &str, namespace: Option<&str>, rules: &Value) -> Vec<Object> {
        let prefix = if namespace.is_some() { "" } else { "Cluster" };
        let rbac = "rbac.authorization.k8s.io/v1";
        let metadata = json!({"name": role, "namespace": namespace});
        let objects = [
            json!({"apiVersion": rbac, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": rbac, "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
                "roleRef": {"kind": format!("{prefix}Role"), "name": role},
                "subjects": [{"kind": "ServiceAccount", "namespace": "etcd", "name": "etcd"}],
            }),
        ];
        objects.map(|object| object.try_into().unwrap()).into()
    }

    fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
        json!([{"apiGroups": [group], "resources": resources, "verbs": verbs}])
    }

    fn lines(before: &[Object], after: &[Object]) -> Vec<String> {
        let gained = gained(before, after);
        gained.map(|gained| gained.lines).unwrap_or_default()
    }

    #[test]
    fn only_new_permissions_are_gained() {
        let cluster = |name, rules: &Value| objects(name, None, rules);
        let read = rule("", &["pods"], &["get", "list"]);
        let all = rule("*", &["*"], &["*"]);
        let wide_and_in_openshift = |rules: &Value| {
            let mut role = cluster("a", rules).remove(0);
            role.value_mut()["apiVersion"] = "authorization.openshift.io/v1".into();
            [cluster("a", &all), vec![role]].concat()
        };
        let secrets = |names: &[&str]| json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get"]}]);
        let place = "ServiceAccount etcd/etcd, in the whole cluster";
        let line = |resources: &str, verbs: &str| {
            format!(r#"{place}: {{"apiGroups":[""],"resources":[{resources}],"verbs":[{verbs}]}}"#)
        };
        assert_each!(|before, after, expected| lines(&before, &after) => expected;
            // The name of the role does not matter.
            cluster("a", &read), cluster("b", &read) => vec![];
            cluster("a", &read), vec![] => vec![];
            cluster("a", &read), cluster("a", &rule("", &["pods"], &["get", "delete"])) => vec![line("\"pods\"", "\"delete\"")];
            cluster("a", &read), cluster("a", &rule("", &["pods", "secrets"], &["get", "list"]))
                => vec![line("\"secrets\"", "\"get\",\"list\"")];
            cluster("a", &all), cluster("a", &read) => vec![];
            vec![], cluster("a", &read) => vec![line("\"pods\"", "\"get\",\"list\"")];
            // Subresources are separate resources; a rule for a single object grants less than one for all.
            cluster("a", &rule("", &["pods"], &["get"])), cluster("a", &rule("", &["pods/log"], &["get"]))
                => vec![line("\"pods/log\"", "\"get\"")];
            cluster("a", &read),
                cluster("a", &json!([{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"], "verbs": ["get"]}]))
                => vec![];
            // Roles of both APIs are the same role, and either may be applied last.
            cluster("a", &read), wide_and_in_openshift(&read)
                => vec![format!(r#"{place}: {{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}}"#)];
            // RBAC has no wildcard for names of objects.
            cluster("a", &secrets(&["*"])), cluster("a", &secrets(&["*", "token"])) => vec![format!(
                r#"{place}: {{"apiGroups":[""],"resources":["secrets"],"resourceNames":["token"],"verbs":["get"]}}"#
            )];
            // A namespace is part of the cluster, so it gains nothing; the cluster is more than a namespace.
            cluster("a", &read), objects("a", Some("etcd"), &read) => vec![];
            objects("a", Some("etcd"), &read), cluster("a", &read) => vec![line("\"pods\"", "\"get\",\"list\"")];
        );
    }

    #[test]
    fn urls_and_roles_of_others_count() {
        let urls = |list: &[&str]| {
            let rules = json!([{"nonResourceURLs": list, "verbs": ["get"]}]);
            objects("a", None, &rules)
        };
        let bound = || objects("view", None, &json!([])).split_off(1);
        let line = |text| format!("ServiceAccount etcd/etcd, in the whole cluster: {text}");
        assert_each!(|before, after, expected| lines(&before, &after) => Vec::from_iter(expected.map(line));
            urls(&["/a/*"]), urls(&["/a/b"]) => None;
            urls(&["/a"]), urls(&["/a", "/b"]) => Some("{\"nonResourceURLs\":[\"/b\"],\"verbs\":[\"get\"]}");
            bound(), bound() => None;
            vec![], bound() => Some("whatever ClusterRole view allows");
        );
    }

    #[test]
    fn digest_covers_the_gained_permissions_and_is_stable() {
        let before = objects("a", None, &rule("", &["pods"], &["get"]));
        let after = objects("b", None, &rule("", &["pods", "secrets"], &["get"]));
        let digest = |before: &[Object], after: &[Object]| gained(before, after).unwrap().digest;
        // Approvals contain this digest: if the text of a line changes, approved permissions must be approved again.
        assert_rows!(digest(&before, &after) => "sha256:7c60bbd5af8d98019b41b416b14eafc9ad1c13b1f3f2d081bea8226a05cbd2fb");
        let bound = objects("view", None, &json!([])).split_off(1);
        assert_rows!(digest(&[], &bound) => "sha256:a9f75754fba0e293a51e09825efe4108e827210a3532fda0036358d3dbe5d08d");
        assert_rows!(digest(&before, &after) => digest(&[], &objects("c", None, &rule("", &["secrets"], &["get"]))));
        assert_ne!(digest(&before, &after), digest(&[], &after));
        assert_eq!(gained(&after, &before), None);
    }

    #[test]
    fn permissions_beyond_the_budget_count_as_gained() {
        let many: Vec<String> = (0..1000).map(|n| format!("r{n}")).collect();
        let rules = json!([{"apiGroups": many, "resources": many, "verbs": ["get"]}]);
        let after = objects("a", None, &rules);
        assert_rows!(lines(&objects("a", None, &rule("g", &["r"], &["get"])), &after).len() => 1);
        // A rule that is covered as a whole is not expanded.
        assert_rows!(lines(&objects("a", None, &rule("*", &["*"], &["*"])), &after) => [""; 0]);
        assert_eq!(lines(&after, &after), [""; 0]);
    }
}
