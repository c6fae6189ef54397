//! `Bundle`: content from one source, fetched once.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{bounds, schema};
use crate::content;

/// Which content to fetch, and how it is to be read. It cannot be changed: other content is another Bundle.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "Bundle",
    plural = "bundles",
    status = "BundleStatus",
    derive = "PartialEq",
    category = "rukpak",
    doc = "Content from one source, fetched once, checked and kept. BundleInstances make Bundles from their templates."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::bundle()))]
pub struct BundleSpec {
    /// Who acts on this Bundle, and which format its content has: `core-rukpak-io-registry` for registry+v1 bundles
    /// (manifests/ with a ClusterServiceVersion, and metadata/), `core-rukpak-io-plain` for plain manifests.
    /// `core.rukpak.io/registry` and `core.rukpak.io/plain` mean the same; `core.rukpak.io/converter` is an alias of the
    /// registry class.
    #[schemars(length(min = 1, max = bounds::CLASS), regex(pattern = schema::CLASS))]
    pub provisioner_class_name: String,
    /// Where the content comes from.
    pub source: BundleSource,
}

/// Where content comes from: `type`, and the member of that name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = schema::one_of(schema::SOURCES)))]
pub struct BundleSource {
    /// Which member says where: `image`, `git`, `http`, `configMaps` or `upload`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = schema::SOURCES))]
    pub type_: String,
    /// An image in a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
    /// A folder of a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// An archive behind a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// ConfigMaps of the system namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = bounds::CONFIG_MAPS))]
    pub config_maps: Option<Vec<ConfigMapSource>>,
    /// Content that is sent to the provisioner: `PUT /uploads/<bundle>.tgz` of its content service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadSource>,
}

/// An image in a registry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// The image: `quay.io/example/operator-bundle:v1.2.3`, or `…@sha256:…`. A tag is resolved once.
    #[serde(rename = "ref")]
    #[schemars(length(min = 1, max = bounds::REFERENCE), regex(pattern = schema::WORD))]
    pub reference: String,
    /// A pull secret (`kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`) in the system namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = schema::NAME_OR_NONE))]
    pub pull_secret: Option<String>,
    /// Whether the registry need not prove who it is.
    #[serde(
        default,
        rename = "insecureSkipTLSVerify",
        skip_serializing_if = "is_false"
    )]
    pub insecure_skip_tls_verify: bool,
    /// Certificates of authorities to believe besides those that the provisioner knows, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::CERTIFICATES))]
    pub certificate_data: Option<String>,
    /// Who pulls the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<Pull>,
}

/// Who pulls the image: the provisioner from the `Registry`, or a node, in a `Job` of the system namespace, with its own
/// mirrors and credentials. By default what the provisioner's flag `--image-pull` says, which by default is `registry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Pull {
    /// The provisioner.
    Registry,
    /// A node, in a Job.
    Job,
}

/// A folder of a git repository.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    /// Where to clone from: `https://…`, `http://…`, `ssh://…` or `user@host:path`; credentials belong in `auth`.
    #[schemars(length(min = 1, max = bounds::URL), regex(pattern = schema::WORD))]
    pub repository: String,
    /// The folder that is the bundle's root, within the repository; the repository's root if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::PATH))]
    pub directory: Option<String>,
    /// What to take: exactly one of branch, tag and commit.
    #[serde(rename = "ref")]
    pub reference: GitRef,
    /// How to prove who we are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Authorization>,
}

/// What names a commit: exactly one of branch, tag and commit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = schema::one_of(&["branch", "commit", "tag"])))]
pub struct GitRef {
    /// A branch. Its commit is resolved once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = bounds::GIT_REF), regex(pattern = schema::WORD))]
    pub branch: Option<String>,
    /// A tag. Its commit is resolved once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = bounds::GIT_REF), regex(pattern = schema::WORD))]
    pub tag: Option<String>,
    /// A commit, by all digits of its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
}

