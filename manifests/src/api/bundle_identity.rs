//! Identity of a bundle, which is the same in a catalog and in a cluster.

use kube::ResourceExt as _;
use serde::Deserialize;

use super::{bundle_instance::BundleInstance, labels};

/// Identity of a bundle: package, name and image digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the package.
    pub package: String,
    /// Name of the bundle in the catalog, which is that of its ClusterServiceVersion, if any.
    pub bundle: String,
    /// Digest of the image.
    pub digest: String,
}

/// The relevant fields of the annotation with the chosen bundle.
#[derive(Deserialize)]
struct Chosen {
    #[serde(default)]
    package: String,
    name: String,
    image: String,
}

impl Identity {
    /// Returns the identity as one string, the key in
    /// [`OperatorDetails::catalog_maxima`](super::platform_status::OperatorDetails::catalog_maxima).
    pub fn key(&self) -> String {
        key(&self.package, &self.bundle, &self.digest)
    }
}

/// Formats an [`Identity`] as one string.
pub fn key(package: &str, name: &str, digest: &str) -> String {
    format!("{package}/{name}@{digest}")
}

/// Returns the identity of the installed bundle, or `None` if it did not come from an image. Plain manifests do not declare
/// their name; if they were chosen from a catalog, the choice has it.
pub fn identity(instance: &BundleInstance) -> Option<Identity> {
    let status = instance.status.as_ref()?;
    let image = status.resolved_source.as_ref()?.image.as_ref()?;
    let (_, digest) = image.reference.rsplit_once('@')?;
    let facts = &status.facts;
    let named = (&facts.package, &facts.cluster_service_version);
    if let (Some(package), Some(bundle)) = named {
        return Some(Identity {
            package: package.clone(),
            bundle: bundle.clone(),
            digest: digest.to_owned(),
        });
    }
    chosen(instance, digest)
}

/// Returns the identity of the bundle that was chosen from a catalog for the instance, if its image has this digest.
pub fn chosen(instance: &BundleInstance, digest: &str) -> Option<Identity> {
    let text = instance.annotations().get(labels::CHOSEN_BUNDLE)?;
    let chosen: Chosen = serde_json::from_str(text).ok()?;
    let (_, chosen_digest) = chosen.image.rsplit_once('@')?;
    (chosen_digest == digest && !chosen.package.is_empty()).then(|| Identity {
        package: chosen.package,
        bundle: chosen.name,
        digest: digest.to_owned(),
    })
}
