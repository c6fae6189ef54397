//! Rights as objects that somebody can apply.

use std::collections::{BTreeMap, BTreeSet};

use manifests::api::rights::{self, Right, Scope};
use sha2::{Digest, Sha256};

use crate::account::Account;

/// What fits into a condition, beside other problems.
const MOST_BYTES: usize = 16 << 10;

/// Lists what is missing, as roles and bindings.
pub(super) fn of(
    missing: &BTreeMap<Scope<'_>, BTreeSet<Right<'_>>>,
    account: Option<&Account>,
    instance: &str,
    system_namespace: &str,
) -> String {
    let mut text = match account {
        Some(Account { name, namespace }) => format!(
            "ServiceAccount {namespace}/{name} lacks rights that this bundle takes: grant it all of them with kubectl create \
             -f - and this, or name another spec.serviceAccount"
        ),
        None => format!(
            "the provisioner lacks rights that this bundle takes: bind ClusterRole provisioner-install-anything to its \
             ServiceAccount {system_namespace}/provisioner again, name a spec.serviceAccount that has them, or grant them with \
             kubectl create -f - and this"
        ),
    };
    let provisioner = Account {
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
        .map(|(scope, rights)| (scope, rights::lines(&rights)))
        .collect()
}

fn role(scope: Scope<'_>, rules: &[String], subject: &Account, instance: &str) -> String {
    let rules = rules.join("\n");
    // What was granted before stays: other rules are a role of another name.
    let digest = Sha256::digest(&rules);
    let hash = digest.first_chunk();
    let hash = hash.map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let name = format!("install-{instance}-{hash:08x}");
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