/// An archive behind a URL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// Where: `https://…` or `http://…`; credentials belong in `auth`.
    #[schemars(length(max = bounds::URL), regex(pattern = schema::HTTP_URL))]
    pub url: String,
    /// How to prove who we are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Authorization>,
}

/// How to prove who we are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// A Secret in the system namespace: `username` and `password`, or `ssh-privatekey` and `ssh-knownhosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretName>,
    /// Whether the server need not prove who it is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure_skip_verify: bool,
}

/// The name of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretName {
    /// Its name; rukpak's objects may have it empty, which means none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = schema::NAME_OR_NONE))]
    pub name: String,
}

/// Files from one ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::config_map()))]
pub struct ConfigMapSource {
    /// Which ConfigMap of the system namespace. It has to be immutable.
    pub config_map: ConfigMapName,
    /// The folder of the bundle that its keys belong in: `manifests`; the root if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::PATH))]
    pub path: Option<String>,
}

/// The name of a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapName {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::NAME))]
    pub name: String,
}

/// Content that a user sends to the provisioner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UploadSource {
    /// Content digest that the upload must have, as `rukpak unpack` prints it and as `status.contentDigest` has it:
    /// `sha256:…`. The provisioner rejects other content. Without it, the first upload decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD), regex(pattern = schema::DIGEST))]
    pub digest: Option<String>,
}

/// How far a Bundle has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Waiting.
    Pending,
    /// Fetching.
    Unpacking,
    /// Something is wrong; tried again.
    Failing,
    /// The content is stored.
    Unpacked,
}

/// What has become of a Bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    /// In one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The source in its immutable form: a digest, a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<BundleSource>,
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Unpacked`; also `Stalled` while the content or the spec is at fault, and `ContentAvailable` while content is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the content can be had.
    #[serde(
        default,
        rename = "contentURL",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = bounds::URL))]
    pub content_url: Option<String>,
    /// The SHA-256 of the content's deterministic tar: `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub content_digest: Option<String>,
    /// Entries of the source that are not part of the content because they are not regular files. The bundle does not
    /// need them: such an entry among the manifests or the metadata fails the Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<SkippedEntries>,
    /// What the content says of itself.
    #[serde(flatten)]
    pub facts: Facts,
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
    /// The first paths, shortened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::SKIPPED_PATHS), inner(length(max = bounds::LINE)))]
    pub paths: Vec<String>,
}

impl fmt::Display for SkippedEntries {
    /// Lists numbers and paths: `2 symbolic links (docs/a, docs/b)`.
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
    /// Returns what a status has of these entries: nothing if none were skipped.
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

/// What registry+v1 content says of itself; shared by Bundle and BundleInstance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub package: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub version: Option<String>,
    /// The name of its ClusterServiceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub cluster_service_version: Option<String>,
    /// The newest OpenShift release it runs on: `4.12`, as the bundle wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub max_open_shift_version: Option<String>,
    /// The oldest Kubernetes it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub min_kube_version: Option<String>,
    /// What else it needs: packages (`etcd >=0.9.0`) and APIs (`EtcdCluster etcd.database.coreos.com/v1beta2`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::LINES), inner(length(max = bounds::LINE)))]
    pub requires: Vec<String>,
    /// The APIs it brings: `EtcdCluster etcd.database.coreos.com/v1beta2`.
    #[serde(
        default,
        rename = "providedAPIs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = bounds::LINES), inner(length(max = bounds::LINE)))]
    pub provided_apis: Vec<String>,
    /// What the conversion had to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversion: Option<ConversionSummary>,
}

/// The report of a conversion in short.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversionSummary {
    /// How many objects came out.
    pub objects: i64,
    /// How many places were changed.
    pub changes: i64,
    /// How many warnings there were.
    pub warnings: i64,
    /// The first of them, warnings before changes, shortened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FINDINGS), inner(length(max = bounds::LINE)))]
    pub findings: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref)] // serde passes references
pub(super) fn is_false(value: &bool) -> bool {
    !*value
}
