//! Catalogs over HTTP, with the routes of catalogd: all of a catalog as JSON lines, or the blobs of one schema, package or
//! name.
//!
//! ```text
//!  Source ── walk ──> lines, index ── rename ──> contents/<digest> <── names/<catalog>
//!                                                        │
//!  GET /catalogs/{catalog}/api/v1/all     ── range ──────┼──> pieces of the file, compressed on their way
//!  GET /catalogs/{catalog}/api/v1/metas   ── index ──────┘
//! ```
//!
//! A catalog is written once for its content, each blob on a line as Go would write it again, and then only read: whoever
//! asks gets the old content or the new one, to its end. Nothing of it is kept in memory; a request that filters goes
//! through the index, which is a few per cent of the file.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use catalog::{Limits, Source, web::Shelf};
//!
//! let shelf = Shelf::open("cache".as_ref())?;
//! shelf.put("operators", None, Source::Folder("catalog".as_ref()), &Limits::default())?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! catalog::web::serve(listener, shelf, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod body;
mod condition;
mod content;
mod routes;
mod server;
mod shelf;

pub use content::Written;
pub use routes::router;
pub use server::serve;
pub use shelf::{Put, Shelf};

use std::{io, path::PathBuf};

/// Why a catalog cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder, or something in it.
    #[error("failed to {action} {}; check that there is room and that it may be written", path.display())]
    Disk {
        /// What was tried.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Somebody else writes there.
    #[error("{} is used by another process; end that one, or choose another folder", .0.display())]
    Locked(PathBuf),
    /// It cannot be a part of a path.
    #[error(
        "{0:?} cannot be the name of a catalog; write at most 253 small letters, digits, dashes and dots"
    )]
    Name(String),
    /// It names no content.
    #[error("{0:?} is no digest of a catalog's content; write sha256: and 64 hexadecimal digits")]
    Digest(String),
    /// The catalog itself.
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
