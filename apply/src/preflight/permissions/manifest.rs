//! Missing permissions as a manifest to apply.

use std::collections::{BTreeMap, BTreeSet};

use manifests::api::rbac::{self, Permission, Scope};
use sha2::{Digest, Sha256};

use crate::account::Account;

/// Maximum length of the manifest in bytes, so that it fits into a condition with other problems.
const MAX_MANIFEST_LEN: usize = 16 << 10;

/// Formats the missing permissions as roles and bindings.
pub(super) fn format_manifest(
    missing: &BTreeMap<Scope<'_>, BTreeSet<Permission<'_>>>,
    account: Option<&Account>,
    instance: &str,
    system_namespace: &str,
) -> String {
    let mut text = match account {
        Some(Account { name, namespace }) => format!(
            "ServiceAccount {namespace}/{name} lacks permissions required by this bundle; apply the manifest below \
             with \"kubectl create -f -\", or set another spec.serviceAccount"
        ),
        None => format!(
            "the provisioner lacks permissions required by this bundle; bind ClusterRole provisioner-install-anything \
             to its ServiceAccount {system_namespace}/provisioner again, set a spec.serviceAccount that has them, or \
             apply the manifest below with \"kubectl create -f -\""
        ),
    };
    let provisioner = Account {
        name: "provisioner".to_owned(),
        namespace: system_namespace.to_owned(),
    };
    let subject = account.unwrap_or(&provisioner);
    for (scope, rules) in by_scope(missing) {
        let section = role(scope, &rules, subject, instance);
        if text.len() + section.len() > MAX_MANIFEST_LEN {
            text.push_str("\n---\n# … and more, listed after this manifest is applied");
            break;
        }
        text.push_str(&section);
    }
    text
}

/// Groups the rules by scope. A permission for a URL is only possible in the cluster scope.
fn by_scope<'a>(
    missing: &BTreeMap<Scope<'a>, BTreeSet<Permission<'a>>>,
) -> BTreeMap<Scope<'a>, Vec<String>> {
    let mut permissions: BTreeMap<Scope<'a>, BTreeSet<Permission<'a>>> = BTreeMap::new();
    for (scope, missing) in missing {
        for permission in missing {
            let scope = match permission {
                Permission::Resource { .. } => *scope,
                Permission::Url { .. } => None,
            };
            permissions.entry(scope).or_default().insert(*permission);
        }
    }
    let cluster = permissions.get(&None).cloned().unwrap_or_default();
    for (scope, permissions) in &mut permissions {
        if scope.is_some() {
            permissions.retain(|permission| {
                !cluster.contains(permission) && !cluster.contains(&permission.of_any_name())
            });
        }
    }
    permissions
        .into_iter()
        .filter(|(_, permissions)| !permissions.is_empty())
        .map(|(scope, permissions)| (scope, rbac::format_rules(&permissions)))
        .collect()
}

fn role(scope: Scope<'_>, rules: &[String], subject: &Account, instance: &str) -> String {
    let rules = rules.join("\n");
    // Earlier grants are kept: a role with other rules has another name.
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
