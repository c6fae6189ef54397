//! Startup of a program that serves one catalog: opens the store, listens on a port, and writes the termination
//! message.

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use tokio::net::TcpListener;
use tracing::{info, warn};

use super::{
    cache::{self, Cache},
    store::Store,
};
use crate::{Limits, Source};

/// Path from which the kubelet reads the termination message of a container.
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// Bytes that the kubelet reads of a termination log.
const MAX_TERMINATION_LOG: usize = 4096;

/// Reasons why no catalog can be served. The messages are opm's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The integrity of the cache is enforced, and the cache is missing, outdated or damaged.
    #[error("integrity check failed")]
    Integrity(#[source] cache::Error),
    /// The store cannot be built.
    #[error("failed to load or rebuild cache")]
    Build(#[source] cache::Error),
    /// The temporary directory cannot be created.
    #[error("failed to load or rebuild cache")]
    Directory(#[source] io::Error),
}

/// Opens the store of a catalog in a cache directory. Without `cache`, the store is a file without a name in the
/// system's temporary directory, which disappears when the process ends. With `enforces`, the directory must already
/// contain the store.
///
/// # Errors
/// Returns an error if the catalog cannot be read or the store cannot be written.
pub fn open(
    source: Source<'_>,
    limits: &Limits,
    cache: Option<&Path>,
    enforces: bool,
) -> Result<Store, Error> {
    if enforces && let Some(directory) = cache {
        let load = || Cache::open(directory)?.load(source, limits);
        return load().map_err(Error::Integrity);
    }
    let build = |directory: &Path| {
        let (store, is_new) = Cache::open(directory)?.load_or_build(source, limits)?;
        info!(is_new, "opened the cache");
        Ok(store)
    };
    if let Some(directory) = cache {
        return build(directory).map_err(Error::Build);
    }
    // The open file remains readable after its name is removed.
    let directory = tempfile::Builder::new()
        .prefix("rukpak-serve-cache-")
        .tempdir()
        .map_err(Error::Directory)?;
    build(directory.path()).map_err(Error::Build)
}

/// Listens on all addresses of both IP families, or of IPv4 only if IPv6 is unavailable.
///
/// # Errors
/// Returns an error if the port is in use or unavailable.
pub async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await,
    }
}

/// Writes a termination message for the kubelet, truncated to the length that the kubelet reads. [`TERMINATION_LOG`] is
/// written only if it exists, that is, in a pod.
pub fn write_termination_log(path: &Path, text: &str) {
    if path == Path::new(TERMINATION_LOG) && !path.exists() {
        return;
    }
    let mut end = text.len().min(MAX_TERMINATION_LOG);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // A missing message is not worth another failure.
    if let Err(error) = fs::write(path, text.get(..end).unwrap_or_default()) {
        warn!(%error, path = %path.display(), "failed to write the termination log");
    }
}
