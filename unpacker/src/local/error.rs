//! Why an image on this machine cannot be read.

use std::path::PathBuf;

/// Why an image on this machine cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not the kind of source that holds images.
    #[error("{path:?} is no image; write oci:, oci-archive: or docker-archive: before the path")]
    NoImage {
        /// As given.
        path: PathBuf,
    },
    /// The file by which images are found is missing.
    #[error("there is no {missing:?}, so this is no {kind}; {remedy}")]
    NotThere {
        /// The file.
        missing: &'static str,
        /// What should be here.
        kind: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The file by which images are found is none.
    #[error("{path:?} is not well formed; write the image again")]
    Malformed {
        /// The file.
        path: &'static str,
        /// What the parser says.
        #[source]
        source: crate::oci::Error,
    },
    /// More than one image, and none was chosen.
    #[error("there are several images; name one of them behind the path: {known}")]
    Several {
        /// Their names.
        known: String,
    },
    /// The chosen image is not there.
    #[error("there is no image {wanted:?}; choose one of: {known}")]
    Unknown {
        /// The name that was given.
        wanted: String,
        /// The names there are.
        known: String,
    },
    /// A blob or file that the image consists of is not there.
    #[error("the image needs {path:?}, which is not there; write the image again")]
    Missing {
        /// Its path.
        path: String,
    },
    /// A path in an archive that is none of its own files.
    #[error("the image names {path:?}, which {problem}; write the image again")]
    Path {
        /// As found, cut to a readable length.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A file has other bytes than its name or the manifest says.
    #[error("{path:?} has {found}, and not {wanted}; write the image again")]
    Lie {
        /// Its path.
        path: String,
        /// The digest or size that it should have.
        wanted: String,
        /// What it has instead.
        found: String,
    },
    /// An image's configuration speaks of other layers than there are.
    #[error(
        "the image has {layers} layers, and its configuration {configured}; write the image again"
    )]
    Layers {
        /// The layers there are.
        layers: usize,
        /// The layers that the configuration lists.
        configured: usize,
    },
    /// Too many files in an archive of an image.
    #[error("the archive has more than {limit} entries, which is no image; check the path")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
}

impl Error {
    /// The kind of failure in one word, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoImage { .. } | Self::NotThere { .. } => "UnknownFormat",
            Self::Malformed { .. } | Self::Layers { .. } => "ManifestInvalid",
            Self::Several { .. } | Self::Unknown { .. } => "ImageUnknown",
            Self::Missing { .. } => "ImageIncomplete",
            Self::Path { .. } => "InvalidPath",
            Self::Lie { .. } => "DigestMismatch",
            Self::TooManyEntries { .. } => "LimitExceeded",
        }
    }

    /// Whether the same image fails again: always, since nothing of it changes by itself.
    pub fn is_terminal(&self) -> bool {
        true
    }
}
