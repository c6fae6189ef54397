//! Hands a folder of its container over: to a receiver, or to standard output.

mod arguments;
mod report;

use std::{
    io::{self, IsTerminal as _},
    process::{self, ExitCode},
    sync::Arc,
    time::Instant,
};

use arguments::{Command, Target, Unpack};
use report::Report;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    task,
};
use unpacker::job::{self, Load};

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
        Ok(Command::Install(folder)) => job::install(folder, "unpack").map(|path| {
            report::line(&format!("installed {}", path.display()));
        }),
        Ok(Command::Unpack(unpack)) => run(unpack),
        Err(problem) => {
            Report::default().failure("InvalidArguments", &format!("{problem}; see unpack --help"));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let report = match &parsed {
                Ok(Command::Unpack(unpack)) => unpack.report.clone(),
                _ => Report::default(),
            };
            report.failure(error.reason(), &job::chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// One thread waits for the network and for signals, another one reads and compresses.
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
            result = hand_over(unpack) => result,
            _ = terminated.recv() => stop(&unpack.report, "SIGTERM", 143),
            _ = interrupted.recv() => stop(&unpack.report, "SIGINT", 130),
        }
    })
}

/// At once: what reads a file elsewhere is not waited for. The exit code is a shell's for that signal: to be stopped says
/// nothing about the bundle, and a Job whose pod was deleted has to make another one.
fn stop(report: &Report, signal: &str, code: i32) -> ! {
    report.failure("Stopped", &format!("stopped by {signal}"));
    process::exit(code);
}

async fn hand_over(unpack: &Unpack) -> Result<(), job::Error> {
    let started = Instant::now();
    let (folder, options) = (unpack.folder.clone(), unpack.options.clone());
    let load = blocking(move || Load::new(&folder, &options)).await?;
    let load = Arc::new(load);
    report::line(&format!(
        "sending {} files of {} to {}",
        load.files(),
        unpack.folder.display(),
        unpack.target
    ));
    let (packed, how) = match &unpack.target {
        Target::Stdout => {
            let load = Arc::clone(&load);
            let packed = blocking(move || load.write(io::stdout().lock())).await?;
            (packed, "written".to_owned())
        }
        Target::Receiver(receiver) => {
            let sent = job::send(&load, receiver, |error, tries, wait| {
                let (of, wait) = (receiver.tries, wait.as_secs_f32());
                let error = job::chain(error);
                report::line(&format!(
                    "try {tries} of {of} failed, the next one follows in {wait:.1} s: {error}"
                ));
            });
            let sent = sent.await?;
            let how = if sent.known {
                "known already"
            } else {
                "stored"
            };
            (sent.packed, how.to_owned())
        }
    };
    let skipped = load.skipped();
    report::line(&format!(
        "{how}: {}, {} bytes of tar, in {:.2} s{}",
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

/// Whether an archive would end on somebody's screen.
fn shows_output() -> bool {
    io::stdout().is_terminal()
}
