//! Rights that lead to more rights, after the Kubernetes page on good practices for RBAC.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

use super::{RBAC, rule::Rule};

/// Why a rule deserves a second look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Danger {
    /// `*`: also what will exist one day.
    Wildcard,
    /// Reads Secrets, and with them the tokens and passwords of others.
    Secrets,
    /// `escalate`: writes roles with rights that the holder does not have.
    Escalate,
    /// `bind`: gives itself roles with rights that it does not have.
    Bind,
    /// `impersonate`: acts as somebody else.
    Impersonate,
    /// Runs commands in containers, or otherwise reaches into running pods.
    Exec,
    /// Creates pods, directly or through workloads: with any ServiceAccount, Secret and volume of the namespace.
    Workloads,
    /// Creates PersistentVolumes, which may be a node's own disk.
    Volumes,
    /// `nodes/proxy`: talks to the kubelet past the API server's admission and audit.
    NodeProxy,
    /// Requests tokens of ServiceAccounts.
    Tokens,
    /// Approves or signs certificates, and with them identities.
    Certificates,
    /// Changes what the API server admits: webhooks and policies see and alter every object.
    Admission,
    /// Changes Namespaces, and with their labels the pod security and network policies that hold there.
    Namespaces,
    /// Runs pods without the limits that OpenShift sets for others.
    PrivilegedPods,
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "update", "patch"];
const CHANGE: &[&str] = &["update", "patch"];
const CREATE: &[&str] = &["create"];
const ADMISSION: &str = "admissionregistration.k8s.io";

/// What allows what: any of the verbs on a resource of a group.
const TABLE: &[(Danger, &[&str], &str, &[&str])] = &[
    (
        Danger::Escalate,
        &["escalate"],
        RBAC,
        &["roles", "clusterroles"],
    ),
    (Danger::Bind, &["bind"], RBAC, &["roles", "clusterroles"]),
    (
        Danger::Impersonate,
        &["impersonate"],
        "",
        &["users", "groups", "serviceaccounts"],
    ),
    (
        Danger::Impersonate,
        &["impersonate"],
        "authentication.k8s.io",
        &["userextras", "uids"],
    ),
    // A websocket is opened by GET, which the verb "get" covers.
    (
        Danger::Exec,
        &["create", "get"],
        "",
        &["pods/exec", "pods/attach", "pods/portforward"],
    ),
    (Danger::Exec, CHANGE, "", &["pods/ephemeralcontainers"]),
    (
        Danger::Workloads,
        WRITE,
        "",
        &["pods", "replicationcontrollers", "podtemplates"],
    ),
    (
        Danger::Workloads,
        WRITE,
        "apps",
        &["deployments", "daemonsets", "statefulsets", "replicasets"],
    ),
    (Danger::Workloads, WRITE, "batch", &["jobs", "cronjobs"]),
    (Danger::Volumes, CREATE, "", &["persistentvolumes"]),
    (
        Danger::NodeProxy,
        &["get", "create", "update", "patch", "delete"],
        "",
        &["nodes/proxy"],
    ),
    (Danger::Tokens, CREATE, "", &["serviceaccounts/token"]),
    (
        Danger::Certificates,
        CHANGE,
        "certificates.k8s.io",
        &[
            "certificatesigningrequests/approval",
            "certificatesigningrequests/status",
        ],
    ),
    (
        Danger::Certificates,
        &["approve", "sign"],
        "certificates.k8s.io",
        &["signers"],
    ),
    (
        Danger::Admission,
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
    (Danger::Namespaces, CHANGE, "", &["namespaces"]),
];

/// SecurityContextConstraints that limit little. `restricted` and `nonroot` are what everybody has, or nearly.
const PRIVILEGED: &[&str] = &[
    "privileged",
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "hostnetwork-v2",
    "node-exporter",
];

/// The dangers of a rule.
pub(super) fn of(rule: &Rule) -> BTreeSet<Danger> {
    let mut dangers: BTreeSet<Danger> = TABLE
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
        dangers.insert(Danger::Wildcard);
    }
    // Named ones are mostly the operator's own.
    if rule.resource_names.is_empty() && rule.allows(READ, "", "secrets") {
        dangers.insert(Danger::Secrets);
    }
    let names = &rule.resource_names;
    if rule.allows(
        &["use"],
        "security.openshift.io",
        "securitycontextconstraints",
    ) && (names.is_empty() || PRIVILEGED.iter().any(|name| names.contains(*name)))
    {
        dangers.insert(Danger::PrivilegedPods);
    }
    dangers
}
