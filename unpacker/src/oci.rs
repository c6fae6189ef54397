//! The documents that describe an image: indexes, manifests and configurations, as OCI and Docker write them.
//!
//! Everything here is a function of bytes. Where they come from, and that they have the digest that was asked for, is
//! the business of whoever reads a registry, a folder or an archive.
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

/// What one document may have in bytes. Registries refuse larger manifests themselves.
pub const DOCUMENT_LIMIT: u64 = 4 << 20;

/// The layers that one image may have. Docker refuses more than 127.
pub const LAYERS_LIMIT: usize = 256;

/// How many indexes may stand one in the other.
pub const DEPTH_LIMIT: usize = 4;

/// The media types of manifests and indexes, for a request's `Accept`.
pub const ACCEPTED: [&str; 4] = [MANIFEST, DOCKER_MANIFEST, INDEX, DOCKER_INDEX];

const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";

/// An image, or a choice of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// One image.
    Manifest(Manifest),
    /// Several, usually one for each platform.
    Index(Index),
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Where its labels are.
    pub config: Descriptor,
    /// From the lowest to the topmost; each a tar, which may be compressed, or in an artifact a file.
    pub layers: Vec<Descriptor>,
    /// Its type, if it is an artifact and no image.
    pub artifact: Option<String>,
}

/// Several images, or indexes of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// As they stand there, attestations and signatures included.
    pub entries: Vec<Descriptor>,
}

/// Names a blob by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The number of its bytes.
    pub size: u64,
    /// On what it runs: `os/architecture[/variant]`.
    pub platform: Option<String>,
    /// What else is said about it.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
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
    /// Reads a manifest or an index. The media type is that of the response or the descriptor, if there was one.
    ///
    /// # Errors
    /// When the bytes are neither, could be read as both, or describe an image that cannot be unpacked.
    pub fn read(bytes: &[u8], media_type: Option<&str>) -> Result<Self, Error> {
        if bytes.len() as u64 > DOCUMENT_LIMIT {
            return Err(Error::TooLarge);
        }
        // Parameters, as in `; charset=utf-8`, say nothing here.
        let said = media_type
            .and_then(|text| text.split(';').next())
            .map(str::trim);
        if said.is_some_and(|said| said.starts_with(SCHEMA_1)) {
            return Err(Error::Schema1);
        }
        let raw: Raw = json(bytes, "the manifest")?;
        if raw.schema_version == 1 {
            return Err(Error::Schema1);
        }
        let own = raw.media_type.as_deref();
        let known = |kind: &&str| ACCEPTED.contains(kind);
        if let (Some(said), Some(own)) = (said.filter(known), own.filter(known))
            && said != own
        {
            return Err(Error::Ambiguous {
                one: excerpt(said),
                other: excerpt(own),
            });
        }
        let kind = said.filter(known).or(own).map(excerpt);
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
            // One reader would take the one, another the other.
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
        // Before version 1.1 an artifact had its type as that of the configuration.
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

    /// The name of a layer that is a single file, as ORAS pushes it.
    pub fn file<'a>(&self, layer: &'a Descriptor) -> Option<&'a str> {
        self.artifact.as_ref()?;
        file_name(Some(&layer.annotations))
    }

    /// The bytes of all layers, as they are transferred.
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

/// The title of a layer, if that names a file and no archive. ORAS pushes folders as tars with their name.
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

/// Whether the layer can be read, and is in the same place as the manifest.
fn check_layer(number: usize, layer: &RawDescriptor, artifact: Option<&str>) -> Result<(), Error> {
    let kind = layer.media_type.as_str();
    let has_urls = layer.urls.as_ref().is_some_and(|urls| !urls.is_empty());
    if has_urls || kind.contains(".foreign.") || kind.contains(".nondistributable.") {
        return Err(Error::Foreign { number });
    }
    let of_image = [
        "application/vnd.oci.image.layer.",
        "application/vnd.docker.image.rootfs.diff.tar",
    ]
    .iter()
    .any(|known| kind.starts_with(known));
    let is_archive = [
        "application/tar",
        "application/x-tar",
        "application/gzip",
        "application/x-gzip",
    ]
    .iter()
    .any(|known| kind.starts_with(known));
    let is_file = is_archive || file_name(layer.annotations.as_ref()).is_some();
    let of_artifact = artifact.is_some() && is_file;
    if !(of_image || of_artifact) {
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

    /// The entry for a platform, `os/architecture[/variant]`. Without one it is that for `linux/amd64`, else the
    /// first: bundles are the same for all platforms, and every machine should take the same.
    ///
    /// # Errors
    /// When there is none.
    pub fn choose(&self, platform: Option<&str>) -> Result<&Descriptor, Error> {
        let images = || self.entries.iter().filter(|entry| !entry.is_attestation());
        let runs_on = |wanted: &str| {
            images().find(|entry| {
                let platform = entry.platform.as_deref();
                platform.is_some_and(|platform| fits(platform, wanted))
            })
        };
        let chosen = match platform {
            Some(wanted) => {
                let only_one_without = || match images().collect::<Vec<_>>().as_slice() {
                    [one] if one.platform.is_none() => Some(*one),
                    _ => None,
                };
                runs_on(wanted).or_else(only_one_without)
            }
            None => runs_on("linux/amd64").or_else(|| images().next()),
        };
        chosen.ok_or_else(|| {
            let known: Vec<_> = images()
                .map(|entry| entry.platform.as_deref().map_or("any".to_owned(), excerpt))
                .take(20)
                .collect();
            match platform {
                Some(wanted) => Error::NoPlatform {
                    wanted: excerpt(wanted),
                    known: Some(known.join(", ")),
                },
                None => Error::NoImage,
            }
        })
    }
}

/// Whether `os/architecture/variant` is what is wanted; a variant counts only if both name one.
fn fits(platform: &str, wanted: &str) -> bool {
    let split = |text: &str| -> (String, Option<String>) {
        let mut parts = text.splitn(3, '/');
        let base = format!(
            "{}/{}",
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default()
        );
        (base, parts.next().map(str::to_owned))
    };
    let ((base, variant), (wanted, wanted_variant)) = (split(platform), split(wanted));
    let same_variant = match (variant, wanted_variant) {
        (Some(variant), Some(wanted)) => variant == wanted,
        _ => true,
    };
    base == wanted && same_variant
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
    /// Whether an index is behind it.
    pub fn is_index(&self) -> bool {
        matches!(self.media_type.as_str(), INDEX | DOCKER_INDEX)
    }

    /// Whether it is a statement about another entry, as `docker buildx` adds them.
    pub fn is_attestation(&self) -> bool {
        self.annotations.contains_key("vnd.docker.reference.type")
            || self.platform.as_deref() == Some("unknown/unknown")
    }
}

/// Reads JSON, and says where it ends to be any without repeating what it holds.
pub(crate) fn json<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    what: &'static str,
) -> Result<T, Error> {
    let failed = |problem: &str| Error::Json {
        what,
        problem: Some(excerpt(problem)),
    };
    // Serde would take a list of the fields' values, too.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(failed("it does not start with \"{\""));
    }
    serde_json::from_slice(bytes).map_err(|error| failed(&error.to_string()))
}

/// A text of strangers for messages: short, and without what changes how the rest is shown.
pub(crate) fn excerpt(text: &str) -> String {
    let shown = text.chars().filter(|c| !is_unprintable(*c)).take(120);
    shown.collect()
}

#[cfg(test)]
mod tests;
