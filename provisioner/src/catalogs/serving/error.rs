//! Why a catalog is not served.

use std::{io, path::PathBuf};

use catalog::{registry, sqlite};
use unpacker::store;

use crate::settings::Ports;

/// Why a catalog is not served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No Service can have the name.
    #[error(
        "the name of CatalogSource {catalog} has {length} characters, and that of the Service in front of it may have 63; \
         give the CatalogSource a shorter name"
    )]
    Name {
        /// The CatalogSource.
        catalog: String,
        /// Characters.
        length: usize,
    },
    /// The CatalogSource is none that the API server has.
    #[error("CatalogSource {0} has no uid")]
    NoUid(String),
    /// Every port is taken.
    #[error("none of the ports {0} is free; widen --catalog-ports, and the NetworkPolicy with it")]
    Ports(Ports),
    /// A namespace has as many catalogs served as it may.
    #[error(
        "namespace {namespace} has {most} catalogs served already, and --catalogs-per-namespace allows no more; remove one of \
         them, or have the limit raised"
    )]
    TooMany {
        /// Whose share it is.
        namespace: String,
        /// How many there may be.
        most: usize,
    },
    /// Its catalogs are too large together.
    #[error(
        "the catalogs of namespace {namespace} would take at least {would} bytes to be served, and --catalog-size-per-namespace allows \
         {most}; remove one of them, or have the limit raised"
    )]
    TooLarge {
        /// Whose share it is.
        namespace: String,
        /// Bytes of all their files, with this one.
        would: u64,
        /// How many there may be.
        most: u64,
    },
    /// A port cannot be listened at.
    #[error("failed to listen at port {port}")]
    Listen {
        /// Its number.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder for what is served cannot be made.
    #[error("failed to make the folder {}; is there space, and may it be written?", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The content is not in the store any more.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// It cannot be read there.
    #[error("the store's own tar cannot be read")]
    Tar(#[source] io::Error),
    /// The catalog cannot be read.
    #[error(transparent)]
    Catalog(#[from] registry::Error),
    /// Its ConfigMap cannot be read.
    #[error(transparent)]
    ConfigMap(#[from] catalog::configmap::Error),
    /// Its database cannot be read.
    #[error(transparent)]
    Database(#[from] sqlite::Error),
    /// There is nothing to serve.
    #[error("there is no package in it that can be served{}", left_out.as_deref().map(|it| format!(" ({it})")).unwrap_or_default())]
    Empty {
        /// The first thing that is not served, and why.
        left_out: Option<String>,
    },
    /// The service cannot be made.
    #[error(transparent)]
    Service(#[from] registry::Failed),
    /// Service or EndpointSlice belong to somebody else.
    #[error("{0}")]
    Foreign(String),
    /// They are being deleted.
    #[error("{0} is being deleted, and is made anew when it is gone")]
    Going(String),
    /// The provisioner may not write them.
    #[error(
        "{said}; let the provisioner's ServiceAccount write Services and EndpointSlices in namespace {namespace} by the \
         ClusterRole catalog-server, or leave that out of --served-namespaces"
    )]
    Forbidden {
        /// Where.
        namespace: String,
        /// The API server's words.
        said: String,
    },
    /// The API server refuses something, or does not answer.
    #[error("failed to {action} {object}")]
    Api {
        /// What was attempted.
        action: &'static str,
        /// With what.
        object: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server does not answer.
    #[error("failed to {action} {object}: the apiserver did not answer in time")]
    Silence {
        /// What was attempted.
        action: &'static str,
        /// With what.
        object: String,
    },
    /// What was told of the last attempt.
    #[error("{0}")]
    Told(String),
    /// The process ends.
    #[error("the provisioner is about to end")]
    Ended,
}

// === impl Error ===

impl Error {
    /// How many bytes a catalog was to be served from at most, where that was not enough.
    pub(super) fn most(&self) -> Option<u64> {
        match self {
            Self::Catalog(registry::Error::Store(registry::StoreError::TooLarge { most })) => {
                Some(*most)
            }
            _ => None,
        }
    }
}
