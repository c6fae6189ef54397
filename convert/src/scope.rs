//! Scope of a kind, determined by its API or its CRD before a table of known kinds.

use std::collections::BTreeMap;

use manifests::go_types;
use manifests::object::text;
use serde_json::Value;

use crate::bundle::Item;

/// Scope of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Objects belong to a namespace.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// Scopes of kinds that bundles contain and Kubernetes does not define, by group and kind, from their own CRDs.
const WELL_KNOWN_SCOPES: &[(&str, &str, Scope)] = &[
    ("authorization.openshift.io", "ClusterRole", Scope::Cluster),
    (
        "authorization.openshift.io",
        "ClusterRoleBinding",
        Scope::Cluster,
    ),
    ("authorization.openshift.io", "Role", Scope::Namespaced),
    (
        "authorization.openshift.io",
        "RoleBinding",
        Scope::Namespaced,
    ),
    (
        "authorization.openshift.io",
        "RoleBindingRestriction",
        Scope::Namespaced,
    ),
    (
        "autoscaling.k8s.io",
        "VerticalPodAutoscaler",
        Scope::Namespaced,
    ),
    (
        "autoscaling.k8s.io",
        "VerticalPodAutoscalerCheckpoint",
        Scope::Namespaced,
    ),
    ("cert-manager.io", "Certificate", Scope::Namespaced),
    ("cert-manager.io", "CertificateRequest", Scope::Namespaced),
    ("cert-manager.io", "ClusterIssuer", Scope::Cluster),
    ("cert-manager.io", "Issuer", Scope::Namespaced),
    ("config.openshift.io", "ClusterOperator", Scope::Cluster),
    ("console.openshift.io", "ConsoleCLIDownload", Scope::Cluster),
    (
        "console.openshift.io",
        "ConsoleExternalLogLink",
        Scope::Cluster,
    ),
    ("console.openshift.io", "ConsoleLink", Scope::Cluster),
    (
        "console.openshift.io",
        "ConsoleNotification",
        Scope::Cluster,
    ),
    ("console.openshift.io", "ConsolePlugin", Scope::Cluster),
    ("console.openshift.io", "ConsoleQuickStart", Scope::Cluster),
    ("console.openshift.io", "ConsoleSample", Scope::Cluster),
    ("console.openshift.io", "ConsoleYAMLSample", Scope::Cluster),
    ("gateway.networking.k8s.io", "GatewayClass", Scope::Cluster),
    ("image.openshift.io", "ImageStream", Scope::Namespaced),
    ("monitoring.coreos.com", "Alertmanager", Scope::Namespaced),
    (
        "monitoring.coreos.com",
        "AlertmanagerConfig",
        Scope::Namespaced,
    ),
    ("monitoring.coreos.com", "PodMonitor", Scope::Namespaced),
    ("monitoring.coreos.com", "Probe", Scope::Namespaced),
    ("monitoring.coreos.com", "Prometheus", Scope::Namespaced),
    ("monitoring.coreos.com", "PrometheusRule", Scope::Namespaced),
    ("monitoring.coreos.com", "ServiceMonitor", Scope::Namespaced),
    ("operators.coreos.com", "CatalogSource", Scope::Namespaced),
    (
        "operators.coreos.com",
        "OperatorCondition",
        Scope::Namespaced,
    ),
    ("operators.coreos.com", "OperatorGroup", Scope::Namespaced),
    ("operators.coreos.com", "Subscription", Scope::Namespaced),
    ("extensions", "PodSecurityPolicy", Scope::Cluster),
    ("policy", "PodSecurityPolicy", Scope::Cluster),
    ("route.openshift.io", "Route", Scope::Namespaced),
    (
        "security.openshift.io",
        "SecurityContextConstraints",
        Scope::Cluster,
    ),
    (
        "snapshot.storage.k8s.io",
        "VolumeSnapshotClass",
        Scope::Cluster,
    ),
    ("template.openshift.io", "Template", Scope::Namespaced),
];

/// Returns the scope of a kind that Kubernetes itself serves.
///
/// A version that is no longer served has the scope of the current one: with an old `--kube-version`, the conversion keeps
/// it. The kinds of `extensions` are in several groups today.
pub(crate) fn of_builtin(api_version: &str, kind: &str) -> Option<Scope> {
    let (group, _) = manifests::object::group_version(api_version);
    let is_kind = |candidate: &&go_types::Kind| {
        candidate.kind == kind
            && (group == "extensions"
                || manifests::object::group_version(candidate.api_version).0 == group)
    };
    let kind =
        go_types::kind(api_version, kind).or_else(|| go_types::kinds().iter().find(is_kind))?;
    let namespaced = kind.namespaced;
    Some(if namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
    })
}

/// Scopes in the bundle's own CustomResourceDefinitions, by group and kind.
pub(crate) struct Scopes<'a>(BTreeMap<(&'a str, &'a str), Scope>);

impl<'a> Scopes<'a> {
    pub(crate) fn of_crds(items: impl Iterator<Item = &'a Item>) -> Self {
        let scope = |crd: &'a Value| {
            let group = text(crd, &["spec", "group"])?;
            let kind = text(crd, &["spec", "names", "kind"])?;
            let scope = if text(crd, &["spec", "scope"]) == Some("Cluster") {
                Scope::Cluster
            } else {
                Scope::Namespaced
            };
            Some(((group, kind), scope))
        };
        Self(items.filter_map(|item| scope(&item.value)).collect())
    }

    /// Returns the scope of a kind, or `None` if it is unknown.
    pub(crate) fn for_kind(&self, api_version: &str, kind: &str) -> Option<Scope> {
        let (group, _) = manifests::object::group_version(api_version);
        of_builtin(api_version, kind)
            .or_else(|| self.0.get(&(group, kind)).copied())
            .or_else(|| {
                WELL_KNOWN_SCOPES
                    .iter()
                    .find(|candidate| (candidate.0, candidate.1) == (group, kind))
                    .map(|candidate| candidate.2)
            })
    }
}

/// Reports whether OLM installs a kind from a bundle (OLM v0 parity). All other kinds are installed here, with a warning.
pub(crate) fn is_supported_by_olm(kind: &str) -> bool {
    matches!(
        kind,
        "ClusterRole"
            | "ClusterRoleBinding"
            | "ClusterServiceVersion"
            | "ConfigMap"
            | "ConsoleCLIDownload"
            | "ConsoleLink"
            | "ConsolePlugin"
            | "ConsoleQuickStart"
            | "ConsoleYAMLSample"
            | "CustomResourceDefinition"
            | "NetworkPolicy"
            | "PodDisruptionBudget"
            | "PodMonitor"
            | "PriorityClass"
            | "PrometheusRule"
            | "Role"
            | "RoleBinding"
            | "Secret"
            | "Service"
            | "ServiceAccount"
            | "ServiceMonitor"
            | "VerticalPodAutoscaler"
    )
}
