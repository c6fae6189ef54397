//! Why a document does not describe an image that can be unpacked.

use super::{DOCUMENT_LIMIT, LAYERS_LIMIT};
use crate::NotADigest;

/// Why a document does not describe an image that can be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More bytes than any manifest has.
    #[error(
        "the manifest is larger than {DOCUMENT_LIMIT} bytes; check that the reference names an image"
    )]
    TooLarge,
    /// No JSON, or other JSON.
    #[error("{what} is not well formed: {problem}; check that the reference names an image")]
    Json {
        /// Which document.
        what: &'static str,
        /// What the parser says.
        problem: String,
    },
    /// The oldest format, which is not even addressed by digests.
    #[error("the image has a manifest of the outdated schema 1; push it again with a current tool")]
    Schema1,
    /// Two readers would see two images.
    #[error(
        "the manifest says to be {one} and is {other}; push the image again with a current tool"
    )]
    Ambiguous {
        /// Its type by one reading.
        one: String,
        /// Its type by another.
        other: String,
    },
    /// Other JSON than a manifest or an index.
    #[error(
        "this is neither a manifest nor an index{}; check that the reference names an image",
        kind.as_ref().map_or(String::new(), |kind| format!(", but {kind:?}"))
    )]
    NoManifest {
        /// What it says to be.
        kind: Option<String>,
    },
    /// A digest of another algorithm, or none.
    #[error("the manifest names a blob by a digest that is not supported")]
    Digest(#[source] NotADigest),
    /// More layers than any image has.
    #[error(
        "the image has {count} layers, more than the limit of {LAYERS_LIMIT}; build it with fewer steps, or squash it"
    )]
    TooManyLayers {
        /// Their number.
        count: usize,
    },
    /// No layer at all.
    #[error("the image has no layers, and with them no files; copy the bundle into it")]
    NoLayers,
    /// A layer that is elsewhere.
    #[error(
        "layer {number} is foreign: its bytes are not kept with the image; build the bundle from scratch, or from a base that may be distributed"
    )]
    Foreign {
        /// Counted from the lowest, which is 1.
        number: usize,
    },
    /// A layer that is no tar: the image is an artifact of some other kind.
    #[error(
        "layer {number} is {kind:?}{}, and no file system; publish the bundle as an image",
        artifact.as_ref().map_or(String::new(), |artifact| format!(" of an artifact {artifact:?}"))
    )]
    NoFileSystem {
        /// Counted from the lowest, which is 1.
        number: usize,
        /// Its type.
        kind: String,
        /// The type of the artifact, if it says to be one.
        artifact: Option<String>,
    },
    /// An index without the platform that was asked for.
    #[error("the index has no image for {wanted:?}; choose one of: {known}")]
    NoPlatform {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// An index of nothing but attestations, or of nothing.
    #[error("the index has no image; push one")]
    NoImage,
    /// Indexes one in the other.
    #[error(
        "the index names an index that names an index, and so on; name an image in it by its digest"
    )]
    TooDeep,
    /// A label that names no folder.
    #[error(
        "label {label} names {value:?}, which is no folder in an image; build the image with another value"
    )]
    Label {
        /// The label.
        label: &'static str,
        /// Its value, shortened.
        value: String,
        /// What is wrong with it.
        #[source]
        source: LabelProblem,
    },
}

/// What is wrong with the folder that a label names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelProblem(pub(super) String);

impl Error {
    /// The kind of failure in one word, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge | Self::TooManyLayers { .. } | Self::TooDeep => "LimitExceeded",
            Self::Json { .. } | Self::Ambiguous { .. } | Self::Digest(_) => "ManifestInvalid",
            Self::Schema1
            | Self::NoManifest { .. }
            | Self::Foreign { .. }
            | Self::NoFileSystem { .. } => "ImageUnsupported",
            Self::NoLayers | Self::NoImage => "ImageEmpty",
            Self::NoPlatform { .. } => "PlatformMissing",
            Self::Label { .. } => "LabelInvalid",
        }
    }

    /// Whether the same image fails again: always, since an image never changes.
    pub fn is_terminal(&self) -> bool {
        true
    }
}
