//! By what a bundle is the same in a catalog and in a cluster.

use kube::ResourceExt as _;
use serde::Deserialize;

use super::{instance::BundleInstance, labels};

/// Package, name, and digest of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The package.
    pub package: String,
    /// The bundle's name in the catalog, which is that of its ClusterServiceVersion, if it has one.
    pub bundle: String,
    /// The digest of the image.
    pub digest: String,
}

/// As much as counts of what a BundleInstance was declared for.
#[derive(Deserialize)]
struct Chosen {
    #[serde(default)]
    package: String,
    name: String,
    image: String,
}

impl Identity {
    /// In one text: what [`Details::catalog_maxima`](super::platform_status::Details::catalog_maxima) has.
    pub fn key(&self) -> String {
        key(&self.package, &self.bundle, &self.digest)
    }
}

/// An [`Identity`] in one text.
pub fn key(package: &str, name: &str, digest: &str) -> String {
    format!("{package}/{name}@{digest}")
}

/// By what a catalog can know the bundle that is installed: it must have come from an image. Plain manifests do not tell
/// their name; where they were chosen from a catalog, the choice does.
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
    let (_, of) = chosen.image.rsplit_once('@')?;
    (of == digest && !chosen.package.is_empty()).then(|| Identity {
        package: chosen.package,
        bundle: chosen.name,
        digest: digest.to_owned(),
    })
}
