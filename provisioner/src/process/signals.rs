//! SIGTERM and SIGINT: the first lets what has begun come to its end, the second does not.

use std::{io, process};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Hears signals.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on signals do not end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Cancels `stop` at the first signal, and ends the process at the second.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let (name, _) = self.next().await;
        info!(
            signal = name,
            "stopping: what has begun is brought to its end; a second signal ends it at once"
        );
        stop.cancel();
        let (name, number) = self.next().await;
        warn!(signal = name, "ending at once");
        process::exit(128 + number);
    }

    /// The name and the number of the next one.
    pub(super) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", 15),
            _ = self.interrupt.recv() => ("SIGINT", 2),
        }
    }
}
