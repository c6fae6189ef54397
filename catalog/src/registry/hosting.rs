//! What a program needs that serves one catalog: its store, a port, and a way to say why it ended.

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

/// Where the kubelet looks for what a container has to say in the end.
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// What a kubelet reads of a termination log, in bytes.
const LAST_WORDS: usize = 4096;

/// Why there is nothing to serve; the words are opm's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is in the cache may be served only if it is whole, and it is not.
    #[error("integrity check failed")]
    Integrity(#[source] cache::Error),
    /// The store cannot be made.
    #[error("failed to load or rebuild cache")]
    Build(#[source] cache::Error),
    /// There is no space for it.
    #[error("failed to load or rebuild cache")]
    Folder(#[source] io::Error),
}

/// The store of a catalog, from a folder that it is kept in. Without one it is in the system's temporary folder, and gone
/// with the process however that ends. With `enforces`, the folder must have it already.
///
/// # Errors
/// When the catalog cannot be read, or the store not be kept.
pub fn open(
    source: Source<'_>,
    limits: &Limits,
    cache: Option<&Path>,
    enforces: bool,
) -> Result<Store, Error> {
    if enforces && let Some(place) = cache {
        let load = || Cache::open(place)?.load(source, limits);
        return load().map_err(Error::Integrity);
    }
    let build = |place: &Path| {
        let (store, is_new) = Cache::open(place)?.load_or_build(source, limits)?;
        info!(is_new, "opened the cache");
        Ok(store)
    };
    if let Some(place) = cache {
        return build(place).map_err(Error::Build);
    }
    // What is open stays when its name is gone.
    let place = tempfile::Builder::new()
        .prefix("rukpak-serve-cache-")
        .tempdir()
        .map_err(Error::Folder)?;
    build(place.path()).map_err(Error::Build)
}

/// Listens on all addresses, of both families where there are both.
///
/// # Errors
/// When the port is taken, or not to be had.
pub async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await,
    }
}

/// Leaves a message where the kubelet finds it, cut to what it reads. [`TERMINATION_LOG`] is written only where it is: in
/// a pod.
pub fn last_words(path: &Path, text: &str) {
    if path == Path::new(TERMINATION_LOG) && !path.exists() {
        return;
    }
    let mut end = text.len().min(LAST_WORDS);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // That there is none is no other failure.
    if let Err(error) = fs::write(path, text.get(..end).unwrap_or_default()) {
        warn!(%error, path = %path.display(), "the termination log was not written");
    }
}
