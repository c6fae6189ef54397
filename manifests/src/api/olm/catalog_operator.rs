//! Detection of OLM v0 by its Deployment. The CRDs of OLM prove nothing, because they remain after OLM is removed.

use k8s_openapi::api::apps::v1::Deployment;

/// Name of the Deployment of OLM v0 that serves catalogs and creates InstallPlans.
pub const OPERATOR: &str = "catalog-operator";
/// Namespaces of that Deployment: in OLM's own manifests and in OpenShift. A Deployment of this name elsewhere may be
/// unrelated.
pub const NAMESPACES: [&str; 3] = [
    "olm",
    "openshift-operator-lifecycle-manager",
    "operator-lifecycle-manager",
];

/// State of OLM's catalog-operator. The order is from the worst to the best state, for several Deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CatalogOperatorState {
    /// The Deployment does not exist, or is scaled to zero.
    Absent,
    /// The Deployment has no available pods.
    Unavailable,
    /// The operator is running.
    Running,
}

impl CatalogOperatorState {
    /// Evaluates the Deployment of the operator.
    pub fn from_deployments(deployment: &Deployment) -> Self {
        let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let status = deployment.status.as_ref();
        let available = status.and_then(|status| status.available_replicas);
        match (desired.unwrap_or(1), available.unwrap_or_default()) {
            (..=0, _) => Self::Absent,
            (_, ..=0) => Self::Unavailable,
            _ => Self::Running,
        }
    }
}
