//! OCI and Docker image documents: indexes, manifests and configurations. Pure; no I/O.
//!
//! The caller fetches the documents from a registry, a directory or an archive, and verifies their digests.
//!
//! The types of `oci-client` and `oci-spec` are used only for writing: they reject a document without a schema version, a
//! media type or a complete platform, and accept one that is a manifest and an index.
//!
//! ```
//! use unpacker::oci::{Document, Index};
//! let index = br#"{"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json",
//!     "digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "size": 7,
//!     "platform": {"os": "linux", "architecture": "arm64"}}]}"#;
//! let Document::Index(index) = Document::read(index, None)? else { panic!("this is an index") };
//! assert_eq!(index.choose(None)?.size, 7);
//! assert!(index.choose(Some("linux/s390x")).is_err());
//! # Ok::<(), unpacker::oci::Error>(())
//! ```

mod error;
mod labels;

use std::collections::BTreeMap;

use manifests::object::is_unprintable;
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE as DOCKER_INDEX, IMAGE_MANIFEST_MEDIA_TYPE as DOCKER_MANIFEST,
    OCI_IMAGE_INDEX_MEDIA_TYPE as INDEX, OCI_IMAGE_MEDIA_TYPE as MANIFEST,
};
use serde::Deserialize;

use crate::Digest;

pub use error::Error;
pub use labels::{labels, select};

/// Maximum size of a document in bytes. Registries reject larger manifests, too.
pub const DOCUMENT_LIMIT: u64 = 4 << 20;

/// Maximum number of layers of an image. Docker allows at most 127.
pub const LAYERS_LIMIT: usize = 256;

/// Maximum number of nested indexes.
pub const DEPTH_LIMIT: usize = 4;

/// Media types of manifests and indexes, for the `Accept` header of a request.
pub const ACCEPTED: [&str; 4] = [MANIFEST, DOCKER_MANIFEST, INDEX, DOCKER_INDEX];

const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";

/// An image manifest or an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// A single image.
    Manifest(Manifest),
    /// Several images, usually one per platform.
    Index(Index),
}

/// The manifest of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Descriptor of the configuration, which contains the labels.
    pub config: Descriptor,
    /// Layers from the lowest to the topmost. Each is a tar archive, which may be compressed, or a file in an
    /// artifact.
    pub layers: Vec<Descriptor>,
    /// Artifact type; `None` for an image.
    pub artifact: Option<String>,
}

/// A list of images or of further indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Entries in their original order, including attestations and signatures.
    pub entries: Vec<Descriptor>,
}

/// A reference to a blob by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Media type of the blob.
    pub media_type: String,
    /// Digest of the blob.
    pub digest: Digest,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Platform that the image runs on: `os/architecture[/variant]`.
    pub platform: Option<String>,
    /// Annotations of the entry.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    #[serde(default)]
    schema_version: u64,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    artifact_type: Option<String>,
    #[serde(default)]
    config: Option<RawDescriptor>,
    #[serde(default)]
    layers: Option<Vec<RawDescriptor>>,
    #[serde(default)]
    manifests: Option<Vec<RawDescriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    urls: Option<Vec<String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    platform: Option<RawPlatform>,
}

#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

// === impl Document ===

