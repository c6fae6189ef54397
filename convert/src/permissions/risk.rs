//! Permissions that lead to further permissions, based on the Kubernetes page "RBAC Good Practices".

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

use super::{RBAC, rule::Rule};

/// Risk of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Risk {
    /// `*` also covers resources that will exist in the future.
    Wildcard,
    /// Reads Secrets, including tokens and passwords of other users.
    Secrets,
    /// `escalate`: writes roles with permissions that the subject lacks.
    Escalate,
    /// `bind`: binds itself to roles with permissions that the subject lacks.
    Bind,
    /// `impersonate`: acts as another user.
    Impersonate,
    /// Runs commands in containers, or accesses running pods by other means.
    Exec,
    /// Creates pods, directly or through workloads, with any ServiceAccount, Secret and volume of the namespace.
    Workloads,
    /// Creates PersistentVolumes, which may be the disk of a node.
    Volumes,
    /// `nodes/proxy`: accesses the kubelet, bypassing admission and audit of the API server.
    NodeProxy,
    /// Requests tokens of ServiceAccounts.
    Tokens,
    /// Approves or signs certificates, and thereby identities.
    Certificates,
    /// Changes admission: webhooks and policies read and modify every object.
    Admission,
    /// Changes Namespaces, including their labels for pod security and network policies.
    Namespaces,
    /// Runs pods without the usual limits of OpenShift.
    PrivilegedPods,
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "update", "patch"];
const CHANGE: &[&str] = &["update", "patch"];
const CREATE: &[&str] = &["create"];
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Rules for the risks: any of the verbs on a resource of a group.
const TABLE: &[(Risk, &[&str], &str, &[&str])] = &[
    (
        Risk::Escalate,
        &["escalate"],
        RBAC,
        &["roles", "clusterroles"],
    ),
    (Risk::Bind, &["bind"], RBAC, &["roles", "clusterroles"]),
    (
        Risk::Impersonate,
        &["impersonate"],
        "",
        &["users", "groups", "serviceaccounts"],
    ),
    (
        Risk::Impersonate,
        &["impersonate"],
        "authentication.k8s.io",
        &["userextras", "uids"],
    ),
    // GET opens a websocket, which the verb "get" covers.
    (
        Risk::Exec,
        &["create", "get"],
        "",
        &["pods/exec", "pods/attach", "pods/portforward"],
    ),
    (Risk::Exec, CHANGE, "", &["pods/ephemeralcontainers"]),
    (
        Risk::Workloads,
        WRITE,
        "",
        &["pods", "replicationcontrollers", "podtemplates"],
    ),
    (
        Risk::Workloads,
        WRITE,
        "apps",
        &["deployments", "daemonsets", "statefulsets", "replicasets"],
    ),
    (Risk::Workloads, WRITE, "batch", &["jobs", "cronjobs"]),
    (Risk::Volumes, CREATE, "", &["persistentvolumes"]),
    (
        Risk::NodeProxy,
        &["get", "create", "update", "patch", "delete"],
        "",
        &["nodes/proxy"],
    ),
    (Risk::Tokens, CREATE, "", &["serviceaccounts/token"]),
    (
        Risk::Certificates,
        CHANGE,
        "certificates.k8s.io",
        &[
            "certificatesigningrequests/approval",
            "certificatesigningrequests/status",
        ],
    ),
    (
        Risk::Certificates,
        &["approve", "sign"],
        "certificates.k8s.io",
        &["signers"],
    ),
    (
        Risk::Admission,
        WRITE,
        ADMISSION,
        &[
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
    ),
    (Risk::Namespaces, CHANGE, "", &["namespaces"]),
];

/// SecurityContextConstraints with few limits. `restricted` and `nonroot` are available to nearly all users.
const PRIVILEGED: &[&str] = &[
    "privileged",
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "hostnetwork-v2",
    "node-exporter",
];

/// Returns the risks of a rule.
pub(super) fn risks_of_rule(rule: &Rule) -> BTreeSet<Risk> {
    let mut dangers: BTreeSet<Risk> = TABLE
        .iter()
        .filter(|(_, verbs, group, resources)| {
            resources
                .iter()
                .any(|resource| rule.allows(verbs, group, resource))
        })
        .map(|(danger, ..)| *danger)
        .collect();
    let is_any = |set: &BTreeSet<String>| set.iter().any(|entry| entry.starts_with('*'));
    if is_any(&rule.verbs)
        || is_any(&rule.resources)
        || is_any(&rule.api_groups)
        || is_any(&rule.urls)
    {
        dangers.insert(Risk::Wildcard);
    }
    // Named Secrets are usually the operator's own.
    if rule.resource_names.is_empty() && rule.allows(READ, "", "secrets") {
        dangers.insert(Risk::Secrets);
    }
    let names = &rule.resource_names;
    if rule.allows(
        &["use"],
        "security.openshift.io",
        "securitycontextconstraints",
    ) && (names.is_empty() || PRIVILEGED.iter().any(|name| names.contains(*name)))
    {
        dangers.insert(Risk::PrivilegedPods);
    }
    dangers
}
