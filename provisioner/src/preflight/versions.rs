//! The versions of Kubernetes and, where there is one, of OpenShift.

use kube::Client;
use manifests::version::KubeVersion;

use super::{Findings, Input};

/// The versions of the cluster, asked for now and then.
pub struct Versions {}

impl Versions {
    /// Knows nothing yet. `release` is `RELEASE_VERSION` of the environment.
    pub fn new(client: Client, release: Option<String>) -> Self {
        todo!()
    }

    /// Of the apiserver.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn kubernetes(&self) -> Result<KubeVersion, kube::Error> {
        todo!()
    }
}

/// Compares what the bundle demands of the cluster with the cluster.
///
/// # Errors
/// When the apiserver cannot be asked; to be tried again.
pub async fn check(input: &Input<'_>) -> Result<Findings, kube::Error> {
    todo!()
}
