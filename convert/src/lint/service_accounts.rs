//! ServiceAccounts in the bundle, and bindings of ServiceAccounts to roles.

use std::collections::BTreeSet;

use manifests::{
    object::{get_path, group_version, truncate},
    path::Path,
};

use super::{Input, list, string_at};
use crate::{
    bundle::Item,
    csv::Csv,
    finding::{Findings, code::Code},
};

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    if let Some(csv) = input.csv {
        shipped_accounts(csv, input, findings);
    }
    binding_namespaces(input, findings);
    missing_roles(input, findings);
}

/// Returns the ServiceAccounts of the CSV's Deployments.
fn deployment_accounts(csv: Csv<'_>) -> BTreeSet<&str> {
    let pods = csv
        .deployments()
        .iter()
        .filter_map(|entry| get_path(entry, &["spec", "template", "spec"]));
    pods.flat_map(|pod| {
        ["serviceAccountName", "serviceAccount"].map(|field| string_at(pod, &[field]))
    })
    .filter(|name| !name.is_empty())
    .collect()
}

/// Reports ServiceAccounts that OLM creates itself.
fn shipped_accounts(csv: Csv<'_>, input: Input<'_>, findings: &mut Findings) {
    let used = deployment_accounts(csv);
    for item in input
        .others
        .iter()
        .filter(|item| item.kind() == "ServiceAccount" && used.contains(item.name()))
    {
        findings.warn(
            Code::ShippedServiceAccount,
            item.place.clone(),
            format!(
                "invalid service account found in bundle: a Deployment of the CSV uses {}, which OLM creates itself; \
                 operator-sdk rejects this",
                item.label()
            ),
            "remove the manifest, unless it has pull secrets or annotations that the operator needs",
        );
    }
}

/// Reports bindings to missing Roles. A Role exists in the install namespace only if the bundle contains it, while
/// ClusterRoles may exist in the cluster.
fn missing_roles(input: Input<'_>, findings: &mut Findings) {
    let rbac = |kind: &'static str| {
        input.others.iter().filter(move |item| {
            group_version(item.api_version()).0 == "rbac.authorization.k8s.io"
                && item.kind() == kind
        })
    };
    let shipped: BTreeSet<&str> = rbac("Role").map(Item::name).collect();
    for item in rbac("RoleBinding").chain(rbac("ClusterRoleBinding")) {
        let name = string_at(&item.value, &["roleRef", "name"]);
        let is_cluster_wide = item.kind() == "ClusterRoleBinding";
        let is_missing = !shipped.contains(name) && !findings.are_absences_hidden();
        if string_at(&item.value, &["roleRef", "kind"]) != "Role" || !is_missing && !is_cluster_wide
        {
            continue;
        }
        let name = truncate(name, 253);
        let problem = if is_cluster_wide {
            format!("refers to Role {name:?}; the API server accepts only ClusterRoles")
        } else {
            format!(
                "refers to Role {name:?}, which the bundle does not contain; the binding grants nothing unless the Role \
                 exists in the cluster"
            )
        };
        findings.warn(
            Code::MissingRole,
            item.place.at(&Path::from(["roleRef"])),
            format!("{} {problem}", item.label()),
            "add the Role to the bundle, or refer to a ClusterRole",
        );
    }
}

/// Reports bindings that refer to another namespace. All objects of the bundle are installed in one namespace, so such a
/// binding has no effect.
fn binding_namespaces(input: Input<'_>, findings: &mut Findings) {
    let csv = input.csv;
    let permissions = csv
        .into_iter()
        .flat_map(|csv| csv.permissions().iter().chain(csv.cluster_permissions()));
    let mut accounts: BTreeSet<&str> = permissions
        .map(|entry| string_at(entry, &["serviceAccountName"]))
        .collect();
    accounts.extend(csv.into_iter().flat_map(deployment_accounts));
    accounts.extend(
        input
            .others
            .iter()
            .filter(|item| item.kind() == "ServiceAccount")
            .map(Item::name),
    );
    let home = input.facts.install_namespace.as_str();
    for item in input
        .others
        .iter()
        .filter(|item| matches!(item.kind(), "RoleBinding" | "ClusterRoleBinding"))
    {
        for (index, subject) in list(&item.value, &["subjects"]) {
            let (name, namespace) = (
                string_at(subject, &["name"]),
                string_at(subject, &["namespace"]),
            );
            let is_cluster_wide = item.kind() == "ClusterRoleBinding";
            if string_at(subject, &["kind"]) != "ServiceAccount"
                || !accounts.contains(name)
                || namespace == home
                || (namespace.is_empty() && !is_cluster_wide)
            {
                continue;
            }
            let message = if namespace.is_empty() {
                format!(
                    "{} binds ServiceAccount {name:?} without its namespace; the API server rejects it",
                    item.label()
                )
            } else {
                format!(
                    "{} binds ServiceAccount {name:?} of namespace {namespace:?}; the bundle's ServiceAccount of that name \
                     is installed to {home:?}",
                    item.label()
                )
            };
            findings.warn(
                Code::BindingNamespace,
                item.place.at(&Path::from(["subjects"]).index(index)),
                message,
                "use the permissions of the CSV, or set the annotation operatorframework.io/suggested-namespace to that \
                 namespace",
            );
        }
    }
}
