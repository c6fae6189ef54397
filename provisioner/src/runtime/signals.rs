//! Handling of SIGTERM and SIGINT: the first signal starts a graceful shutdown, the second one exits immediately.

use std::{io, process};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Listener for SIGTERM and SIGINT.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts listening. From then on, signals do not terminate the process by default.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Cancels `stop` at the first signal, and exits at the second.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (name, _) = self.next().await;
        stop.cancel(); // first, so that the process is not ready once the message is logged
        info!(
            signal = name,
            "shutting down; send the signal again to exit immediately"
        );
        let (name, number) = self.next().await;
        warn!(signal = name, "exiting immediately");
        process::exit(128 + number);
    }

    /// Waits for the next signal, and returns its name and number.
    pub(crate) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", 15),
            _ = self.interrupt.recv() => ("SIGINT", 2),
        }
    }
}
