//! Errors of reading and packing sources.

use std::{io, path::PathBuf};

use manifests::content::{self, Irregular, Needed};

/// Result of reading or packing.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error while a source is read or content is packed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source cannot be opened.
    #[error("failed to open {path:?}; check that it exists and is readable")]
    Open {
        /// Path as given.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The source is a device, a FIFO or a socket.
    #[error(
        "{path:?} is neither a directory nor a file; use one of these, or pass an archive on standard input"
    )]
    NotReadable {
        /// Path as given.
        path: PathBuf,
    },
    /// The content of the source was rejected or cannot be read.
    #[error("failed to unpack {path:?}")]
    Unpack {
        /// Path as given.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: Box<Error>,
    },
    /// A file or directory in the source, or the stream, cannot be read.
    #[error("failed to read {path:?}; check that it still exists and is readable")]
    Read {
        /// Path relative to the source.
        path: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// A path is invalid, or a limit is exceeded.
    #[error(transparent)]
    Content(#[from] content::Error),
    /// A name is not UTF-8.
    #[error("name {path:?} is not UTF-8; rename the file")]
    Name {
        /// Path with a replacement character for each invalid byte.
        path: String,
    },
    /// The archive has no bytes.
    #[error("the archive is empty (0 bytes); check how it was written or fetched")]
    Empty,
    /// The file is not a tar archive.
    #[error("not a tar archive, plain or compressed with gzip or zstd, but {found}; {remedy}")]
    NotArchive {
        /// Format that was detected.
        found: &'static str,
        /// Remedy in the imperative.
        remedy: &'static str,
    },
    /// The archive is truncated.
    #[error("the archive is truncated {at}; fetch it again or pack it again")]
    Truncated {
        /// Position in the archive.
        at: String,
    },
    /// The archive is malformed or corrupt.
    #[error("the archive is corrupt {at}: {problem}; fetch it again or pack it again")]
    Corrupt {
        /// Position in the archive.
        at: String,
        /// Problem at this position.
        problem: &'static str,
        /// Error of the decoder; `None` if the problem is not a decoder error.
        #[source]
        source: Option<io::Error>,
    },
    /// The archive contains an entry that is rejected.
    #[error("entry {path:?} is {kind}; {remedy}")]
    Refused {
        /// Path of the entry.
        path: String,
        /// Kind or problem of the entry.
        kind: &'static str,
        /// Remedy in the imperative.
        remedy: &'static str,
    },
    /// A required entry of a bundle is not a regular file.
    #[error(
        "entry {path:?} {}{}; {}", entry.problem(*needed), format_others(*more), entry.remedy(*needed)
    )]
    Irregular {
        /// Path of the first such entry.
        path: String,
        /// Kind and target of the entry.
        entry: Irregular,
        /// Requirement of the bundle for this path.
        needed: Needed,
        /// Number of further such entries.
        more: usize,
    },
    /// A layer of an image was rejected or cannot be read.
    #[error("failed to read layer {name}")]
    Layer {
        /// Name of the layer, usually its digest.
        name: String,
        /// Cause of the failure.
        #[source]
        source: Box<Error>,
    },
    /// The layers of an image exceed a limit.
    #[error(
        "the image has more than {limit} {problem} in its layers; build the bundle's image from scratch"
    )]
    ImageTooLarge {
        /// Items that exceed the limit.
        problem: &'static str,
        /// Exceeded limit: see [`crate::ImageLimits`].
        limit: u64,
    },
    /// The decompressed archive exceeds the limit for streams.
    #[error(
        "the archive has more than {limit} bytes, including headers and skipped entries; reduce it or raise --max-size"
    )]
    TooLong {
        /// Exceeded limit: see [`crate::Options::stream_limit`].
        limit: u64,
    },
    /// An HTTP request failed.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Web(#[from] crate::http_client::Error),
    /// The requests for a source together exceeded the total timeout.
    #[cfg(feature = "sources")]
    #[error(
        "{what} took longer than {} s; try again later, or raise --timeout",
        total.as_secs()
    )]
    Timeout {
        /// Name of the source.
        what: String,
        /// Total timeout of a source.
        total: std::time::Duration,
    },
    /// A git source failed.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Git(#[from] crate::git::Error),
    /// An archive at a URL failed.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Http(#[from] crate::http_archive::Error),
    /// The ConfigMaps are not a bundle.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    ConfigMaps(#[from] crate::config_maps::Error),
    /// An image pull or push failed.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Registry(#[from] Box<crate::registry::Error>),
    /// The content store failed.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// A fetch failed that several callers waited for.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Shared(std::sync::Arc<Error>),
    /// The text does not describe a source.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Source(#[from] crate::source::Error),
    /// A local image failed.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Local(#[from] crate::local::Error),
    /// A manifest, index or image configuration was rejected.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Oci(#[from] crate::oci::Error),
    /// Temporary data cannot be written to disk.
    #[error(
        "failed to write to a temporary file in {directory:?}; free or add space there, or set TMPDIR to another directory"
    )]
    Spool {
        /// Directory of the unnamed temporary file.
        directory: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The packed archive cannot be written.
    #[error("failed to write the archive; check the free space and permissions of its destination")]
    Write {
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
}

#[cfg(feature = "sources")]
impl From<crate::registry::Error> for Error {
    fn from(error: crate::registry::Error) -> Self {
        Self::Registry(Box::new(error))
    }
}

/// Formats the number of entries that the message does not name.
fn format_others(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => " (and 1 more entry)".to_owned(),
        number => format!(" (and {number} more entries)"),
    }
}

