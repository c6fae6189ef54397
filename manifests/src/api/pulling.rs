//! What OpenShift says about pulling images, as far as it is read here: mirrors, authorities, registries that are blocked
//! or allowed, and proxies. The definitions are the cluster's own.
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

/// The namespace of what an OpenShift cluster is configured by.
pub const CONFIG_NAMESPACE: &str = "openshift-config";
/// The name of the objects of which there is one.
pub const CLUSTER: &str = "cluster";
/// The Secret in [`CONFIG_NAMESPACE`] that all nodes pull with.
pub const PULL_SECRET: &str = "pull-secret";
/// The key of a ConfigMap with authorities for everything.
pub const CA_BUNDLE: &str = "ca-bundle.crt";

/// Of `config.openshift.io/v1` `ImageDigestMirrorSet`: mirrors for images that a digest names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageDigestMirrorSetSpec {
    /// One for each source, or several.
    pub image_digest_mirrors: Vec<MirrorSet>,
}

/// Of `config.openshift.io/v1` `ImageTagMirrorSet`: mirrors for images that a tag names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageTagMirrorSetSpec {
    /// One for each source, or several.
    pub image_tag_mirrors: Vec<MirrorSet>,
}

/// Of `operator.openshift.io/v1alpha1` `ImageContentSourcePolicy`, which was there before the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageContentSourcePolicySpec {
    /// One for each source, or several.
    pub repository_digest_mirrors: Vec<MirrorSet>,
}

/// Where else the content of a source is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MirrorSet {
    /// `host[:port][/path]`, or `*.host`.
    pub source: String,
    /// In the order in which they are asked.
    pub mirrors: Vec<String>,
    /// Whether the source is asked when no mirror has the image.
    pub mirror_source_policy: Option<MirrorSourcePolicy>,
}

/// Whether the source is asked when no mirror has the image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum MirrorSourcePolicy {
    /// It is.
    #[default]
    AllowContactingSource,
    /// It is not.
    NeverContactSource,
}

/// Of `config.openshift.io/v1` `Image`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageSpec {
    /// A ConfigMap with an authority for each registry: `host` or `host..port`, and PEM.
    #[serde(rename = "additionalTrustedCA")]
    pub additional_trusted_ca: ConfigMapName,
    /// How registries are dealt with.
    pub registry_sources: RegistrySources,
}

/// How registries are dealt with. Each is `host[:port][/path]`, an image with its tag or digest, or `*.host`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RegistrySources {
    /// They need not prove who they are, and may speak plain HTTP.
    pub insecure_registries: Vec<String>,
    /// Nothing is pulled from them.
    pub blocked_registries: Vec<String>,
    /// If there are any, nothing is pulled from others.
    pub allowed_registries: Vec<String>,
}

/// Of `config.openshift.io/v1` `Proxy`: what the admin wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProxySpec {
    /// A ConfigMap with authorities for everything, under [`CA_BUNDLE`].
    #[serde(rename = "trustedCA")]
    pub trusted_ca: ConfigMapName,
}

/// Of `config.openshift.io/v1` `Proxy`: what holds, with what the cluster adds to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProxyStatus {
    /// The proxy for plain requests.
    pub http_proxy: String,
    /// The proxy for encrypted requests.
    pub https_proxy: String,
    /// Hosts, domains and networks that are reached without them, with commas between.
    pub no_proxy: String,
}

/// A ConfigMap of [`CONFIG_NAMESPACE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConfigMapName {
    /// Empty if there is none.
    pub name: String,
}
