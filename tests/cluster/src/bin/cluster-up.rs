//! Starts a control plane and keeps it until Ctrl-C, or for as long as a command runs:
//!
//! ```text
//! cluster-up                       prints the line that points kubectl to it
//! cluster-up -- kubectl get ns     runs a command with KUBECONFIG set and kubectl in PATH, ends with its exit code
//! cluster-up --stand-in-node …     with a node that reports all pods Ready, and runs none
//! ```

use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context as _, Result, bail};
use cluster::Cluster;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: cluster-up [--stand-in-node] [-- COMMAND [ARGUMENT]...]";

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut args = env::args_os().skip(1).peekable();
    let with_node = args.next_if(|arg| arg == "--stand-in-node").is_some();
    let command: Vec<OsString> = match args.next() {
        None => Vec::new(),
        Some(arg) if arg == "--" => args.collect(),
        Some(arg) if arg == "--help" || arg == "-h" => {
            println!("{USAGE}");
            return Ok(ExitCode::SUCCESS);
        }
        Some(_) => bail!(USAGE),
    };
    // From here on a signal ends nothing by itself: the control plane has to be stopped first.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let cluster = tokio::select! {
        cluster = start(with_node) => cluster?,
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    let Some((program, arguments)) = command.split_first() else {
        announce(&cluster)?;
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        return Ok(ExitCode::SUCCESS);
    };

    let folders = cluster.tools().map(Into::into).into_iter();
    let path =
        env::join_paths(folders.chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig_path())
        .env("PATH", path)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("failed to run {}", program.display()))?;
    // The terminal sends Ctrl-C to the command as well, which then ends as it sees fit.
    tokio::select! {
        status = child.wait() => Ok(exit_code(status?)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

async fn start(with_node: bool) -> Result<Cluster> {
    let cluster = Cluster::start().await?;
    if with_node {
        cluster.stand_in_node().await?;
    }
    Ok(cluster)
}

fn announce(cluster: &Cluster) -> Result<()> {
    let kubeconfig = cluster.kubeconfig_path().display();
    let path = cluster
        .tools()
        .map(|tools| format!("export PATH={}:$PATH\n", tools.display()));
    let lines = format!(
        "export KUBECONFIG={kubeconfig}\n{}",
        path.unwrap_or_default()
    );
    // In one write: a reader that closes the pipe after the first line must not end the control plane.
    let mut out = std::io::stdout().lock();
    out.write_all(lines.as_bytes())?;
    out.flush()?;
    eprintln!("The control plane runs until Ctrl-C.");
    Ok(())
}

/// A command's exit code as the shell gives it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
