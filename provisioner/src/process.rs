//! The process: flags, log, metrics, leadership, readiness, signals.
//!
//! ```text
//!  args ─> configuration ─> Context ─┬─ content service, probes, metrics, log level      until the end
//!                                    └─ Lease ─> label, kinds, bundle, instance ─────── while it leads
//!  first signal: what has begun comes to its end, then the Lease is left to others; second signal: the end
//!  Lease lost, or a part ended or panicked: the end, with exit code 1, to be started anew
//! ```

mod admission;
mod args;
mod cluster;
mod convert;
mod error;
mod fence;
mod http;
mod leader;
mod lease;
mod log;
mod parts;
mod ready;
mod serve;
mod signals;

use std::{io, num::NonZero, process::ExitCode, thread::available_parallelism, time::Duration};

use rustix::process::{Resource, Rlimit};
use tokio::runtime::{self, Runtime};
use tracing::{error, info, warn};

pub use args::Args;
use args::Command;
pub use cluster::{Woken, context};
pub use error::Error;
pub use fence::Fence;
pub(crate) use fence::Fenced;
pub use ready::{Ready, Task};

/// How many threads work at most; what blocks or computes has others.
const THREADS: usize = 4;
/// How long a thread for blocking work is kept without any: with its memory, and there are many for a moment only.
const IDLE: Duration = Duration::from_secs(1);

/// Runs until a signal comes, or something is wrong, and says in the log what that is.
pub fn run(args: Args) -> ExitCode {
    match &args.command {
        Some(Command::Serve(args)) => return serve::run(args),
        Some(Command::ConvertCatalogsources(args)) => {
            log::start(args.log_format, &args.log_level);
            return until_the_end(convert::run(args));
        }
        Some(Command::Copy(args)) => return serve::copy(args),
        None => {}
    }
    let level = log::start(args.log_format, &args.log_level);
    open_many_files();
    until_the_end(async {
        let configuration = args.configuration()?;
        for flag in &configuration.unused {
            warn!(flag, "this flag has no effect");
        }
        parts::run(configuration, level).await
    })
}

/// Does what the process is there for, and logs how it ended.
fn until_the_end(work: impl Future<Output = Result<(), Error>>) -> ExitCode {
    // There is one provider in the program, but two crates that would have to find that out.
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
    let outcome = runtime.block_on(work);
    // What does not end by itself, a download for example, need not be waited for.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => {
            info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            error!(error = unpacker::job::chain(&error), "failed");
            ExitCode::FAILURE
        }
    }
}

/// It waits most of the time: a large node's many threads would each keep memory for themselves.
fn runtime() -> io::Result<Runtime> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(THREADS);
    runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_keep_alive(IDLE)
        .enable_all()
        .build()
}

/// Lets the process open as many files as it may: the content of each Bundle is one, and where nobody has thought of it
/// the limit is 1024, for the sake of programs that use select(2).
fn open_many_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, most) {
        warn!(%error, "the limit of open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_as_allowed_may_be_open() {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let most = before.maximum.unwrap_or(1 << 20);
        let few = with!(before => current: Some(most - 1));
        rustix::process::setrlimit(Resource::Nofile, few).unwrap();
        open_many_files();
        let after = rustix::process::getrlimit(Resource::Nofile);
        assert_rows!((after.current, after.maximum) => (before.maximum, before.maximum));
    }
}
