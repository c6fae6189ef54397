//! Errors in image documents.

use super::{DOCUMENT_LIMIT, LAYERS_LIMIT};
use crate::ParseDigestError;

/// An error in a document that describes an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The manifest exceeds the size limit.
    #[error(
        "the manifest is larger than {DOCUMENT_LIMIT} bytes; check that the reference names an image"
    )]
    TooLarge,
    /// The document is not JSON, or has unexpected fields.
    #[error(
        "{what} is malformed{}; check that the reference names an image",
        problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"))
    )]
    Json {
        /// Kind of the document.
        what: &'static str,
        /// Error of the parser, which may repeat values; `None` where remote texts are withheld.
        problem: Option<String>,
    },
    /// The manifest has schema 1, which is not addressed by digests.
    #[error("the image has a manifest of the outdated schema 1; push it again with a current tool")]
    Schema1,
    /// Different clients would interpret the document differently.
    #[error(
        "the manifest declares {one}, but is {other}; push the image again with a current tool"
    )]
    Ambiguous {
        /// Type that is declared.
        one: String,
        /// Actual or other declared type.
        other: String,
    },
    /// The document is neither a manifest nor an index.
    #[error(
        "the document is neither a manifest nor an index{}; check that the reference names an image",
        kind.as_ref().map_or(String::new(), |kind| format!(", but {kind:?}"))
    )]
    NoManifest {
        /// Media type that the document states; `None` if it states none, and where remote texts are withheld.
        kind: Option<String>,
    },
    /// A digest is malformed, or uses another algorithm.
    #[error(
        "the manifest refers to a blob by an unsupported digest; push the image again with a current tool"
    )]
    Digest(#[source] Option<ParseDigestError>),
    /// The image exceeds the limit for layers.
    #[error(
        "the image has {count} layers, more than the limit of {LAYERS_LIMIT}; build it with fewer steps, or squash it"
    )]
    TooManyLayers {
        /// Number of layers.
        count: usize,
    },
    /// The image has no layers.
    #[error("the image has no layers and therefore no files; copy the bundle into it")]
    NoLayers,
    /// A layer is not stored with the image.
    #[error(
        "layer {number} is foreign: its content is not stored with the image; build the bundle from scratch, or from a distributable base image"
    )]
    NondistributableLayer {
        /// Number of the layer, starting with 1 for the lowest.
        number: usize,
    },
    /// A layer is not a tar archive: the image is an artifact of another kind.
    #[error(
        "layer {number} is {}{}, not a file system; publish the bundle as an image",
        kind.as_ref().map_or("of another type".to_owned(), |kind| format!("{kind:?}")),
        artifact.as_ref().map_or(String::new(), |artifact| format!(" of an artifact {artifact:?}"))
    )]
    NoFileSystem {
        /// Number of the layer, starting with 1 for the lowest.
        number: usize,
        /// Media type of the layer; `None` where remote texts are withheld.
        kind: Option<String>,
        /// Type of the artifact; `None` for images, and where remote texts are withheld.
        artifact: Option<String>,
    },
    /// The index has no image for the requested platform.
    #[error(
        "the index has no image for {wanted:?}; choose {}",
        known.as_ref().map_or("another platform".to_owned(), |known| format!("one of: {known}"))
    )]
    NoPlatform {
        /// Platform as requested.
        wanted: String,
        /// Platforms of the index; `None` where remote texts are withheld.
        known: Option<String>,
    },
    /// The index contains no image, or only attestations.
    #[error("the index has no image; push one")]
    NoImage,
    /// Indexes are nested too deeply.
    #[error("the indexes are nested too deeply; use the digest of an image in them")]
    TooDeep,
    /// A label does not name a directory.
    #[error(
        "label {label} names {}, which is not a directory in an image; build the image with another value",
        value.as_ref().map_or("a path".to_owned(), |value| format!("{value:?}"))
    )]
    Label {
        /// Name of the label.
        label: &'static str,
        /// Value of the label, truncated; `None` where remote texts are withheld.
        value: Option<String>,
        /// Problem of the value; `None` where remote texts are withheld.
        #[source]
        source: Option<LabelProblem>,
    },
}

/// The problem of a directory in a label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelProblem(pub(super) String);

impl Error {
    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge | Self::TooManyLayers { .. } | Self::TooDeep => "LimitExceeded",
            Self::Json { .. } | Self::Ambiguous { .. } | Self::Digest(_) => "ManifestInvalid",
            Self::Schema1
            | Self::NoManifest { .. }
            | Self::NondistributableLayer { .. }
            | Self::NoFileSystem { .. } => "ImageUnsupported",
            Self::NoLayers | Self::NoImage => "ImageEmpty",
            Self::NoPlatform { .. } => "PlatformMissing",
            Self::Label { .. } => "LabelInvalid",
        }
    }

    /// Reports whether the same image always fails. Always true, because images are immutable.
    pub fn is_terminal(&self) -> bool {
        true
    }
}

impl Error {
    /// Removes texts that the server chose: see [`Quotes::Withheld`](crate::trust::Quotes::Withheld).
    pub(crate) fn withhold(&mut self) {
        match self {
            Self::Json { problem: text, .. }
            | Self::NoManifest { kind: text }
            | Self::NoPlatform { known: text, .. } => *text = None,
            Self::Digest(source) => *source = None,
            Self::NoFileSystem { kind, artifact, .. } => {
                *kind = None;
                *artifact = None;
            }
            Self::Label { value, source, .. } => {
                *value = None;
                *source = None;
            }
            // `Ambiguous` contains only types that this crate knows.
            Self::TooLarge
            | Self::Schema1
            | Self::Ambiguous { .. }
            | Self::TooManyLayers { .. }
            | Self::NoLayers
            | Self::NondistributableLayer { .. }
            | Self::NoImage
            | Self::TooDeep => {}
        }
    }
}
