//! Rules as sets, and how several become one.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{Scope, budget::spend};

/// A rule of a role. Every verb goes with every resource of every group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups; the core one is empty.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub api_groups: BTreeSet<String>,
    /// Resources, with subresources as in `pods/exec`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<String>,
    /// The only objects the rule is about; all, when there is none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_names: BTreeSet<String>,
    /// URLs that are no resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "BTreeSet::is_empty")]
    pub urls: BTreeSet<String>,
    /// Verbs.
    pub verbs: BTreeSet<String>,
}

impl Rule {
    /// Reads a rule as far as it has the right shape.
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

    /// Whether nothing is left that the rule does not allow.
    pub fn is_everything(&self) -> bool {
        let is_any = |set: &BTreeSet<String>| set.contains("*");
        let resources =
            is_any(&self.api_groups) && is_any(&self.resources) && self.resource_names.is_empty();
        is_any(&self.verbs) && (resources || is_any(&self.urls))
    }

    /// Whether the rule allows anything there: a RoleBinding gives no right to URLs.
    pub(super) fn holds_in(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Cluster => !self.verbs.is_empty(),
            Scope::Namespace(_) => !self.verbs.is_empty() && self.urls.is_empty(),
        }
    }

    /// Whether one of these verbs is allowed on a resource of a group, as the authorizer decides it.
    pub(super) fn allows(&self, verbs: &[&str], group: &str, resource: &str) -> bool {
        let verb = self.verbs.contains("*") || verbs.iter().any(|verb| self.verbs.contains(*verb));
        let group = self.api_groups.contains("*") || self.api_groups.contains(group);
        let subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        let resource = self.resources.contains("*")
            || self.resources.contains(resource)
            || subresource.is_some_and(|any| self.resources.contains(&any));
        verb && group && resource
    }

    /// Whether everything that another rule allows is allowed by this one alone, as the authorizer decides it. A right to
    /// `*` is covered by `*` alone.
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

    /// About how many bytes a copy takes.
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

    /// Takes over another rule if both differ in one set only: then the union of the two allows exactly what both allow.
    fn absorb(&mut self, other: &mut Self) -> bool {
        let (mut mine, mut theirs) = (self.sets(), other.sets());
        let mut differing = mine
            .iter_mut()
            .zip(theirs.iter_mut())
            .enumerate()
            .filter(|(_, (a, b))| a != b);
        let (first, second) = (differing.next(), differing.next());
        match (first, second) {
            (None, _) => true,
            // No name means all objects, which is more than any list of names; and so an empty set of them absorbs.
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

/// As few rules as say the same, sorted; more than that when there are too many to compare.
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
            if !merged.iter_mut().any(|known| known.absorb(&mut rule)) {
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
        rule.sets().into_iter().for_each(simplify);
    }
    rules
}

/// What stands beside `*` says nothing more.
fn simplify(set: &mut BTreeSet<String>) {
    if set.contains("*") {
        set.retain(|entry| entry == "*");
    }
}
