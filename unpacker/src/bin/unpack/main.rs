//! Uploads a directory of its container to a receiver, or writes it to standard output.

mod arguments;
mod report;

use std::{
    io::{self, IsTerminal as _},
    process::{self, ExitCode},
    sync::Arc,
    time::Instant,
};

use arguments::{Command, Target, Unpack};
use manifests::error::chain;
use report::TerminationLog;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    task,
};
use unpacker::job::{self, Payload};

fn main() -> ExitCode {
    let parsed = arguments::parse(std::env::args_os().skip(1));
    let result = match &parsed {
        Ok(Command::Help) => {
            print!("{}", arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Version) => {
            println!("unpack {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Ok(Command::Install(dir)) => job::install(dir, "unpack").map(|path| {
            report::line(&format!("installed {}", path.display()));
        }),
        Ok(Command::Unpack(unpack)) => run(unpack),
        Err(problem) => {
            TerminationLog::default()
                .failure("InvalidArguments", &format!("{problem}; see unpack --help"));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let report = match &parsed {
                Ok(Command::Unpack(unpack)) => unpack.report.clone(),
                _ => TerminationLog::default(),
            };
            report.failure(error.reason(), &chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the upload. One thread handles network and signals, and another one reads and compresses.
fn run(unpack: &Unpack) -> Result<(), job::Error> {
    let failed = |source| job::Error::Write { source };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        tokio::select! {
            result = upload(unpack) => result,
            _ = terminated.recv() => exit_after_signal(&unpack.report, "SIGTERM", 143),
            _ = interrupted.recv() => exit_after_signal(&unpack.report, "SIGINT", 130),
        }
    })
}

/// Exits immediately, without waiting for a thread that reads files. The exit code is that of a shell for the signal.
/// A stopped upload is not a result for the bundle: after the deletion of its pod, a Job has to create another one.
fn exit_after_signal(report: &TerminationLog, signal: &str, code: i32) -> ! {
    report.failure("Stopped", &format!("stopped by {signal}"));
    process::exit(code);
}

async fn upload(unpack: &Unpack) -> Result<(), job::Error> {
    let started = Instant::now();
    let (dir, options) = (unpack.dir.clone(), unpack.options.clone());
    let load = blocking(move || Payload::new(&dir, &options)).await?;
    let load = Arc::new(load);
    report::line(&format!(
        "sending {} files of {} to {}",
        load.files(),
        unpack.dir.display(),
        unpack.target
    ));
    let (packed, outcome) = match &unpack.target {
        Target::Stdout => {
            let load = Arc::clone(&load);
            let packed = blocking(move || load.write(io::stdout().lock())).await?;
            (packed, "written".to_owned())
        }
        Target::Receiver(receiver) => {
            let sent = job::send(&load, receiver, |error, attempts, delay| {
                let (of, delay) = (receiver.attempts, delay.as_secs_f32());
                let error = chain(error);
                report::line(&format!(
                    "attempt {attempts} of {of} failed; retrying in {delay:.1} s: {error}"
                ));
            });
            let sent = sent.await?;
            let outcome = if sent.already_stored {
                "already stored"
            } else {
                "stored"
            };
            (sent.packed, outcome.to_owned())
        }
    };
    let skipped = load.skipped();
    report::line(&format!(
        "{outcome}: {}, {} bytes of tar, in {:.2} s{}",
        packed.digest,
        packed.size,
        started.elapsed().as_secs_f32(),
        if skipped.is_empty() {
            String::new()
        } else {
            format!("; not regular files: {skipped}")
        },
    ));
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, job::Error> + Send + 'static,
) -> Result<T, job::Error> {
    task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let source = io::Error::other(error);
        Err(job::Error::Write { source })
    })
}

/// Reports whether the archive would be written to a terminal.
fn shows_output() -> bool {
    io::stdout().is_terminal()
}
