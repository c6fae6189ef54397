//! The process: flags, log, metrics, leader election, readiness and signals.
//!
//! ```text
//!  args ─> RuntimeConfig ─> Context ─┬─ discovery, pull configuration, content service ─ until shutdown
//!                                    ├─ probes, metrics, log level ───────────────────── until shutdown
//!                                    └─ Lease ─> leader label, controllers ───────────── while leading
//!  first signal: running work finishes, then the Lease is released; second signal: immediate exit
//!  Lease lost, or a task ended or panicked: exit code 1, so that the kubelet restarts the container
//! ```

mod admission;
mod args;
mod convert;
mod error;
mod serve;
mod setup;
mod tasks;

use std::{io, num::NonZero, process::ExitCode, thread::available_parallelism, time::Duration};

use apply::api_error;
use rustix::process::{Resource, Rlimit};
use tokio::runtime::{self, Runtime};
use tracing::{error, info, warn};

pub use args::Args;
use args::Command;
pub use error::Error;
pub use setup::{WakeReceiver, context};

/// Maximum number of worker threads. Blocking and computing work uses other threads.
const MAX_THREADS: usize = 4;
/// Time that an idle blocking thread is kept. Each thread holds memory, and many threads are needed only for a moment.
const THREAD_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the process until a signal or a failure, and logs the failure.
pub fn run(args: Args) -> ExitCode {
    match &args.command {
        Some(Command::Serve(args)) => return serve::run(args),
        Some(Command::ConvertCatalogsources(args)) => {
            crate::runtime::log::start(args.log_format, &args.log_level);
            return block_on(convert::run(args));
        }
        Some(Command::Copy(args)) => return serve::copy(args),
        None => {}
    }
    let level = crate::runtime::log::start(args.log_format, &args.log_level);
    open_many_files();
    block_on(async {
        let configuration = args.configuration()?;
        for flag in &configuration.unused {
            warn!(flag, "this flag has no effect");
        }
        tasks::run(configuration, level).await
    })
}

/// Runs a future to its end, and logs the result.
fn block_on(future: impl Future<Output = Result<(), Error>>) -> ExitCode {
    // The program has a single crypto provider, which two of its crates would otherwise have to detect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "failed to start");
            return ExitCode::FAILURE;
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    info!(version, "starting");
    let outcome = runtime.block_on(future);
    // Does not wait for tasks that may not end by themselves, such as a download.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => {
            info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            error!(error = api_error::chain(&error), "failed");
            ExitCode::FAILURE
        }
    }
}

/// Returns a runtime with few threads: the process mostly waits, and each thread of a node with many CPUs would hold
/// memory.
fn runtime() -> io::Result<Runtime> {
    let threads = available_parallelism()
        .map_or(1, NonZero::get)
        .min(MAX_THREADS);
    runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_keep_alive(THREAD_IDLE_TIMEOUT)
        .enable_all()
        .build()
}

/// Raises the soft limit of open files to the hard limit: each Bundle has a file with its content. The default soft limit
/// is 1024, for programs that use select(2).
fn open_many_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        warn!(%error, "failed to raise the limit of open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limit_is_raised_to_the_maximum() {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let most = before.maximum.unwrap_or(1 << 20);
        let few = with!(before => current: Some(most - 1));
        rustix::process::setrlimit(Resource::Nofile, few).unwrap();
        open_many_files();
        let after = rustix::process::getrlimit(Resource::Nofile);
        assert_rows!((after.current, after.maximum) => (before.maximum, before.maximum));
    }
}