impl Document {
    /// Parses a manifest or an index. `media_type` is that of the response or of the descriptor.
    ///
    /// # Errors
    /// Returns an error if the document is neither of both, is ambiguous, or describes an image that cannot be
    /// unpacked.
    pub fn read(bytes: &[u8], media_type: Option<&str>) -> Result<Self, Error> {
        if bytes.len() as u64 > DOCUMENT_LIMIT {
            return Err(Error::TooLarge);
        }
        // Parameters such as `; charset=utf-8` are irrelevant here.
        let declared = media_type
            .and_then(|text| text.split(';').next())
            .map(str::trim);
        if declared.is_some_and(|kind| kind.starts_with(SCHEMA_1)) {
            return Err(Error::Schema1);
        }
        let raw: RawDocument = json(bytes, "the manifest")?;
        if raw.schema_version == 1 {
            return Err(Error::Schema1);
        }
        let embedded = raw.media_type.as_deref();
        let is_known = |kind: &&str| ACCEPTED.contains(kind);
        if let (Some(declared), Some(embedded)) =
            (declared.filter(is_known), embedded.filter(is_known))
            && declared != embedded
        {
            return Err(Error::Ambiguous {
                one: excerpt(declared),
                other: excerpt(embedded),
            });
        }
        let kind = declared.filter(is_known).or(embedded).map(excerpt);
        match (raw.manifests, raw.config, raw.layers) {
            (Some(entries), None, None) => match kind.as_deref() {
                Some(MANIFEST | DOCKER_MANIFEST) => Err(Error::Ambiguous {
                    one: kind.unwrap_or_default(),
                    other: "an index".to_owned(),
                }),
                _ => Index::read(entries).map(Self::Index),
            },
            (None, Some(config), layers) => match kind.as_deref() {
                Some(INDEX | DOCKER_INDEX) => Err(Error::Ambiguous {
                    one: kind.unwrap_or_default(),
                    other: "a manifest".to_owned(),
                }),
                _ => Manifest::read(config, layers.unwrap_or_default(), raw.artifact_type)
                    .map(Self::Manifest),
            },
            // Different clients would interpret such a document differently.
            (Some(_), ..) => Err(Error::Ambiguous {
                one: "an index".to_owned(),
                other: "a manifest".to_owned(),
            }),
            (None, None, _) => Err(Error::NoManifest { kind }),
        }
    }
}

// === impl Manifest ===

impl Manifest {
    fn read(
        config: RawDescriptor,
        layers: Vec<RawDescriptor>,
        artifact: Option<String>,
    ) -> Result<Self, Error> {
        // Before version 1.1, the type of an artifact was the media type of its configuration.
        let kind = match artifact {
            Some(kind) if !kind.is_empty() => Some(kind),
            _ if is_image_config(&config.media_type) => None,
            _ => Some(config.media_type.clone()),
        };
        if layers.len() > LAYERS_LIMIT {
            return Err(Error::TooManyLayers {
                count: layers.len(),
            });
        }
        let layers = layers.into_iter().enumerate().map(|(number, layer)| {
            check_layer(number + 1, &layer, kind.as_deref())?;
            layer.check()
        });
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        if layers.is_empty() {
            return Err(Error::NoLayers);
        }
        Ok(Self {
            config: config.check()?,
            layers,
            artifact: kind,
        })
    }

    /// Returns the file name of a layer that is a single file, as pushed by ORAS.
    pub fn file<'a>(&self, layer: &'a Descriptor) -> Option<&'a str> {
        self.artifact.as_ref()?;
        file_name(Some(&layer.annotations))
    }

    /// Returns the transferred size of all layers in bytes.
    pub fn size(&self) -> u64 {
        let sizes = self.layers.iter().map(|layer| layer.size);
        sizes.fold(0, u64::saturating_add)
    }
}

fn is_image_config(media_type: &str) -> bool {
    matches!(
        media_type,
        "" | "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json"
            | "application/json"
            | "application/octet-stream"
    )
}

/// Returns the title of a layer if it names a file that is not an archive. ORAS pushes directories as tar archives
/// with the name of the directory.
fn file_name(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    let annotations = annotations?;
    let title = annotations.get("org.opencontainers.image.title")?;
    let is_folder = annotations
        .get("io.deis.oras.content.unpack")
        .is_some_and(|unpack| unpack == "true");
    let is_archive = [".tar", ".tgz", ".tar.gz"]
        .iter()
        .any(|end| title.ends_with(end));
    (!is_folder && !is_archive).then_some(title)
}

/// Verifies that a layer can be read, and that it is stored with the manifest.
fn check_layer(number: usize, layer: &RawDescriptor, artifact: Option<&str>) -> Result<(), Error> {
    let kind = layer.media_type.as_str();
    let has_urls = layer.urls.as_ref().is_some_and(|urls| !urls.is_empty());
    if has_urls || kind.contains(".foreign.") || kind.contains(".nondistributable.") {
        return Err(Error::NondistributableLayer { number });
    }
    let is_image_layer = [
        "application/vnd.oci.image.layer.",
        "application/vnd.docker.image.rootfs.diff.tar",
    ]
    .iter()
    .any(|prefix| kind.starts_with(prefix));
    let is_archive = [
        "application/tar",
        "application/x-tar",
        "application/gzip",
        "application/x-gzip",
    ]
    .iter()
    .any(|prefix| kind.starts_with(prefix));
    let is_file = is_archive || file_name(layer.annotations.as_ref()).is_some();
    let is_artifact_file = artifact.is_some() && is_file;
    if !(is_image_layer || is_artifact_file) {
        return Err(Error::NoFileSystem {
            number,
            kind: Some(excerpt(kind)),
            artifact: artifact.map(excerpt),
        });
    }
    Ok(())
}

