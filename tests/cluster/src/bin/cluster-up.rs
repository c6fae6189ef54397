//! Starts a control plane and keeps it until Ctrl-C, or for as long as a command runs:
//!
//! ```text
//! cluster-up                       prints the line that points kubectl to it
//! cluster-up -- kubectl get ns     runs a command with KUBECONFIG set and kubectl in PATH, ends with its exit code
//! cluster-up --stand-in-node …     with a node that reports all pods Ready, and runs none
//! cluster-up --node …              with a real node, on a machine of its own: a shell there, or the command
//! cluster-up --node --check        says what this machine lacks for that
//! ```

use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context as _, Result, bail};
use cluster::machine::{self, Machine};
use cluster::{Cluster, Nodes, Options, worker};
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

const USAGE: &str =
    "usage: cluster-up [--node [--check] | --stand-in-node] [-- COMMAND [ARGUMENT]...]";

/// What pods run on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pods {
    Nothing,
    StandIn,
    Node,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut args = env::args_os().skip(1).peekable();
    let pods = match args.peek().and_then(|arg| arg.to_str()) {
        Some("--node") => Pods::Node,
        Some("--stand-in-node") => Pods::StandIn,
        _ => Pods::Nothing,
    };
    if pods != Pods::Nothing {
        args.next();
    }
    if pods == Pods::Node && args.next_if(|arg| arg == "--check").is_some() {
        machine::check()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command: Vec<OsString> = match args.next() {
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
    if pods == Pods::Node && machine::current().is_none() {
        return on_its_own_machine(&mut interrupt, &mut terminate).await;
    }
    let cluster = tokio::select! {
        cluster = start(pods) => cluster?,
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    if pods == Pods::Node && command.is_empty() {
        // Nobody else can reach it.
        command.push(env::var_os("SHELL").unwrap_or_else(|| "sh".into()));
    }
    let Some((program, arguments)) = command.split_first() else {
        announce(&cluster)?;
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        return Ok(ExitCode::SUCCESS);
    };

    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(
        cluster
            .programs()
            .into_iter()
            .chain(env::split_paths(&path)),
    )?;
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

/// Runs this program once more, with all its arguments, where a node can do as it likes.
async fn on_its_own_machine(interrupt: &mut Signal, terminate: &mut Signal) -> Result<ExitCode> {
    let machine = Machine::new()?;
    tokio::select! {
        built = worker::build() => built?, // there is no network to load sources from in there
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    }
    let mut command = machine.command(env::current_exe()?);
    command.args(env::args_os().skip(1));
    let mut child = Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .context("failed to run setpriv")?;
    tokio::select! {
        status = child.wait() => Ok(exit_code(status?)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

async fn start(pods: Pods) -> Result<Cluster> {
    if pods == Pods::Node {
        let nodes = Nodes::One;
        let options = Options {
            nodes,
            ..Options::default()
        };
        return Ok(Cluster::start_with(&options).await?);
    }
    let cluster = Cluster::start().await?;
    if pods == Pods::StandIn {
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
