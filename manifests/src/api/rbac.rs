//! RBAC permissions: expansion, coverage and formatting of rules.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectRulesReviewStatus},
    rbac::v1::PolicyRule,
};

/// Maximum number of resource names in a formatted rule. A rule with more names is formatted for all objects of the
/// resource.
const MAX_NAMES: usize = 16;

type Set<'a> = BTreeSet<&'a str>;

/// Namespace of a permission, or `None` for the cluster.
pub type Scope<'a> = Option<&'a str>;

/// A single permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission<'a> {
    /// A verb on a resource.
    Resource {
        /// The API group, or empty for the core group.
        group: &'a str,
        /// The resource, with a subresource after a slash.
        resource: &'a str,
        /// Name of one object, or `None` for all objects.
        name: Option<&'a str>,
        /// The allowed verb.
        verb: &'a str,
    },
    /// A verb on a non-resource URL.
    Url {
        /// The URL path.
        url: &'a str,
        /// The allowed verb.
        verb: &'a str,
    },
}

impl Permission<'_> {
    /// Returns the permission for all objects of the resource.
    #[must_use]
    pub fn of_any_name(self) -> Self {
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

    /// Returns the attributes for an access review.
    pub fn attributes(self, scope: Scope<'_>) -> ResourceAttributes {
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

/// An RBAC rule, which grants every verb on every resource of every group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    groups: BTreeSet<String>,
    resources: BTreeSet<String>,
    /// Names of the objects that the rule is limited to; empty for all objects.
    names: BTreeSet<String>,
    urls: BTreeSet<String>,
    verbs: BTreeSet<String>,
}

impl Rule {
    /// Creates a rule from a rule of a role.
    pub fn from_policy_rule(rule: &PolicyRule) -> Self {
        let set = |list: &Option<Vec<String>>| list.iter().flatten().cloned().collect();
        Self {
            groups: set(&rule.api_groups),
            resources: set(&rule.resources),
            names: set(&rule.resource_names),
            urls: set(&rule.non_resource_urls),
            verbs: rule.verbs.iter().cloned().collect(),
        }
    }

    /// Creates the rules from the result of a SelfSubjectRulesReview.
    pub fn from_review(status: SubjectRulesReviewStatus) -> Vec<Self> {
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

    /// Reports whether the rule grants a permission, as authorizers decide it. Only `*` covers a permission for `*`.
    fn allows(&self, permission: Permission<'_>) -> bool {
        let has = |set: &BTreeSet<String>, entry: &str| set.contains("*") || set.contains(entry);
        match permission {
            Permission::Resource {
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
            Permission::Url { url, verb } => {
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

/// Returns the permissions that no rule grants.
pub fn missing<'a>(
    permissions: impl IntoIterator<Item = Permission<'a>>,
    held: &[Rule],
) -> BTreeSet<Permission<'a>> {
    permissions
        .into_iter()
        .filter(|permission| !held.iter().any(|rule| rule.allows(*permission)))
        .collect()
}

/// Expands rules to single permissions, or returns `None` if there are more than `left`.
pub fn expand<'a>(rules: &'a [PolicyRule], left: &mut usize) -> Option<BTreeSet<Permission<'a>>> {
    let mut permissions = BTreeSet::new();
    for rule in rules {
        let list = |list: &'_ Option<Vec<String>>| list.as_deref().unwrap_or_default().len().max(1);
        let count = [&rule.api_groups, &rule.resources, &rule.resource_names]
            .into_iter()
            .map(list)
            .chain([rule.verbs.len(), list(&rule.non_resource_urls)])
            .try_fold(1, usize::checked_mul)?;
        *left = left.checked_sub(count)?;
        expand_one(rule, &mut permissions);
    }
    Some(permissions)
}

fn expand_one<'a>(rule: &'a PolicyRule, permissions: &mut BTreeSet<Permission<'a>>) {
    let names = rule.resource_names.as_deref().unwrap_or_default();
    let names: Vec<Option<&str>> = if names.is_empty() {
        vec![None]
    } else {
        names.iter().map(|name| Some(name.as_str())).collect()
    };
    for verb in &rule.verbs {
        for url in rule.non_resource_urls.iter().flatten() {
            permissions.insert(Permission::Url { url, verb });
        }
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for &name in &names {
                    permissions.insert(Permission::Resource {
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

/// Formats permissions as the smallest equivalent list of rules, one per line.
pub fn format_rules(permissions: &BTreeSet<Permission<'_>>) -> Vec<String> {
    let mut names: BTreeMap<(&str, &str, &str), (Set<'_>, bool)> = BTreeMap::new();
    let mut urls: BTreeMap<&str, Set<'_>> = BTreeMap::new();
    for permission in permissions {
        match *permission {
            Permission::Resource {
                group,
                resource,
                name,
                verb,
            } => {
                let (names, is_any) = names.entry((group, resource, verb)).or_default();
                *is_any |= name.is_none();
                names.extend(name);
            }
            Permission::Url { url, verb } => {
                urls.entry(url).or_default().insert(verb);
            }
        }
    }
    let mut verbs: BTreeMap<(&str, &str, Set<'_>), Set<'_>> = BTreeMap::new();
    for ((group, resource, verb), (mut names, is_any)) in names {
        if is_any || names.len() > MAX_NAMES {
            names.clear();
        }
        verbs
            .entry((group, resource, names))
            .or_default()
            .insert(verb);
    }
    let mut resources: BTreeMap<(&str, Set<'_>, Set<'_>), Set<'_>> = BTreeMap::new();
    for ((group, resource, names), verbs) in verbs {
        resources
            .entry((group, names, verbs))
            .or_default()
            .insert(resource);
    }
    let mut groups: BTreeMap<(Set<'_>, Set<'_>, Set<'_>), Set<'_>> = BTreeMap::new();
    for ((group, names, verbs), resources) in resources {
        groups
            .entry((resources, names, verbs))
            .or_default()
            .insert(group);
    }
    let mut paths: BTreeMap<Set<'_>, Set<'_>> = BTreeMap::new();
    for (url, verbs) in urls {
        paths.entry(verbs).or_default().insert(url);
    }
    let mut lines: Vec<String> = groups
        .iter()
        .map(|((resources, names, verbs), groups)| {
            let only = if names.is_empty() {
                String::new()
            } else {
                format!(", resourceNames: {}", list(names))
            };
            format!(
                "- {{apiGroups: {}, resources: {}{only}, verbs: {}}}",
                list(groups),
                list(resources),
                list(verbs)
            )
        })
        .collect();
    lines.extend(paths.iter().map(|(verbs, urls)| {
        format!(
            "- {{nonResourceURLs: {}, verbs: {}}}",
            list(urls),
            list(verbs)
        )
    }));
    lines.sort_unstable();
    lines
}

/// Formats entries as a JSON list, which is valid YAML.
fn list(entries: &Set<'_>) -> String {
    let quoted: Vec<String> = entries
        .iter()
        .map(|entry| serde_json::Value::from(*entry).to_string())
        .collect();
    format!("[{}]", quoted.join(", "))
}