// === impl Index ===

impl Index {
    fn read(entries: Vec<RawDescriptor>) -> Result<Self, Error> {
        let entries = entries.into_iter().map(RawDescriptor::check);
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the entry for a platform, `os/architecture[/variant]`. The default is `linux/amd64`, or else the first
    /// entry: bundles are the same for all platforms, and all machines should select the same entry.
    ///
    /// # Errors
    /// Returns an error if no entry matches.
    pub fn choose(&self, platform: Option<&str>) -> Result<&Descriptor, Error> {
        let images = || self.entries.iter().filter(|entry| !entry.is_attestation());
        let runs_on = |requested: &str| {
            images().find(|entry| {
                let platform = entry.platform.as_deref();
                platform.is_some_and(|platform| matches_platform(platform, requested))
            })
        };
        let selected = match platform {
            Some(requested) => {
                let only_one_without = || match images().collect::<Vec<_>>().as_slice() {
                    [one] if one.platform.is_none() => Some(*one),
                    _ => None,
                };
                runs_on(requested).or_else(only_one_without)
            }
            None => runs_on("linux/amd64").or_else(|| images().next()),
        };
        selected.ok_or_else(|| {
            let platforms: Vec<_> = images()
                .map(|entry| entry.platform.as_deref().map_or("any".to_owned(), excerpt))
                .take(20)
                .collect();
            match platform {
                Some(requested) => Error::NoPlatform {
                    wanted: excerpt(requested),
                    known: Some(platforms.join(", ")),
                },
                None => Error::NoImage,
            }
        })
    }
}

/// Reports whether a platform matches the requested one. Variants are compared only if both have one.
fn matches_platform(platform: &str, requested: &str) -> bool {
    let split = |text: &str| -> (String, Option<String>) {
        let mut parts = text.splitn(3, '/');
        let base = format!(
            "{}/{}",
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default()
        );
        (base, parts.next().map(str::to_owned))
    };
    let ((base, variant), (requested, requested_variant)) = (split(platform), split(requested));
    let same_variant = match (variant, requested_variant) {
        (Some(variant), Some(requested)) => variant == requested,
        _ => true,
    };
    base == requested && same_variant
}

// === impl Descriptor ===

impl RawDescriptor {
    fn check(self) -> Result<Descriptor, Error> {
        let digest = self
            .digest
            .parse()
            .map_err(|error| Error::Digest(Some(error)))?;
        let platform = self
            .platform
            .filter(|platform| !platform.os.is_empty())
            .map(
                |RawPlatform {
                     os,
                     architecture,
                     variant,
                 }| match variant.filter(|variant| !variant.is_empty()) {
                    Some(variant) => format!("{os}/{architecture}/{variant}"),
                    None => format!("{os}/{architecture}"),
                },
            );
        Ok(Descriptor {
            media_type: self.media_type,
            digest,
            size: self.size,
            platform,
            annotations: self.annotations.unwrap_or_default(),
        })
    }
}

impl Descriptor {
    /// Reports whether the descriptor refers to an index.
    pub fn is_index(&self) -> bool {
        matches!(self.media_type.as_str(), INDEX | DOCKER_INDEX)
    }

    /// Reports whether the entry is an attestation of another entry, as added by `docker buildx`.
    pub fn is_attestation(&self) -> bool {
        self.annotations.contains_key("vnd.docker.reference.type")
            || self.platform.as_deref() == Some("unknown/unknown")
    }
}

/// Parses a JSON object. The error truncates the text of the parser.
pub(crate) fn json<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    document: &'static str,
) -> Result<T, Error> {
    let failed = |problem: &str| Error::Json {
        what: document,
        problem: Some(excerpt(problem)),
    };
    // Serde also accepts a list of the values of the fields.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(failed("it does not start with \"{\""));
    }
    serde_json::from_slice(bytes).map_err(|error| failed(&error.to_string()))
}

/// Truncates an untrusted text for messages, and removes characters that change its display.
pub(crate) fn excerpt(text: &str) -> String {
    let printable = text.chars().filter(|c| !is_unprintable(*c)).take(120);
    printable.collect()
}

#[cfg(test)]
mod tests;
