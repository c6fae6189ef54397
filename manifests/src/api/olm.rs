//! Whether OLM v0 runs, as its Deployment tells. That its kinds are defined says nothing: definitions stay when OLM goes.

use k8s_openapi::api::apps::v1::Deployment;

/// The Deployment of OLM v0 that serves catalogs and makes InstallPlans.
pub const OPERATOR: &str = "catalog-operator";
/// Where it is: in OLM's own manifests, and in OpenShift. A Deployment of this name elsewhere may be anybody's.
pub const NAMESPACES: [&str; 3] = [
    "olm",
    "openshift-operator-lifecycle-manager",
    "operator-lifecycle-manager",
];

/// How OLM's catalog-operator is, the best last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// There is none, or it is to have no pods.
    Gone,
    /// It is to run, and does not.
    Away,
    /// It runs.
    Runs,
}

impl Operator {
    /// As its Deployment tells.
    pub fn of(deployment: &Deployment) -> Self {
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let status = deployment.status.as_ref();
        let available = status.and_then(|status| status.available_replicas);
        match (wanted.unwrap_or(1), available.unwrap_or_default()) {
            (..=0, _) => Self::Gone,
            (_, ..=0) => Self::Away,
            _ => Self::Runs,
        }
    }
}
