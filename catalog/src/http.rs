//! HTTP service for catalogs with the routes of catalogd: all of a catalog as JSON lines, or the blobs of one schema,
//! package or name.
//!
//! ```text
//! Source ── documents ──> lines, index ── rename ──> contents/<digest> <── names/<catalog>
//!                                                       │
//! GET /catalogs/{catalog}/api/v1/all     ── range ──────┼──> chunks of the file, compressed on the fly
//! GET /catalogs/{catalog}/api/v1/metas   ── index ──────┘
//! ```
//!
//! A catalog is written once per content, each blob on one line as Go would encode it, and is immutable afterwards. A
//! client receives either the old or the new content, completely. No content is held in memory; a request with a filter
//! reads the index, which is a few percent of the file.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use catalog::{Limits, Source, http::ContentStore};
//!
//! let store = ContentStore::open("cache".as_ref())?;
//! store.put("operators", None, Source::Directory("catalog".as_ref()), &Limits::default())?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! catalog::http::serve(listener, store, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod body;
mod content;
mod content_store;
mod preconditions;
mod routes;
mod server;

pub use content::WriteSummary;
pub use content_store::{ContentStore, PutOutcome};
pub use routes::router;
pub use server::serve;

use std::{io, path::PathBuf};

/// Reasons why a catalog cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read or written.
    #[error("failed to {action} {}; check the free space and the write permission", path.display())]
    Disk {
        /// Action that failed.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Another process uses the directory.
    #[error("{} is used by another process; stop that process, or use another directory", .0.display())]
    Locked(PathBuf),
    /// The catalog name is not valid in a URL path.
    #[error(
        "{0:?} is not a valid catalog name; use at most 253 lower-case letters, digits, dashes and dots"
    )]
    Name(String),
    /// The digest of the content is malformed.
    #[error("{0:?} is not a content digest; use sha256: and 64 hexadecimal digits")]
    Digest(String),
    /// The catalog cannot be read.
    #[error("failed to read the catalog")]
    Catalog(#[from] crate::Error),
}

impl Error {
    fn disk(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Disk {
            action,
            path,
            source,
        }
    }
}
