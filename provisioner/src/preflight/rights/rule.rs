//! Rules of RBAC: what they allow, and what is left of others.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectRulesReviewStatus},
    rbac::v1::PolicyRule,
};

/// A namespace, or the cluster.
pub(super) type Scope<'a> = Option<&'a str>;

/// The smallest thing that can be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Right<'a> {
    /// One verb on one resource.
    Resource {
        group: &'a str,
        resource: &'a str,
        /// One object; all, when there is none.
        name: Option<&'a str>,
        verb: &'a str,
    },
    /// One verb on a path that is no resource.
    Url { url: &'a str, verb: &'a str },
}

impl Right<'_> {
    pub(super) fn of_any_name(self) -> Self {
        match self {
            Self::Resource {
                group,
                resource,
                verb,
                ..
            } => Self::Resource {
                group,
                resource,
                name: None,
                verb,
            },
            url @ Self::Url { .. } => url,
        }
    }

    /// As a question to the apiserver.
    pub(super) fn attributes(self, scope: Scope<'_>) -> ResourceAttributes {
        let Self::Resource {
            group,
            resource,
            name,
            verb,
        } = self
        else {
            return ResourceAttributes::default();
        };
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ResourceAttributes {
            group: some(group),
            resource: some(resource),
            subresource: some(subresource),
            name: name.and_then(some),
            namespace: scope.and_then(some),
            verb: some(verb),
            ..ResourceAttributes::default()
        }
    }
}

/// A rule: every verb goes with every resource of every group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rule {
    groups: BTreeSet<String>,
    resources: BTreeSet<String>,
    /// The only objects it is about; all, when there is none.
    names: BTreeSet<String>,
    urls: BTreeSet<String>,
    verbs: BTreeSet<String>,
}

impl Rule {
    /// All that somebody holds.
    pub(super) fn of_review(status: SubjectRulesReviewStatus) -> Vec<Self> {
        let set = |list: Option<Vec<String>>| list.unwrap_or_default().into_iter().collect();
        let resources = status.resource_rules.into_iter().map(|rule| Self {
            groups: set(rule.api_groups),
            resources: set(rule.resources),
            names: set(rule.resource_names),
            urls: BTreeSet::new(),
            verbs: rule.verbs.into_iter().collect(),
        });
        let urls = status.non_resource_rules.into_iter().map(|rule| Self {
            urls: set(rule.non_resource_urls),
            verbs: rule.verbs.into_iter().collect(),
            ..Self::default()
        });
        resources.chain(urls).collect()
    }

    /// Whether the rule allows that, as authorizers decide it. A right to `*` is covered by `*` alone.
    fn allows(&self, right: Right<'_>) -> bool {
        let has = |set: &BTreeSet<String>, entry: &str| set.contains("*") || set.contains(entry);
        match right {
            Right::Resource {
                group,
                resource,
                name,
                verb,
            } => {
                let has_resource = || {
                    has(&self.resources, resource)
                        || resource
                            .split_once('/')
                            .is_some_and(|(_, sub)| self.resources.contains(&format!("*/{sub}")))
                };
                let has_name =
                    || self.names.is_empty() || name.is_some_and(|name| self.names.contains(name));
                has(&self.verbs, verb) && has(&self.groups, group) && has_resource() && has_name()
            }
            Right::Url { url, verb } => {
                has(&self.verbs, verb) && self.urls.iter().any(|own| url_covers(own, url))
            }
        }
    }
}

fn url_covers(own: &str, url: &str) -> bool {
    own == "*"
        || own == url
        || own
            .strip_suffix('*')
            .is_some_and(|prefix| url.starts_with(prefix))
}

/// Every right that no rule allows.
pub(super) fn not_covered<'a>(
    rights: impl IntoIterator<Item = Right<'a>>,
    held: &[Rule],
) -> BTreeSet<Right<'a>> {
    rights
        .into_iter()
        .filter(|right| !held.iter().any(|rule| rule.allows(*right)))
        .collect()
}

/// All rights that rules consist of; nothing when there are more than are left.
pub(super) fn expand<'a>(rules: &'a [PolicyRule], left: &mut usize) -> Option<BTreeSet<Right<'a>>> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        let list = |list: &'_ Option<Vec<String>>| list.as_deref().unwrap_or_default().len().max(1);
        let count = [&rule.api_groups, &rule.resources, &rule.resource_names]
            .into_iter()
            .map(list)
            .chain([rule.verbs.len(), list(&rule.non_resource_urls)])
            .try_fold(1, usize::checked_mul)?;
        *left = left.checked_sub(count)?;
        expand_one(rule, &mut rights);
    }
    Some(rights)
}

fn expand_one<'a>(rule: &'a PolicyRule, rights: &mut BTreeSet<Right<'a>>) {
    let names = rule.resource_names.as_deref().unwrap_or_default();
    let names: Vec<Option<&str>> = if names.is_empty() {
        vec![None]
    } else {
        names.iter().map(|name| Some(name.as_str())).collect()
    };
    for verb in &rule.verbs {
        for url in rule.non_resource_urls.iter().flatten() {
            rights.insert(Right::Url { url, verb });
        }
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for &name in &names {
                    rights.insert(Right::Resource {
                        group,
                        resource,
                        name,
                        verb,
                    });
                }
            }
        }
    }
}
