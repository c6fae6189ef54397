//! ServiceAccounts that the bundle ships, and bindings of accounts to roles.

use std::collections::BTreeSet;

use manifests::{
    object::{at, group_version, shortened},
    path::Path,
};

use super::{Input, list, word};
use crate::{bundle::Item, code::Code, csv::Csv, report::Findings};

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    if let Some(csv) = input.csv {
        shipped_accounts(csv, input, findings);
    }
    binding_namespaces(input, findings);
    missing_roles(input, findings);
}

/// The accounts of the CSV's Deployments.
fn of_deployments(csv: Csv<'_>) -> BTreeSet<&str> {
    let pods = csv
        .deployments()
        .iter()
        .filter_map(|entry| at(entry, &["spec", "template", "spec"]));
    pods.flat_map(|pod| ["serviceAccountName", "serviceAccount"].map(|field| word(pod, &[field])))
        .filter(|name| !name.is_empty())
        .collect()
}

/// OLM makes these accounts itself.
fn shipped_accounts(csv: Csv<'_>, input: Input<'_>, findings: &mut Findings) {
    let used = of_deployments(csv);
    for item in input
        .others
        .iter()
        .filter(|item| item.kind() == "ServiceAccount" && used.contains(item.name()))
    {
        findings.warn(
            Code::ShippedServiceAccount,
            item.place.clone(),
            format!(
                "invalid service account found in bundle: a Deployment of the CSV uses {}, which OLM makes itself; \
                 operator-sdk refuses this",
                item.label()
            ),
            "remove the manifest, unless it carries pull secrets or annotations that the operator needs",
        );
    }
}

/// A Role exists in the install namespace only if the bundle ships it. ClusterRoles may be those of the cluster.
fn missing_roles(input: Input<'_>, findings: &mut Findings) {
    let rbac = |kind: &'static str| {
        input.others.iter().filter(move |item| {
            group_version(item.api_version()).0 == "rbac.authorization.k8s.io"
                && item.kind() == kind
        })
    };
    let shipped: BTreeSet<&str> = rbac("Role").map(Item::name).collect();
    for item in rbac("RoleBinding").chain(rbac("ClusterRoleBinding")) {
        let name = word(&item.value, &["roleRef", "name"]);
        let is_cluster_wide = item.kind() == "ClusterRoleBinding";
        let is_missing = !shipped.contains(name) && !findings.are_absences_hidden();
        if word(&item.value, &["roleRef", "kind"]) != "Role" || !is_missing && !is_cluster_wide {
            continue;
        }
        let name = shortened(name, 253);
        let problem = if is_cluster_wide {
            format!("refers to Role {name:?}; the apiserver accepts only ClusterRoles")
        } else {
            format!(
                "refers to Role {name:?}, which the bundle does not ship; the binding grants nothing unless the Role exists \
                 in the cluster"
            )
        };
        findings.warn(
            Code::MissingRole,
            item.place.at(&Path::from(["roleRef"])),
            format!("{} {problem}", item.label()),
            "ship the Role, or refer to a ClusterRole",
        );
    }
}

/// Everything of the bundle goes to one namespace; a binding that names another one binds nobody.
fn binding_namespaces(input: Input<'_>, findings: &mut Findings) {
    let csv = input.csv;
    let permissions = csv
        .into_iter()
        .flat_map(|csv| csv.permissions().iter().chain(csv.cluster_permissions()));
    let mut accounts: BTreeSet<&str> = permissions
        .map(|entry| word(entry, &["serviceAccountName"]))
        .collect();
    accounts.extend(csv.into_iter().flat_map(of_deployments));
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
            let (name, namespace) = (word(subject, &["name"]), word(subject, &["namespace"]));
            let is_cluster_wide = item.kind() == "ClusterRoleBinding";
            if word(subject, &["kind"]) != "ServiceAccount"
                || !accounts.contains(name)
                || namespace == home
                || (namespace.is_empty() && !is_cluster_wide)
            {
                continue;
            }
            let message = if namespace.is_empty() {
                format!(
                    "{} binds ServiceAccount {name:?} without its namespace; the apiserver refuses it",
                    item.label()
                )
            } else {
                format!(
                    "{} binds ServiceAccount {name:?} of namespace {namespace:?}; the bundle's account of that name \
                     is installed to {home:?}",
                    item.label()
                )
            };
            findings.warn(
                Code::BindingNamespace,
                item.place.at(&Path::from(["subjects"]).index(index)),
                message,
                "grant it by the CSV's permissions, or suggest that namespace by the annotation \
                 operatorframework.io/suggested-namespace",
            );
        }
    }
}
