//! Errors that end the process.

use std::path::PathBuf;

use crate::{content, runtime::http};

/// Reason why the process cannot start, or cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port of the log level is reachable from other pods.
    #[error(
        "--admin-bind-address {0} is reachable from other pods without authentication; use 127.0.0.1:PORT or 0, and \
         `kubectl port-forward` to reach it"
    )]
    Admin(String),
    /// A list of namespaces contains `none` and other namespaces.
    #[error("{0}: \"none\" cannot be combined with namespaces; remove \"none\" or all namespaces")]
    NoneInList(&'static str),
    /// The content service is disabled, but the status of Bundles has a contentURL.
    #[error(
        "--content-bind-address cannot be 0, because the content service serves the contentURLs of Bundles; set an \
             address"
    )]
    Content,
    /// The store is too small for a single bundle.
    #[error(
        "--storage-size is less than --max-bundle-size; increase it so that the largest bundle fits"
    )]
    Storage,
    /// A file of a flag cannot be read.
    #[error("failed to read {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the read.
        source: std::io::Error,
    },
    /// A file of `--ca-file` has invalid certificates.
    #[error("failed to read certificates from {path}")]
    Authorities {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        source: unpacker::http_client::Error,
    },
    /// A file of `--registries-conf` is invalid.
    #[error("failed to read mirrors from {path}")]
    Mirrors {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        source: unpacker::registry::mirrors::Error,
    },
    /// A file of `--ca-file` has no certificate.
    #[error("{0} contains no certificate; use a file with PEM certificates for --ca-file")]
    NoAuthorities(PathBuf),
    /// The kubeconfig is missing or invalid.
    #[error("failed to read kubeconfig {path}")]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// Error of the kubeconfig.
        source: Box<kube::config::KubeconfigError>,
    },
    /// A cluster configuration was not found.
    #[error("no cluster configuration found; set --kubeconfig, or run in a pod")]
    NoCluster(#[source] Box<kube::config::InferConfigError>),
    /// The certificates or credentials of the cluster configuration are invalid.
    #[error("failed to create the Kubernetes client")]
    Client(#[source] Box<kube::Error>),
    /// The directory of the content store cannot be used.
    #[error("failed to open --storage-dir {path}")]
    Store {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the content store.
        source: Box<unpacker::store::Error>,
    },
    /// An address to listen on is in use or invalid.
    #[error(transparent)]
    Bind(#[from] http::BindError),
    /// The content service cannot start.
    #[error("failed to start the content service")]
    Serve(#[from] content::Error),
    /// The conversion webhook cannot start.
    #[error("failed to start the conversion webhook; choose another --bind-address")]
    Convert(#[from] crate::conversion_webhook::Error),
    /// Signal handlers cannot be installed.
    #[error("failed to listen for signals")]
    Signals(#[source] std::io::Error),
    /// Another replica may be the leader now.
    #[error("lost Lease {0}; exiting because another replica may be leading")]
    LeaseLost(String),
    /// A task that runs until shutdown has ended early.
    #[error("{0} stopped unexpectedly; exiting")]
    TaskExited(&'static str),
}
