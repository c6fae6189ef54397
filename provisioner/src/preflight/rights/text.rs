//! Rights as objects that somebody can apply.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use manifests::api::instance::ServiceAccountRef;
use sha2::{Digest, Sha256};

use super::rule::{Right, Scope};

/// With more objects than that, a rule is about all objects of the resource.
const MOST_NAMES: usize = 16;

/// What fits into a condition, beside other problems.
const MOST_BYTES: usize = 16 << 10;

type Set<'a> = BTreeSet<&'a str>;

/// Lists what is missing, as roles and bindings.
pub(super) fn of(
    missing: &BTreeMap<Scope<'_>, BTreeSet<Right<'_>>>,
    account: Option<&ServiceAccountRef>,
    instance: &str,
    system_namespace: &str,
) -> String {
    let mut text = match account {
        Some(ServiceAccountRef { name, namespace }) => format!(
            "ServiceAccount {namespace}/{name} lacks rights that this bundle takes: grant it all of them with kubectl create \
             -f - and this, or name another spec.serviceAccount"
        ),
        None => format!(
            "the provisioner lacks rights that this bundle takes: bind ClusterRole provisioner-install-anything to its \
             ServiceAccount {system_namespace}/provisioner again, name a spec.serviceAccount that has them, or grant them with \
             kubectl create -f - and this"
        ),
    };
    let provisioner = ServiceAccountRef {
        name: "provisioner".to_owned(),
        namespace: system_namespace.to_owned(),
    };
    let subject = account.unwrap_or(&provisioner);
    for (scope, rules) in by_scope(missing) {
        let part = role(scope, &rules, subject, instance);
        if text.len() + part.len() > MOST_BYTES {
            text.push_str("\n---\n# … and more, which is listed when this is granted");
            break;
        }
        text.push_str(&part);
    }
    text
}

/// Rules by scope; a right to a path holds in the cluster, or nowhere.
fn by_scope<'a>(
    missing: &BTreeMap<Scope<'a>, BTreeSet<Right<'a>>>,
) -> BTreeMap<Scope<'a>, Vec<String>> {
    let mut rights: BTreeMap<Scope<'a>, BTreeSet<Right<'a>>> = BTreeMap::new();
    for (scope, missing) in missing {
        for right in missing {
            let scope = match right {
                Right::Resource { .. } => *scope,
                Right::Url { .. } => None,
            };
            rights.entry(scope).or_default().insert(*right);
        }
    }
    let cluster = rights.get(&None).cloned().unwrap_or_default();
    for (scope, rights) in &mut rights {
        if scope.is_some() {
            rights.retain(|right| {
                !cluster.contains(right) && !cluster.contains(&right.of_any_name())
            });
        }
    }
    rights
        .into_iter()
        .filter(|(_, rights)| !rights.is_empty())
        .map(|(scope, rights)| (scope, rules(&rights)))
        .collect()
}

/// As few rules as say the same, each a line.
fn rules(rights: &BTreeSet<Right<'_>>) -> Vec<String> {
    let mut names: BTreeMap<(&str, &str, &str), (Set<'_>, bool)> = BTreeMap::new();
    let mut urls: BTreeMap<&str, Set<'_>> = BTreeMap::new();
    for right in rights {
        match *right {
            Right::Resource {
                group,
                resource,
                name,
                verb,
            } => {
                let (names, is_any) = names.entry((group, resource, verb)).or_default();
                *is_any |= name.is_none();
                names.extend(name);
            }
            Right::Url { url, verb } => {
                urls.entry(url).or_default().insert(verb);
            }
        }
    }
    let mut verbs: BTreeMap<(&str, &str, Set<'_>), Set<'_>> = BTreeMap::new();
    for ((group, resource, verb), (mut names, is_any)) in names {
        if is_any || names.len() > MOST_NAMES {
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

/// As JSON, which is YAML.
fn list(entries: &Set<'_>) -> String {
    let quoted: Vec<String> = entries
        .iter()
        .map(|entry| serde_json::Value::from(*entry).to_string())
        .collect();
    format!("[{}]", quoted.join(", "))
}

fn role(scope: Scope<'_>, rules: &[String], subject: &ServiceAccountRef, instance: &str) -> String {
    let rules = rules.join("\n");
    // What was granted before stays: other rules are a role of another name.
    let hash: String =
        Sha256::digest(&rules)
            .iter()
            .take(4)
            .fold(String::new(), |mut hash, byte| {
                let _ = write!(hash, "{byte:02x}");
                hash
            });
    let name = format!("install-{instance}-{hash}");
    let (prefix, within) = match scope {
        None => ("Cluster", String::new()),
        Some(namespace) => ("", format!(", namespace: {namespace}")),
    };
    format!(
        "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}Role\nmetadata: {{name: {name}{within}}}\nrules:\n\
         {rules}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}RoleBinding\n\
         metadata: {{name: {name}{within}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {prefix}Role, name: {name}}}\n\
         subjects: [{{kind: ServiceAccount, name: {}, namespace: {}}}]",
        subject.name, subject.namespace
    )
}
