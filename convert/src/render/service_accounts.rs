//! ServiceAccounts: one for each name in a permission or Deployment, unless the bundle contains it.

use std::collections::BTreeSet;

use manifests::{
    names,
    object::{get_path, text},
    path::Path,
};
use serde_json::{Value, json};

use super::Input;
use crate::{
    budget::Budget,
    bundle::Item,
    csv::{DEPLOYMENTS, Install},
    finding::{Findings, code::Code},
};

/// Memory of a ServiceAccount in bytes.
const ACCOUNT: usize = 4 << 10;

/// The ServiceAccount of every namespace, which Kubernetes creates.
pub(crate) const DEFAULT: &str = "default";

/// Returns the ServiceAccount of a permission or a pod: an empty name is the default one.
pub(crate) fn account_name(name: &str) -> &str {
    if name.is_empty() { DEFAULT } else { name }
}

/// Returns the ServiceAccount of a pod, and the field with its name. As in the API server, the deprecated field is used only if
/// the other one is missing or empty.
pub(crate) fn of_pod(pod: &Value) -> (&'static str, &str) {
    let mut fields = ["serviceAccountName", "serviceAccount"].into_iter();
    let named = fields.find_map(|field| {
        let name = text(pod, &[field]).filter(|name| !name.is_empty())?;
        Some((field, name))
    });
    named.unwrap_or(("serviceAccountName", DEFAULT))
}

/// Returns the names of the ServiceAccounts among the bundle's own objects.
pub(crate) fn bundled(extra: &[Item]) -> BTreeSet<String> {
    let is_account = |item: &&Item| item.kind() == "ServiceAccount" && item.api_version() == "v1";
    extra
        .iter()
        .filter(is_account)
        .map(|item| item.name().to_owned())
        .collect()
}

/// Returns the ServiceAccounts to create, by name. One of the bundle is unchanged, with its pull secrets and annotations.
pub(crate) fn objects(
    input: &Input<'_>,
    install: &Install,
    shipped: &BTreeSet<String>,
    budget: &mut Budget,
    findings: &mut Findings,
) -> Vec<Value> {
    let (csv, namespace) = (input.csv, input.namespace);
    let mut objects = Vec::new();
    for (name, path) in used(install) {
        if !budget.take(ACCOUNT + 2 * name.len()) {
            findings.too_large(csv.path_place(&path), "one of many ServiceAccounts");
            break;
        }
        if let Err(problem) = names::dns_subdomain(name) {
            let message = format!("service account name {name:?} is invalid: {problem}");
            findings.error(
                Code::IllegalName,
                csv.path_place(&path),
                message,
                "rename the service account",
            );
        } else if shipped.contains(name) {
            findings.change(
                Code::ServiceAccount,
                csv.path_place(&path),
                format!("ServiceAccount {name:?} is taken from the bundle"),
            );
        } else {
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": namespace},
            }));
        }
    }
    objects
}

/// Returns the names in use, each once, with the path of the first use.
fn used(install: &Install) -> Vec<(&str, Path)> {
    let mut unique = BTreeSet::new();
    let mut names = Vec::new();
    let lists = [
        ("permissions", &install.permissions),
        ("clusterPermissions", &install.cluster_permissions),
    ];
    for (list, entries) in lists {
        for (index, entry) in entries.iter().enumerate() {
            let name = account_name(text(entry, &["serviceAccountName"]).unwrap_or_default());
            let path = || {
                Path::from(["spec", "install", "spec", list])
                    .index(index)
                    .key("serviceAccountName")
            };
            if name != DEFAULT && unique.insert(name) {
                names.push((name, path()));
            }
        }
    }
    for (index, deployment) in install.deployments.iter().enumerate() {
        let Some(pod) = get_path(deployment, &["spec", "template", "spec"]) else {
            continue;
        };
        let (field, name) = of_pod(pod);
        if name != DEFAULT && unique.insert(name) {
            let pod = Path::from(["spec", "template", "spec"]).key(field);
            names.push((name, Path::from(DEPLOYMENTS).index(index).join(&pod)));
        }
    }
    names
}
