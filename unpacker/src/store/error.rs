//! Errors of the content store.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::Digest;

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the content store. It can be cloned, because several callers may wait for one failing read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The directory of the store cannot be used.
    #[error(
        "failed to open the content store in {path:?}; use a directory that can be written and locked"
    )]
    Open {
        /// Directory or file that cannot be created or opened.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: Arc<io::Error>,
    },
    /// The path exists, but is not a directory.
    #[error(
        "{path:?} is not a directory; remove it or use another directory for the content store"
    )]
    NotAFolder {
        /// Path of the file.
        path: PathBuf,
    },
    /// The directory contains files of another program in places that the store would write to and sweep.
    #[error(
        "{path:?} contains files of another program; use a separate directory for the content store"
    )]
    Foreign {
        /// Path of the foreign files.
        path: PathBuf,
    },
    /// The content was never stored, or was evicted or removed.
    #[error("content {digest} is not in the store; unpack its source again")]
    Missing {
        /// Digest of the missing content.
        digest: Digest,
    },
    /// The bytes on disk do not match the digest.
    #[error(
        "content {digest} was corrupt on disk and has been removed; check the disk and unpack the source again"
    )]
    Corrupt {
        /// Digest that the content should have.
        digest: Digest,
    },
    /// The content cannot be removed, because it is in use.
    #[error("content {digest} is in use; release it before removing it")]
    InUse {
        /// Digest of the content.
        digest: Digest,
    },
    /// The content exceeds the disk budget.
    #[error(
        "content of {size} bytes does not fit into the store: {used} of {budget} bytes are in use; raise the disk budget or delete bundles"
    )]
    BudgetExceeded {
        /// Size of the content to store, in bytes.
        size: u64,
        /// Bytes that cannot be evicted.
        used: u64,
        /// Disk budget in bytes.
        budget: u64,
    },
    /// The disk is full, regardless of the budget.
    #[error(
        "the disk of the content store is full, and nothing on it can be evicted to store {size} bytes; enlarge it or delete bundles"
    )]
    DiskFull {
        /// Size of the content to store, in bytes.
        size: u64,
        /// Error of the operating system.
        #[source]
        source: Arc<io::Error>,
    },
    /// A file of the store cannot be read or written.
    #[error("failed to {action} {path:?} in the content store; check its disk and permissions")]
    File {
        /// Action that was attempted.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: Arc<io::Error>,
    },
    /// The content is intact, but exceeds the limits of this caller; or the content to store cannot be read.
    #[error(transparent)]
    Content(Arc<crate::Error>),
    /// All callers gave up, or the program is about to end.
    #[error("store operation cancelled because all callers gave up; retry")]
    Cancelled,
}

impl Error {
    /// Creates the error for a directory or file that cannot be created or opened.
    pub(super) fn open(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => Self::NotAFolder { path },
            _ => Self::Open {
                path,
                source: Arc::new(source),
            },
        }
    }

    /// Creates an error for `map_err` from the attempted action and the path.
    pub(super) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.into(),
            source: Arc::new(source),
        }
    }

    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::NotAFolder { .. } | Self::Foreign { .. } => {
                "StoreUnavailable"
            }
            Self::Missing { .. } => "ContentMissing",
            Self::Corrupt { .. } => "ContentDamaged",
            Self::InUse { .. } => "ContentInUse",
            Self::BudgetExceeded { .. } | Self::DiskFull { .. } => "StoreFull",
            Self::File { .. } => "StoreFailed",
            Self::Content(error) => error.reason(),
            Self::Cancelled => "Cancelled",
        }
    }

    /// Reports whether a retry always fails. Disks are repaired and enlarged, and sources can be unpacked again.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Content(error) => error.is_terminal(),
            _ => false,
        }
    }
}
