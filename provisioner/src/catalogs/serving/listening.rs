//! A port at which a catalog is served, whatever the catalog becomes.
//!
//! The socket outlives its catalogs: another catalog begins to take connections from it before the former one stops, so
//! there is no moment in which nobody listens. Who is connected to the former one gets its answers, and is told to
//! connect again.

use std::{io, net::TcpListener, sync::Arc};

use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::stores::Served;

/// A port, and who answers there. Nobody does any more when it is dropped.
#[derive(Debug)]
pub struct Listening {
    socket: TcpListener,
    port: u16,
    now: Option<(Arc<Served>, DropGuard)>,
}

// === impl Listening ===

impl Listening {
    /// Takes a socket that listens and does not block.
    ///
    /// # Errors
    /// When it has no address.
    pub fn new(socket: TcpListener) -> io::Result<Self> {
        Ok(Self {
            port: socket.local_addr()?.port(),
            socket,
            now: None,
        })
    }

    /// Its number.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reports whether anything is served.
    pub fn is_used(&self) -> bool {
        self.now.is_some()
    }

    /// Reports whether this is what is served.
    pub fn shows(&self, served: &Arc<Served>) -> bool {
        let now = self.now.as_ref();
        now.is_some_and(|(now, _)| Arc::ptr_eq(now, served))
    }

    /// Serves this from now on.
    ///
    /// # Errors
    /// When there are no file descriptors left; what was served before still is.
    pub fn show(&mut self, served: Arc<Served>) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.socket.try_clone()?)?;
        let (stop, service, port) = (
            CancellationToken::new(),
            served.service().clone(),
            self.port,
        );
        let stopped = stop.clone();
        tokio::spawn(async move {
            if let Err(error) = service.serve(listener, stopped.cancelled_owned()).await {
                let error = unpacker::job::chain(&error);
                warn!(port, error, "a catalog is not served any more");
            }
        });
        self.now = Some((served, stop.drop_guard()));
        Ok(())
    }
}
