//! Configuration of image pulls on OpenShift, reduced to the fields that are read here: mirrors, CAs, blocked and allowed
//! registries, and proxies. The CRDs belong to the cluster.
//!
//! ```
//! use manifests::api::pulling::ImageDigestMirrorSetSpec;
//!
//! let spec = r#"{"imageDigestMirrors": [{"source": "quay.io/org", "mirrors": ["mirror.example/org"]}]}"#;
//! let spec: ImageDigestMirrorSetSpec = serde_json::from_str(spec)?;
//! assert_eq!(spec.image_digest_mirrors[0].mirrors, ["mirror.example/org"]);
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::Deserialize;

/// Namespace of the configuration of an OpenShift cluster.
pub const CONFIG_NAMESPACE: &str = "openshift-config";
/// Name of singleton configuration objects.
pub const CLUSTER: &str = "cluster";
/// Name of the Secret in [`CONFIG_NAMESPACE`] that all nodes use for pulls.
pub const PULL_SECRET: &str = "pull-secret";
/// Key of a ConfigMap with CAs for all hosts.
pub const CA_BUNDLE: &str = "ca-bundle.crt";

/// Spec of an `ImageDigestMirrorSet` (`config.openshift.io/v1`): mirrors for images that are referenced by digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageDigestMirrorSetSpec {
    /// Mirrors by source; a source may have several entries.
    pub image_digest_mirrors: Vec<MirrorSet>,
}

/// Spec of an `ImageTagMirrorSet` (`config.openshift.io/v1`): mirrors for images that are referenced by tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageTagMirrorSetSpec {
    /// Mirrors by source; a source may have several entries.
    pub image_tag_mirrors: Vec<MirrorSet>,
}

/// Spec of an `ImageContentSourcePolicy` (`operator.openshift.io/v1alpha1`), the predecessor of the mirror sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageContentSourcePolicySpec {
    /// Mirrors by source; a source may have several entries.
    pub repository_digest_mirrors: Vec<MirrorSet>,
}

/// Mirrors of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MirrorSet {
    /// The source: `host[:port][/path]`, or `*.host`.
    pub source: String,
    /// The mirrors, in the order in which they are contacted.
    pub mirrors: Vec<String>,
    /// Whether the source is contacted if no mirror has the image.
    pub mirror_source_policy: Option<MirrorSourcePolicy>,
}

/// Whether the source is contacted if no mirror has the image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum MirrorSourcePolicy {
    /// The source is contacted.
    #[default]
    AllowContactingSource,
    /// The source is never contacted.
    NeverContactSource,
}

/// Spec of an `Image` (`config.openshift.io/v1`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageSpec {
    /// ConfigMap with a CA for each registry: key `host` or `host..port`, value PEM.
    #[serde(rename = "additionalTrustedCA")]
    pub additional_trusted_ca: ConfigMapName,
    /// Policies for registries.
    pub registry_sources: RegistrySources,
}

/// Policies for registries. Each entry is `host[:port][/path]`, an image with its tag or digest, or `*.host`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RegistrySources {
    /// Registries whose certificates are not verified, and which may use plain HTTP.
    pub insecure_registries: Vec<String>,
    /// Registries from which pulls are forbidden.
    pub blocked_registries: Vec<String>,
    /// If not empty, the only registries from which pulls are allowed.
    pub allowed_registries: Vec<String>,
}

/// Spec of a `Proxy` (`config.openshift.io/v1`): the configuration by the admin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProxySpec {
    /// ConfigMap with CAs for all hosts, in the key [`CA_BUNDLE`].
    #[serde(rename = "trustedCA")]
    pub trusted_ca: ConfigMapName,
}

/// Status of a `Proxy` (`config.openshift.io/v1`): the effective configuration, with additions of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProxyStatus {
    /// Proxy for HTTP requests.
    pub http_proxy: String,
    /// Proxy for HTTPS requests.
    pub https_proxy: String,
    /// Hosts, domains and networks that bypass the proxies, separated by commas.
    pub no_proxy: String,
}

/// Reference to a ConfigMap in [`CONFIG_NAMESPACE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConfigMapName {
    /// Name of the ConfigMap, or empty for none.
    pub name: String,
}
