//! `Bundle`: content from one source that is fetched once.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{limits, schema};
use crate::content;

/// The content to fetch, and its format. Immutable: create another Bundle for other content.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "Bundle",
    plural = "bundles",
    status = "BundleStatus",
    derive = "PartialEq",
    category = "rukpak",
    doc = "Content from one source, fetched once, checked and stored. BundleInstances create Bundles from their templates."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::bundle()))]
pub struct BundleSpec {
    /// The format of the content, which selects the provisioner: `core-rukpak-io-registry` for registry+v1 bundles
    /// (manifests/ with a ClusterServiceVersion, and metadata/), `core-rukpak-io-plain` for plain manifests.
    /// `core.rukpak.io/registry` and `core.rukpak.io/plain` are equivalent; `core.rukpak.io/converter` is an alias of the
    /// registry class.
    #[schemars(length(min = 1, max = limits::MAX_CLASS_LEN), regex(pattern = schema::CLASS))]
    pub provisioner_class_name: String,
    /// The source of the content.
    pub source: BundleSource,
}

/// The source of content: `type`, and the member of that name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = schema::one_of(schema::SOURCES)))]
pub struct BundleSource {
    /// The member that is set: `image`, `git`, `http`, `configMaps` or `upload`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = schema::SOURCES))]
    pub type_: String,
    /// An image in a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
    /// A directory of a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// An archive at a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// ConfigMaps of the system namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::CONFIG_MAPS))]
    pub config_maps: Option<Vec<ConfigMapSource>>,
    /// Content that a user uploads: `PUT /uploads/<bundle>.tgz` of the content service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadSource>,
}

/// An image in a registry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// The image: `quay.io/example/operator-bundle:v1.2.3`, or `…@sha256:…`. A tag is resolved once.
    #[serde(rename = "ref")]
    #[schemars(length(min = 1, max = limits::REFERENCE), regex(pattern = schema::WORD))]
    pub reference: String,
    /// A pull secret (`kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`) in the system namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = schema::NAME_OR_NONE))]
    pub pull_secret: Option<String>,
    /// Disables verification of the registry's certificate.
    #[serde(
        default,
        rename = "insecureSkipTLSVerify",
        skip_serializing_if = "is_false"
    )]
    pub insecure_skip_tls_verify: bool,
    /// CA certificates to trust for this image in addition to the usual ones, in PEM format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::CERTIFICATES))]
    pub certificate_data: Option<String>,
    /// Client that pulls the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullMode>,
}

/// The client that pulls the image: the provisioner (`Registry`), or a node that runs a `Job` in the system namespace, with
/// the node's mirrors and credentials. Defaults to the provisioner's flag `--image-pull`, which is `registry` by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullMode {
    /// The provisioner pulls the image.
    Registry,
    /// A node pulls the image, for a Job.
    Job,
}

/// A directory of a git repository.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    /// The URL to clone: `https://…`, `http://…`, `ssh://…` or `user@host:path`. Set credentials in `auth`.
    #[schemars(length(min = 1, max = limits::URL), regex(pattern = schema::WORD))]
    pub repository: String,
    /// The path of the bundle's root directory in the repository; the repository's root if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PATH))]
    pub directory: Option<String>,
    /// The revision to fetch: exactly one of branch, tag and commit.
    #[serde(rename = "ref")]
    pub reference: GitRef,
    /// The credentials for the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Authorization>,
}

/// A reference to a commit: exactly one of branch, tag and commit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = schema::one_of(&["branch", "commit", "tag"])))]
pub struct GitRef {
    /// A branch. Its commit is resolved once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::GIT_REF), regex(pattern = schema::WORD))]
    pub branch: Option<String>,
    /// A tag. Its commit is resolved once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::GIT_REF), regex(pattern = schema::WORD))]
    pub tag: Option<String>,
    /// A commit, as a full hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
}

/// An archive at a URL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// The URL: `https://…` or `http://…`. Set credentials in `auth`.
    #[schemars(length(max = limits::URL), regex(pattern = schema::HTTP_URL))]
    pub url: String,
    /// The credentials for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Authorization>,
}

/// Credentials, and verification of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// A Secret in the system namespace: `username` and `password`, or `ssh-privatekey` and `ssh-knownhosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretName>,
    /// Disables verification of the server's identity.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure_skip_verify: bool,
}

/// The name of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretName {
    /// The name of the Secret; empty means none, as in rukpak.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = schema::NAME_OR_NONE))]
    pub name: String,
}

