//! Errors of local images.

use std::path::PathBuf;

/// An error while a local image is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source is not a kind that contains images.
    #[error("{path:?} is not an image; use oci:, oci-archive: or docker-archive: before the path")]
    NoImage {
        /// Path as given.
        path: PathBuf,
    },
    /// The file that lists the images is missing.
    #[error("not a valid {kind}: {missing:?} not found; {remedy}")]
    FileMissing {
        /// Name of the missing file.
        missing: &'static str,
        /// Format that was expected.
        kind: &'static str,
        /// Remedy in the imperative.
        remedy: &'static str,
    },
    /// The file that lists the images is malformed.
    #[error("{path:?} is malformed; write the image again")]
    Malformed {
        /// Name of the malformed file.
        path: &'static str,
        /// Error of the parser.
        #[source]
        source: crate::oci::Error,
    },
    /// The source contains several images, and none was selected.
    #[error("the source contains several images; append one of these names to the path: {known}")]
    Several {
        /// Names of the images.
        known: String,
    },
    /// The selected image does not exist.
    #[error("image {wanted:?} not found; use one of: {known}")]
    Unknown {
        /// Name as requested.
        wanted: String,
        /// Names of the existing images.
        known: String,
    },
    /// A blob or file of the image is missing.
    #[error("the image refers to {path:?}, which does not exist; write the image again")]
    Missing {
        /// Path of the missing file.
        path: String,
    },
    /// A path in an archive refers to a file outside of it.
    #[error("the image refers to {path:?}, which {problem}; write the image again")]
    Path {
        /// Path as found, truncated to a readable length.
        path: String,
        /// Problem of the path, as a continuation of the message.
        problem: &'static str,
    },
    /// The digest or size of a file does not match its name or the manifest.
    #[error("{path:?} has {found}, expected {wanted}; write the image again")]
    DigestMismatch {
        /// Path of the file.
        path: String,
        /// Expected digest or size.
        wanted: String,
        /// Actual digest or size.
        found: String,
    },
    /// The configuration lists another number of layers than the image has.
    #[error(
        "the image has {layers} layers, but its configuration lists {configured}; write the image again"
    )]
    Layers {
        /// Number of layers in the image.
        layers: usize,
        /// Number of layers in the configuration.
        configured: usize,
    },
    /// The archive contains too many files for an image.
    #[error("the archive has more than {limit} entries, too many for an image; check the path")]
    TooManyEntries {
        /// Limit that is exceeded.
        limit: usize,
    },
}

impl Error {
    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoImage { .. } | Self::FileMissing { .. } => "UnknownFormat",
            Self::Malformed { .. } | Self::Layers { .. } => "ManifestInvalid",
            Self::Several { .. } | Self::Unknown { .. } => "ImageUnknown",
            Self::Missing { .. } => "ImageIncomplete",
            Self::Path { .. } => "InvalidPath",
            Self::DigestMismatch { .. } => "DigestMismatch",
            Self::TooManyEntries { .. } => "LimitExceeded",
        }
    }

    /// Reports whether the same image always fails. Always true, because local images do not change.
    pub fn is_terminal(&self) -> bool {
        true
    }
}
