//! Errors of serving a catalog.

use std::{io, path::PathBuf};

use catalog::{registry, sqlite};
use unpacker::store;

use crate::runtime::settings::Ports;

/// Error that keeps a catalog from being served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name of the CatalogSource is too long for a Service.
    #[error(
        "the name of CatalogSource {catalog} has {length} characters, but its Service can have at most 63; give the \
         CatalogSource a shorter name"
    )]
    Name {
        /// Name of the CatalogSource.
        catalog: String,
        /// Number of characters.
        length: usize,
    },
    /// The CatalogSource has no uid, so it was not read from the API server.
    #[error("CatalogSource {0} has no uid")]
    NoUid(String),
    /// All ports of the range are in use.
    #[error("no free port in {0}; extend --catalog-ports and the NetworkPolicy")]
    Ports(Ports),
    /// The namespace has reached its maximum number of served catalogs.
    #[error(
        "namespace {namespace} reached the limit of {most} served catalogs (--catalogs-per-namespace); delete a \
         CatalogSource, or raise the limit"
    )]
    TooMany {
        /// Namespace with the quota.
        namespace: String,
        /// Maximum number of catalogs.
        most: usize,
    },
    /// The catalogs of the namespace are too large in total.
    #[error(
        "the served catalogs of namespace {namespace} require at least {would} bytes, but --catalog-size-per-namespace \
         allows {most}; delete a CatalogSource, or raise the limit"
    )]
    TooLarge {
        /// Namespace with the quota.
        namespace: String,
        /// Size of all store files in bytes, including this catalog's.
        would: u64,
        /// Maximum size in bytes.
        most: u64,
    },
    /// Listening on a port failed.
    #[error("failed to listen on port {port}")]
    Listen {
        /// Number of the port.
        port: u16,
        /// Error of the socket.
        #[source]
        source: io::Error,
    },
    /// Creating the directory for the store files failed.
    #[error("failed to create directory {}; check that it is writable and has free space", directory.display())]
    Directory {
        /// Path of the directory.
        directory: PathBuf,
        /// Error of the file system.
        #[source]
        source: io::Error,
    },
    /// The content store does not contain the content.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The content cannot be read from the content store.
    #[error("failed to read an archive of the content store")]
    Tar(#[source] io::Error),
    /// The catalog cannot be read.
    #[error(transparent)]
    Catalog(#[from] registry::Error),
    /// The ConfigMap of the catalog cannot be read.
    #[error(transparent)]
    ConfigMap(#[from] catalog::configmap::Error),
    /// The SQLite database of the catalog cannot be read.
    #[error(transparent)]
    Database(#[from] sqlite::Error),
    /// The catalog contains nothing that can be served.
    #[error(
        "the catalog contains no package that can be served{}",
        left_out.as_deref().map(|skipped| format!(" ({skipped})")).unwrap_or_default()
    )]
    Empty {
        /// First part of the catalog that was skipped, with the reason.
        left_out: Option<String>,
    },
    /// Creating the gRPC service failed.
    #[error(transparent)]
    Service(#[from] registry::ServeError),
    /// The Service or the EndpointSlice belongs to another owner.
    #[error("{0}")]
    Foreign(String),
    /// The Service or the EndpointSlice is terminating.
    #[error("{0} is terminating; it is recreated after that")]
    Terminating(String),
    /// The provisioner lacks the permissions to write Services and EndpointSlices.
    #[error(
        "{said}; grant the provisioner's ServiceAccount the ClusterRole catalog-server in namespace {namespace}, or \
         remove the namespace from --served-namespaces"
    )]
    Forbidden {
        /// Namespace of the objects.
        namespace: String,
        /// Message of the API server.
        said: String,
    },
    /// The API server rejected a request, or the connection failed.
    #[error("failed to {action} {object}")]
    Api {
        /// Verb of the failed request.
        action: &'static str,
        /// Kind, namespace and name of the object.
        object: String,
        /// Failure of the request.
        #[source]
        source: Box<kube::Error>,
    },
    /// The request to the API server timed out.
    #[error("failed to {action} {object}: the API server did not respond in time")]
    Timeout {
        /// Verb of the request.
        action: &'static str,
        /// Kind, namespace and name of the object.
        object: String,
    },
    /// The process is shutting down.
    #[error("the provisioner is shutting down")]
    ShuttingDown,
}

// === impl Error ===

impl Error {
    /// Returns the store size limit in bytes if the catalog exceeded it.
    pub(super) fn store_limit(&self) -> Option<u64> {
        match self {
            Self::Catalog(registry::Error::Store(registry::StoreError::TooLarge { most })) => {
                Some(*most)
            }
            _ => None,
        }
    }
}
