//! Why the process ends.

use std::{net::SocketAddr, path::PathBuf};

use crate::content;

/// Why the process cannot begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Whoever reaches this port may change the log level.
    #[error(
        "--admin-bind-address {0} can be reached from other pods, and asks for no password; use 127.0.0.1:PORT or 0, and `kubectl port-forward` to reach it"
    )]
    Admin(String),
    /// Bundles have a contentURL.
    #[error("--content-bind-address cannot be 0: what Bundles' contentURLs name has to be served")]
    Content,
    /// Not even one bundle fits in.
    #[error("--storage-size is less than --max-bundle-size: the largest bundle has to fit in")]
    Storage,
    /// A file that a flag names.
    #[error("failed to read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that a flag names.
    #[error("failed to read the certificates of {path}")]
    Authorities {
        /// Which.
        path: PathBuf,
        /// Why.
        source: unpacker::web::Error,
    },
    /// A file that a flag names.
    #[error("failed to read the mirrors of {path}")]
    Mirrors {
        /// Which.
        path: PathBuf,
        /// Why.
        source: unpacker::registry::mirrors::Error,
    },
    /// A file that a flag names.
    #[error("{0} has no certificate; --ca-file takes certificates in PEM")]
    NoAuthorities(PathBuf),
    /// There is no cluster to talk to.
    #[error("failed to read the kubeconfig {path}")]
    Kubeconfig {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Box<kube::config::KubeconfigError>,
    },
    /// There is no cluster to talk to.
    #[error("found no cluster; name a kubeconfig by --kubeconfig, or run in a pod")]
    NoCluster(#[source] Box<kube::config::InferConfigError>),
    /// The cluster's certificates or credentials are no good.
    #[error("failed to make a client of the cluster")]
    Client(#[source] Box<kube::Error>),
    /// The folder for content cannot be used.
    #[error("failed to open --storage-dir {path}")]
    Store {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Box<unpacker::store::Error>,
    },
    /// A port is taken.
    #[error("failed to listen on {address} for {service}; choose another address by {flag}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// For what.
        service: &'static str,
        /// What names it.
        flag: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The content service cannot begin.
    #[error("failed to start the content service")]
    Serve(#[from] content::Error),
    /// The conversion webhook cannot begin.
    #[error("failed to start the conversion webhook; choose another --bind-address")]
    Convert(#[from] crate::conversion::Error),
    /// Signals cannot be heard.
    #[error("failed to listen for signals")]
    Signals(#[source] std::io::Error),
    /// Somebody else leads now.
    #[error("lost the Lease {0}: another replica may work now, so this one ends at once")]
    Lost(String),
    /// What runs until the end has ended before.
    #[error("{0} ended unexpectedly; this process ends with it, to be started anew")]
    Ended(&'static str),
}