/// Files from one ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::config_map()))]
pub struct ConfigMapSource {
    /// The ConfigMap, in the system namespace. It must be immutable.
    pub config_map: ConfigMapName,
    /// The directory of the bundle for the keys: `manifests`; the bundle's root if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PATH))]
    pub path: Option<String>,
}

/// The name of a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapName {
    /// The name of the ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::NAME))]
    pub name: String,
}

/// Content that a user sends to the provisioner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UploadSource {
    /// Content digest that the upload must have, as printed by `rukpak unpack` and recorded in `status.contentDigest`:
    /// `sha256:…`. The provisioner rejects other content. If unset, the first upload decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD), regex(pattern = schema::DIGEST))]
    pub digest: Option<String>,
}

/// The progress of a Bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The fetch has not started.
    Pending,
    /// The content is being fetched.
    Unpacking,
    /// The last attempt failed; the provisioner retries.
    Failing,
    /// The content is stored.
    Unpacked,
}

/// Observed state of the Bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    /// The progress in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The source, pinned to a digest or commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<BundleSource>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Unpacked`; also `Stalled` while the content or the spec is at fault, and `ContentAvailable` while content is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The URL to download the content.
    #[serde(
        default,
        rename = "contentURL",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = limits::URL))]
    pub content_url: Option<String>,
    /// The SHA-256 of the content's deterministic tar: `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub content_digest: Option<String>,
    /// Entries of the source that are not part of the content because they are not regular files. The bundle does not
    /// need them: such an entry among the manifests or the metadata fails the Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<SkippedEntries>,
    /// The bundle info of the content.
    #[serde(flatten)]
    pub facts: BundleInfo,
}

/// Entries of a source that were skipped because they are not regular files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedEntries {
    /// The number of symbolic links.
    pub symlinks: i64,
    /// The number of hard links to files that the archive does not contain.
    pub hard_links: i64,
    /// The number of devices, FIFOs and sockets.
    pub special: i64,
    /// The number of sparse files of an archive.
    pub sparse_files: i64,
    /// The first paths, truncated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::SKIPPED_PATHS), inner(length(max = limits::LINE)))]
    pub paths: Vec<String>,
}

impl fmt::Display for SkippedEntries {
    /// Formats counts and paths: `2 symbolic links (docs/a, docs/b)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: i64| usize::try_from(number).unwrap_or_default();
        let skipped = content::SkippedEntries {
            symlinks: number(self.symlinks),
            hard_links: number(self.hard_links),
            special: number(self.special),
            sparse_files: number(self.sparse_files),
            paths: self.paths.clone(),
        };
        skipped.fmt(f)
    }
}

impl SkippedEntries {
    /// Returns the value for a status, or `None` if no entries were skipped.
    pub fn new(skipped: &content::SkippedEntries) -> Option<Self> {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        (!skipped.is_empty()).then(|| Self {
            symlinks: number(skipped.symlinks),
            hard_links: number(skipped.hard_links),
            special: number(skipped.special),
            sparse_files: number(skipped.sparse_files),
            paths: skipped.paths.clone(),
        })
    }
}

/// Bundle info of registry+v1 content, in the status of Bundles and BundleInstances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleInfo {
    /// The package name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub package: Option<String>,
    /// The version of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub version: Option<String>,
    /// The name of the ClusterServiceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub cluster_service_version: Option<String>,
    /// The newest supported OpenShift release, as the bundle declares it: `4.12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub max_open_shift_version: Option<String>,
    /// The oldest supported Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub min_kube_version: Option<String>,
    /// Other requirements: packages (`etcd >=0.9.0`) and APIs (`EtcdCluster etcd.database.coreos.com/v1beta2`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LINES), inner(length(max = limits::LINE)))]
    pub requires: Vec<String>,
    /// The APIs of the bundle: `EtcdCluster etcd.database.coreos.com/v1beta2`.
    #[serde(
        default,
        rename = "providedAPIs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = limits::LINES), inner(length(max = limits::LINE)))]
    pub provided_apis: Vec<String>,
    /// The result of the conversion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversion: Option<ConversionSummary>,
}

/// Summary of a conversion report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversionSummary {
    /// The number of objects.
    pub objects: i64,
    /// The number of changes.
    pub changes: i64,
    /// The number of warnings.
    pub warnings: i64,
    /// The first findings, warnings before changes, truncated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::FINDINGS), inner(length(max = limits::LINE)))]
    pub findings: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref)] // serde passes references
pub(super) fn is_false(value: &bool) -> bool {
    !*value
}
