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

/// Cluster-scoped kinds of bundles that Kubernetes does not define. Each entry has an API group and its kinds; the scopes
/// are those of their CRDs.
const CLUSTER_KINDS: &[&str] = &[
    "authorization.openshift.io ClusterRole ClusterRoleBinding",
    "cert-manager.io ClusterIssuer",
    "config.openshift.io ClusterOperator",
    "console.openshift.io ConsoleCLIDownload ConsoleExternalLogLink ConsoleLink ConsoleNotification ConsolePlugin \
     ConsoleQuickStart ConsoleSample ConsoleYAMLSample",
    "extensions PodSecurityPolicy",
    "gateway.networking.k8s.io GatewayClass",
    "policy PodSecurityPolicy",
    "security.openshift.io SecurityContextConstraints",
    "snapshot.storage.k8s.io VolumeSnapshotClass",
];

/// Namespaced kinds of bundles that Kubernetes does not define, in the same format.
const NAMESPACED_KINDS: &[&str] = &[
    "authorization.openshift.io Role RoleBinding RoleBindingRestriction",
    "autoscaling.k8s.io VerticalPodAutoscaler VerticalPodAutoscalerCheckpoint",
    "cert-manager.io Certificate CertificateRequest Issuer",
    "image.openshift.io ImageStream",
    "monitoring.coreos.com Alertmanager AlertmanagerConfig PodMonitor Probe Prometheus PrometheusRule ServiceMonitor",
    "operators.coreos.com CatalogSource OperatorCondition OperatorGroup Subscription",
    "route.openshift.io Route",
    "template.openshift.io Template",
];

/// Returns the scope of a kind that Kubernetes itself serves.
///
/// A removed version has the scope of the current one, because the conversion keeps the version with an old
/// `--kube-version`. The kinds of `extensions` are in several groups today.
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
            .or_else(|| well_known(group, kind))
    }
}

fn well_known(group: &str, kind: &str) -> Option<Scope> {
    let is_in = |lines: &[&str]| {
        lines.iter().any(|line| {
            let mut words = line.split(' ');
            words.next() == Some(group) && words.any(|word| word == kind)
        })
    };
    if is_in(CLUSTER_KINDS) {
        Some(Scope::Cluster)
    } else {
        is_in(NAMESPACED_KINDS).then_some(Scope::Namespaced)
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