impl Error {
    /// Reason for an entry that is not allowed, or that a bundle requires as a regular file.
    pub const ENTRY_REFUSED: &str = "EntryRefused";

    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::Read { .. } | Self::Content(content::Error::Read { .. }) => {
                "ReadFailed"
            }
            Self::NotReadable { .. } | Self::NotArchive { .. } => "UnknownFormat",
            Self::Unpack { source, .. } | Self::Layer { source, .. } => source.reason(),
            #[cfg(feature = "sources")]
            Self::Oci(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::Local(error) => error.reason(),
            Self::Content(
                content::Error::PathTooLong { .. }
                | content::Error::FileTooLarge { .. }
                | content::Error::TooLarge { .. }
                | content::Error::TooManyEntries { .. },
            )
            | Self::ImageTooLarge { .. }
            | Self::TooLong { .. } => "LimitExceeded",
            Self::Content(_) | Self::Name { .. } => "InvalidPath",
            Self::Empty | Self::Truncated { .. } => "ArchiveTruncated",
            Self::Corrupt { .. } => "ArchiveDamaged",
            Self::Refused { .. } | Self::Irregular { .. } => Self::ENTRY_REFUSED,
            #[cfg(feature = "sources")]
            Self::Web(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::Timeout { .. } => "TimedOut",
            #[cfg(feature = "sources")]
            Self::Git(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::Http(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::ConfigMaps(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::Registry(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::Store(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::Shared(error) => error.reason(),
            #[cfg(feature = "sources")]
            Self::Source(_) => "UnknownSource",
            Self::Spool { .. } | Self::Write { .. } => "WriteFailed",
        }
    }

    /// Reports whether the same source always fails. Truncated archives are transient, because the next transfer may
    /// be complete.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Open { .. }
            | Self::Read { .. }
            | Self::Spool { .. }
            | Self::Write { .. }
            | Self::Empty
            | Self::Truncated { .. }
            | Self::Content(content::Error::Read { .. }) => false,
            Self::Unpack { source, .. } | Self::Layer { source, .. } => source.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Oci(error) => error.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Local(error) => error.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Web(error) => error.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Timeout { .. } => false,
            #[cfg(feature = "sources")]
            Self::Git(error) => error.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Http(error) => error.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Registry(error) => error.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Store(error) => error.is_terminal(),
            #[cfg(feature = "sources")]
            Self::Shared(error) => error.is_terminal(),
            _ => true,
        }
    }
}

#[cfg(feature = "sources")]
impl Error {
    /// Removes texts that the server chose: see [`Quotes::Withheld`](crate::trust::Quotes::Withheld).
    pub(crate) fn withhold(&mut self) {
        match self {
            Self::Unpack { source, .. } | Self::Layer { source, .. } => source.withhold(),
            Self::Web(error) => error.withhold(),
            Self::Git(error) => error.withhold(),
            Self::Http(error) => error.withhold(),
            Self::Registry(error) => error.withhold(),
            Self::Oci(error) => error.withhold(),
            // Shared errors were withheld before they were shared. The other errors contain only content or local
            // paths.
            Self::Shared(_)
            | Self::Open { .. }
            | Self::NotReadable { .. }
            | Self::Read { .. }
            | Self::Content(_)
            | Self::Name { .. }
            | Self::Empty
            | Self::NotArchive { .. }
            | Self::Truncated { .. }
            | Self::Corrupt { .. }
            | Self::Refused { .. }
            | Self::Irregular { .. }
            | Self::ImageTooLarge { .. }
            | Self::TooLong { .. }
            | Self::Timeout { .. }
            | Self::ConfigMaps(_)
            | Self::Store(_)
            | Self::Source(_)
            | Self::Local(_)
            | Self::Spool { .. }
            | Self::Write { .. } => {}
        }
    }
}

#[cfg(test)]
#[cfg(feature = "sources")]
mod tests;
