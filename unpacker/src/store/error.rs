//! Why the store cannot do what is asked of it.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::Digest;

/// The result of using the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the store cannot do what is asked of it. Clones, since several callers may wait for one failing read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The folder cannot be used.
    #[error(
        "failed to open the content store in {path:?}; give it a folder that can be written and locked"
    )]
    Open {
        /// What could not be made or opened.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// Something of that name is there, and it is no folder.
    #[error("{path:?} is not a folder; remove it or give the content store another folder")]
    NotAFolder {
        /// What should be a folder.
        path: PathBuf,
    },
    /// The folder has files that the store did not write, where it would write its own and sweep.
    #[error("{path:?} holds files of something else; give the content store a folder of its own")]
    Foreign {
        /// What holds them.
        path: PathBuf,
    },
    /// No such content, or no longer.
    #[error("the store does not have content {digest}; unpack its source again")]
    Missing {
        /// What was asked for.
        digest: Digest,
    },
    /// The bytes on disk are not those that were written.
    #[error(
        "content {digest} was damaged on disk and has been removed; check the disk and unpack the source again"
    )]
    Damaged {
        /// What it should have been.
        digest: Digest,
    },
    /// Content cannot be removed while somebody uses it.
    #[error("content {digest} is in use; release it before removing it")]
    Held {
        /// What is in use.
        digest: Digest,
    },
    /// The budget does not allow it.
    #[error(
        "content of {size} bytes does not fit into the store: {used} of {budget} bytes are in use; raise the disk budget or delete bundles"
    )]
    OverBudget {
        /// What should have been stored.
        size: u64,
        /// What cannot be evicted.
        used: u64,
        /// The budget.
        budget: u64,
    },
    /// The disk does not allow it, whatever the budget says.
    #[error(
        "the disk of the content store is full, and nothing on it can be evicted to store {size} bytes; enlarge it or delete bundles"
    )]
    DiskFull {
        /// What should have been stored.
        size: u64,
        /// What the system says.
        #[source]
        source: Arc<io::Error>,
    },
    /// A file of the store cannot be read or written.
    #[error("failed to {action} {path:?} in the content store; check its disk and permissions")]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Arc<io::Error>,
    },
    /// Content is whole, but not for this caller: it exceeds the limits given. Or what should be stored cannot be read.
    #[error(transparent)]
    Content(Arc<crate::Error>),
    /// Whoever waited for it has gone, or the program is about to end.
    #[error("the content store gave up, since nobody waited for it any more; ask again")]
    Cancelled,
}

impl Error {
    /// Why a file or folder of the store cannot be made or opened.
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

    /// For `map_err`: what was tried with which file.
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

    /// The kind of failure in one word, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::NotAFolder { .. } | Self::Foreign { .. } => {
                "StoreUnavailable"
            }
            Self::Missing { .. } => "ContentMissing",
            Self::Damaged { .. } => "ContentDamaged",
            Self::Held { .. } => "ContentInUse",
            Self::OverBudget { .. } | Self::DiskFull { .. } => "StoreFull",
            Self::File { .. } => "StoreFailed",
            Self::Content(error) => error.reason(),
            Self::Cancelled => "Cancelled",
        }
    }

    /// Whether trying again must fail again. Disks get repaired and enlarged, and sources can be unpacked again.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Content(error) => error.is_terminal(),
            _ => false,
        }
    }
}
