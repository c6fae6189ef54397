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
    #[error(
        "{what} is not well formed{}; check that the reference names an image",
        problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"))
    )]
    Json {
        /// Which document.
        what: &'static str,
        /// Error of the parser, which may repeat values; `None` where remote texts are withheld.
        problem: Option<String>,
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
        /// Media type that the document states; `None` if it states none, and where remote texts are withheld.
        kind: Option<String>,
    },
    /// A digest of another algorithm, or none.
    #[error("the manifest names a blob by a digest that is not supported")]
    Digest(#[source] Option<NotADigest>),
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
        "layer {number} is {}{}, and no file system; publish the bundle as an image",
        kind.as_ref().map_or("of another type".to_owned(), |kind| format!("{kind:?}")),
        artifact.as_ref().map_or(String::new(), |artifact| format!(" of an artifact {artifact:?}"))
    )]
    NoFileSystem {
        /// Counted from the lowest, which is 1.
        number: usize,
        /// Media type of the layer; `None` where remote texts are withheld.
        kind: Option<String>,
        /// The type of the artifact, if it says to be one; `None` where remote texts are withheld.
        artifact: Option<String>,
    },
    /// An index without the platform that was asked for.
    #[error(
        "the index has no image for {wanted:?}; choose {}",
        known.as_ref().map_or("another platform".to_owned(), |known| format!("one of: {known}"))
    )]
    NoPlatform {
        /// What was asked for.
        wanted: String,
        /// Platforms of the index; `None` where remote texts are withheld.
        known: Option<String>,
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
        "label {label} names {}, which is not a directory in an image; build the image with another value",
        value.as_ref().map_or("a path".to_owned(), |value| format!("{value:?}"))
    )]
    Label {
        /// The label.
        label: &'static str,
        /// Value of the label, truncated; `None` where remote texts are withheld.
        value: Option<String>,
        /// Problem of the value; `None` where remote texts are withheld.
        #[source]
        source: Option<LabelProblem>,
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

impl Error {
    /// Removes what the server chose: see [`Quotes::Withheld`](crate::access::Quotes::Withheld).
    pub(crate) fn withheld(self) -> Self {
        match self {
            Self::Json { what, .. } => Self::Json {
                what,
                problem: None,
            },
            Self::NoManifest { .. } => Self::NoManifest { kind: None },
            Self::Digest(_) => Self::Digest(None),
            Self::NoFileSystem { number, .. } => Self::NoFileSystem {
                number,
                kind: None,
                artifact: None,
            },
            Self::NoPlatform { wanted, .. } => Self::NoPlatform {
                wanted,
                known: None,
            },
            Self::Label { label, .. } => Self::Label {
                label,
                value: None,
                source: None,
            },
            // The types in `Ambiguous` are those that this crate knows.
            error @ (Self::TooLarge
            | Self::Schema1
            | Self::Ambiguous { .. }
            | Self::TooManyLayers { .. }
            | Self::NoLayers
            | Self::Foreign { .. }
            | Self::NoImage
            | Self::TooDeep) => error,
        }
    }
}
