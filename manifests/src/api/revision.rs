//! The details that a revision records beside its objects.

use serde::{Deserialize, Serialize};

use super::{
    bundle::{BundleInfo, BundleSource},
    bundle_instance::InstalledBundle,
};

/// The origin of the objects of a revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionDetails {
    /// The Bundle that the objects were rendered from.
    pub bundle: InstalledBundle,
    /// The hash of the template of that Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,
    /// The source of that Bundle, pinned to a digest or commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BundleSource>,
    /// The bundle info: package, version, constraints, provided APIs.
    #[serde(default)]
    pub facts: BundleInfo,
    /// The key of the inputs: a digest of the content and of everything else that shapes the objects, or the earlier
    /// revision that has the objects. An interrupted rollout with the same key requires no content. `None`: an older
    /// provisioner recorded the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The version of the provisioner that rendered the objects.
    pub provisioner: String,
    /// The version of Kubernetes that the objects were rendered for, such as `1.36`.
    pub kubernetes: String,
}
