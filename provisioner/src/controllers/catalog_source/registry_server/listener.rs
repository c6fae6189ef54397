//! Port at which a catalog is served, independent of its content.
//!
//! The socket outlives the content. A new server accepts connections from it before the previous one stops, so the port is
//! never closed in between. Clients of the previous server get their pending responses and are asked to reconnect.

use std::{io, net::TcpListener, sync::Arc};

use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::stores::ServedStore;

/// Listening port and the server behind it. Dropping it stops the server.
#[derive(Debug)]
pub struct CatalogListener {
    socket: TcpListener,
    port: u16,
    now: Option<(Arc<ServedStore>, DropGuard)>,
}

// === impl CatalogListener ===

impl CatalogListener {
    /// Wraps a non-blocking socket that is already listening.
    ///
    /// # Errors
    /// Returns an error if the socket has no local address.
    pub fn new(socket: TcpListener) -> io::Result<Self> {
        Ok(Self {
            port: socket.local_addr()?.port(),
            socket,
            now: None,
        })
    }

    /// Returns the port number.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reports whether any content is served.
    pub fn is_used(&self) -> bool {
        self.now.is_some()
    }

    /// Reports whether this content is being served.
    pub fn is_serving(&self, served: &Arc<ServedStore>) -> bool {
        let now = self.now.as_ref();
        now.is_some_and(|(now, _)| Arc::ptr_eq(now, served))
    }

    /// Serves this content in place of the current one.
    ///
    /// # Errors
    /// Returns an error if no file descriptors are left. The previous content is then still served.
    pub fn serve(&mut self, served: Arc<ServedStore>) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.socket.try_clone()?)?;
        let (stop, service, port) = (
            CancellationToken::new(),
            served.service().clone(),
            self.port,
        );
        let stopped = stop.clone();
        tokio::spawn(async move {
            if let Err(error) = service.serve(listener, stopped.cancelled_owned()).await {
                let error = manifests::error::chain(&error);
                warn!(port, error, "the server of a catalog stopped");
            }
        });
        self.now = Some((served, stop.drop_guard()));
        Ok(())
    }
}
