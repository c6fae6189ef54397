//! The versions of Kubernetes and, where there is one, of OpenShift.

use kube::Client;
use manifests::version::KubeVersion;

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
