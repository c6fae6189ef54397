//! Why a source could not be unpacked.

use std::{io, path::PathBuf};

use manifests::content::{self, Irregular, Needed};

/// The result of reading or packing.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a source cannot be read, or content not be packed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source itself cannot be opened.
    #[error("failed to open {path:?}; check that it exists and may be read")]
    Open {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The source is a device, a fifo or a socket.
    #[error(
        "{path:?} is neither a folder nor a file; name one, or pass an archive through standard input"
    )]
    Kind {
        /// As given.
        path: PathBuf,
    },
    /// The source was opened, but cannot be taken.
    #[error("failed to unpack {path:?}")]
    Unpack {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// A file or folder inside a folder, or the stream itself, cannot be read.
    #[error("failed to read {path:?}; check that it is still there and may be read")]
    Read {
        /// Relative to the source.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A path or a size that is not acceptable.
    #[error(transparent)]
    Content(#[from] content::Error),
    /// A name that is no text.
    #[error("name {path:?} is not UTF-8; rename the file")]
    Name {
        /// The path, with a replacement character for each byte that is no text.
        path: String,
    },
    /// Not one byte.
    #[error("the archive is empty: it has no bytes at all; check how it was written or fetched")]
    Empty,
    /// Something else than a tar.
    #[error(
        "this is neither a tar nor one compressed with gzip or zstd, but {found}; pack the bundle with \"tar czf\""
    )]
    NotArchive {
        /// What it looks like.
        found: &'static str,
    },
    /// The archive ends too early.
    #[error("the archive is cut short {at}; fetch it again or pack it again")]
    Truncated {
        /// Where.
        at: String,
    },
    /// The archive breaks the rules of its format.
    #[error("the archive is damaged {at}: {problem}; fetch it again or pack it again")]
    Corrupt {
        /// Where.
        at: String,
        /// Which rule.
        problem: &'static str,
        /// What the decoder says, if it was the decoder.
        #[source]
        source: Option<io::Error>,
    },
    /// An entry that is not taken from an archive.
    #[error("entry {path:?} is {kind}; {remedy}")]
    Refused {
        /// The entry.
        path: String,
        /// What it is.
        kind: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// An entry that a bundle is incomplete without is not a regular file.
    #[error(
        "entry {path:?} {}{}; {}", entry.problem(*needed), format_others(*more), entry.remedy(*needed)
    )]
    Irregular {
        /// Path of the first such entry.
        path: String,
        /// Kind and target of that entry.
        entry: Irregular,
        /// What the bundle needs in its place.
        needed: Needed,
        /// The number of other such entries.
        more: usize,
    },
    /// A layer of an image cannot be taken.
    #[error("failed to read layer {name}")]
    Layer {
        /// Usually its digest.
        name: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// An image is larger than any that is gone through.
    #[error(
        "the image has more than {limit} {problem} in its layers; build the bundle's image from scratch"
    )]
    ImageTooLarge {
        /// Of what there is too much.
        problem: &'static str,
        /// See [`crate::ImageLimits`].
        limit: u64,
    },
    /// The archive inflates to far more than any content allowed.
    #[error(
        "the archive has more than {limit} bytes, counting headers and what is skipped; reduce it or raise --max-size"
    )]
    TooLong {
        /// See [`crate::Options::stream_limit`].
        limit: u64,
    },
    /// A server cannot be reached, or gives no answer that can be taken.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Web(#[from] crate::web::Error),
    /// A source takes longer than it may, all requests together.
    #[cfg(feature = "sources")]
    #[error(
        "{what} took longer than {} s; try again later, or allow more by --timeout",
        total.as_secs()
    )]
    Slow {
        /// Which source.
        what: String,
        /// How long was waited.
        total: std::time::Duration,
    },
    /// A git repository gives no content.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Git(#[from] crate::git::Error),
    /// A URL does not give a bundle.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Http(#[from] crate::http::Error),
    /// ConfigMaps do not make up a bundle.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    ConfigMaps(#[from] crate::configmaps::Error),
    /// A registry does not give an image, or does not take one.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Registry(#[from] Box<crate::registry::Error>),
    /// The content store cannot do its part.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// The same failure for all who waited for one fetch.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Shared(std::sync::Arc<Error>),
    /// What was given does not say where a bundle is.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Source(#[from] crate::source::Error),
    /// An image on this machine cannot be read.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Local(#[from] crate::local::Error),
    /// An image's manifest, index or configuration cannot be taken.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Oci(#[from] crate::oci::Error),
    /// What waits on disk cannot be written there.
    #[error(
        "failed to write to a temporary file in {folder:?}; free or add space there, or set TMPDIR to another folder"
    )]
    Spool {
        /// The folder of the file, which has no name itself.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The packed archive cannot be written.
    #[error("failed to write the archive; check the space and permissions where it goes")]
    Write {
        /// Why.
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

/// Mentions entries that a message does not name.
fn format_others(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => " (1 more entry is not either)".to_owned(),
        number => format!(" ({number} more entries are not either)"),
    }
}

impl Error {
    /// Reason of an entry that no source may have, or that a bundle is incomplete without.
    pub const ENTRY_REFUSED: &str = "EntryRefused";

    /// The kind of failure in one word, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::Read { .. } | Self::Content(content::Error::Read { .. }) => {
                "ReadFailed"
            }
            Self::Kind { .. } | Self::NotArchive { .. } => "UnknownFormat",
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
            Self::Slow { .. } => "TimedOut",
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

    /// Whether the same source fails again however often it is read. What was cut short may arrive whole next time.
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
            Self::Slow { .. } => false,
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
    /// Removes what the server chose: see [`Quotes::Withheld`](crate::access::Quotes::Withheld).
    pub(crate) fn withheld(self) -> Self {
        match self {
            Self::Unpack { path, source } => Self::Unpack {
                path,
                source: source.withheld().into(),
            },
            Self::Layer { name, source } => Self::Layer {
                name,
                source: source.withheld().into(),
            },
            Self::Web(error) => Self::Web(error.withheld()),
            Self::Git(error) => Self::Git(error.withheld()),
            Self::Http(error) => Self::Http(error.withheld()),
            Self::Registry(error) => Self::Registry(Box::new(error.withheld())),
            Self::Oci(error) => Self::Oci(error.withheld()),
            // Shared errors are withheld before callers share them. The others name content or local files.
            error @ (Self::Shared(_)
            | Self::Open { .. }
            | Self::Kind { .. }
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
            | Self::Slow { .. }
            | Self::ConfigMaps(_)
            | Self::Store(_)
            | Self::Source(_)
            | Self::Local(_)
            | Self::Spool { .. }
            | Self::Write { .. }) => error,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "sources")]
mod tests;
