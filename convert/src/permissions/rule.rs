//! Rules as sets, and merging of rules.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{Scope, budget::spend};

/// A rule of a role, which grants every verb on every resource of every group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups; the core group is the empty string.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub api_groups: BTreeSet<String>,
    /// Resources, with subresources as in `pods/exec`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<String>,
    /// Names of the objects that the rule is limited to; empty for all objects.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_names: BTreeSet<String>,
    /// Paths of non-resource URLs.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "BTreeSet::is_empty")]
    pub urls: BTreeSet<String>,
    /// Verbs that are allowed.
    pub verbs: BTreeSet<String>,
}

impl Rule {
    /// Parses a rule, ignoring members of a wrong type.
    pub(super) fn read(value: &Value) -> Self {
        let set = |field: &str| {
            let list = value.get(field).and_then(Value::as_array);
            list.into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        Self {
            api_groups: set("apiGroups"),
            resources: set("resources"),
            resource_names: set("resourceNames"),
            urls: set("nonResourceURLs"),
            verbs: set("verbs"),
        }
    }

    /// Reports whether the rule allows all operations.
    pub fn is_everything(&self) -> bool {
        let is_any = |set: &BTreeSet<String>| set.contains("*");
        let resources =
            is_any(&self.api_groups) && is_any(&self.resources) && self.resource_names.is_empty();
        is_any(&self.verbs) && (resources || is_any(&self.urls))
    }

    /// Reports whether the rule has an effect in a scope: a RoleBinding grants no permissions for URLs.
    pub(super) fn holds_in(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Cluster => !self.verbs.is_empty(),
            Scope::Namespace(_) => !self.verbs.is_empty() && self.urls.is_empty(),
        }
    }

    /// Reports whether one of these verbs is allowed on a resource of a group, as authorizers decide it.
    pub(super) fn allows(&self, verbs: &[&str], group: &str, resource: &str) -> bool {
        let verb = self.verbs.contains("*") || verbs.iter().any(|verb| self.verbs.contains(*verb));
        let group = self.api_groups.contains("*") || self.api_groups.contains(group);
        let subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        let resource = self.resources.contains("*")
            || self.resources.contains(resource)
            || subresource.is_some_and(|any| self.resources.contains(&any));
        verb && group && resource
    }

    /// Reports whether this rule alone allows everything that another rule allows, as authorizers decide it. Only `*`
    /// covers a permission for `*`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let all = |own: &BTreeSet<String>, others: &BTreeSet<String>| {
            own.contains("*") || others.iter().all(|entry| own.contains(entry))
        };
        let resource = |resource: &String| {
            self.resources.contains("*")
                || self.resources.contains(resource)
                || resource
                    .split_once('/')
                    .is_some_and(|(_, sub)| self.resources.contains(&format!("*/{sub}")))
        };
        let url = |url: &String| {
            self.urls.iter().any(|own| {
                own == url
                    || own
                        .strip_suffix('*')
                        .is_some_and(|prefix| url.starts_with(prefix))
            })
        };
        let names = self.resource_names.is_empty()
            || !other.resource_names.is_empty()
                && other
                    .resource_names
                    .iter()
                    .all(|name| self.resource_names.contains(name));
        all(&self.verbs, &other.verbs)
            && all(&self.api_groups, &other.api_groups)
            && other.resources.iter().all(resource)
            && (other.resources.is_empty() || names)
            && other.urls.iter().all(url)
    }

    fn entries(&self) -> impl Iterator<Item = &String> {
        [
            &self.verbs,
            &self.resources,
            &self.api_groups,
            &self.resource_names,
            &self.urls,
        ]
        .into_iter()
        .flatten()
    }

    /// Estimates the memory of a copy in bytes.
    pub(super) fn memory(&self) -> usize {
        const SETS: usize = 1 << 10;
        SETS + self.entries().map(|entry| entry.len() + 32).sum::<usize>()
    }

    fn sets(&mut self) -> [&mut BTreeSet<String>; 5] {
        [
            &mut self.verbs,
            &mut self.resources,
            &mut self.api_groups,
            &mut self.resource_names,
            &mut self.urls,
        ]
    }

    /// Merges another rule into this one if they differ in only one set: the union of the sets then allows exactly the
    /// operations of both.
    fn merge_into(&mut self, other: &mut Self) -> bool {
        let (mut mine, mut theirs) = (self.sets(), other.sets());
        let mut differing = mine
            .iter_mut()
            .zip(theirs.iter_mut())
            .enumerate()
            .filter(|(_, (a, b))| a != b);
        let (first, second) = (differing.next(), differing.next());
        match (first, second) {
            (None, _) => true,
            // No names means all objects, which includes any list of names. Therefore, an empty set absorbs all others.
            (Some((3, (mine, theirs))), None) if mine.is_empty() || theirs.is_empty() => {
                mine.clear();
                true
            }
            (Some((_, (mine, theirs))), None) => {
                mine.append(theirs);
                true
            }
            _ => false,
        }
    }
}

/// Returns the smallest equivalent list of rules, sorted; a longer list if the budget for comparisons is exceeded.
pub(super) fn merge(mut rules: Vec<Rule>, comparisons: &mut usize) -> Vec<Rule> {
    rules.sort_unstable();
    rules.dedup();
    loop {
        let before = rules.len();
        let length: usize = rules
            .iter()
            .flat_map(Rule::entries)
            .map(|entry| entry.len() + 1)
            .sum();
        if spend(comparisons, before.saturating_mul(length)).is_none() {
            break;
        }
        let mut merged: Vec<Rule> = Vec::with_capacity(before);
        for mut rule in rules {
            if !merged
                .iter_mut()
                .any(|existing| existing.merge_into(&mut rule))
            {
                merged.push(rule);
            }
        }
        rules = merged;
        if rules.len() == before {
            break;
        }
        rules.sort_unstable();
        rules.dedup();
    }
    for rule in &mut rules {
        // RBAC compares the names of objects literally.
        let [verbs, resources, groups, _names, urls] = rule.sets();
        [verbs, resources, groups, urls]
            .into_iter()
            .for_each(simplify);
    }
    rules
}

/// Removes entries that `*` includes.
fn simplify(set: &mut BTreeSet<String>) {
    if set.contains("*") {
        set.retain(|entry| entry == "*");
    }
}
