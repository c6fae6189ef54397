//! Starts a control plane and keeps it until Ctrl-C, or for as long as a command runs:
//!
//! ```text
//! cluster-up                       prints the line that points kubectl to it
//! cluster-up -- kubectl get ns     runs a command with KUBECONFIG set and kubectl in PATH, ends with its exit code
//! cluster-up --stand-in-node …     with a node that reports all pods Ready, and runs none
//! cluster-up --node …              with a real node, on a separate machine: a shell there, or the command
//! cluster-up --node --check        prints the first requirement of that which this machine lacks
//! cluster-up --machine -- …        runs the command on such a machine, with neither cluster nor programs
//! ```

use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::iter;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context as _, Result, bail};
use cluster::sandbox::{self, Machine};
use cluster::{Cluster, Controllers, Nodes, Options, node};
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

const USAGE: &str =
    "usage: cluster-up [--node [--check] | --stand-in-node | --machine] [-- COMMAND [ARGUMENT]...]";

/// The node that pods run on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pods {
    Nothing,
    StandIn,
    Node,
    /// Neither a node nor a control plane.
    Nowhere,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut args = env::args_os().skip(1).peekable();
    let pods = match args.peek().and_then(|arg| arg.to_str()) {
        Some("--node") => Pods::Node,
        Some("--stand-in-node") => Pods::StandIn,
        Some("--machine") => Pods::Nowhere,
        _ => Pods::Nothing,
    };
    if pods != Pods::Nothing {
        args.next();
    }
    if pods == Pods::Node && args.next_if(|arg| arg == "--check").is_some() {
        sandbox::check()?;
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
    if pods == Pods::Nowhere && command.is_empty() {
        bail!(USAGE);
    }
    // From now on a signal does not end the process: the control plane has to be stopped first.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    if pods == Pods::Nowhere {
        let machine = Machine::new()?;
        return on(&machine, &command, &mut terminate).await;
    }
    if pods == Pods::Node && sandbox::current().is_none() {
        let machine = Machine::new()?;
        tokio::select! {
            built = node::build() => built?, // the machine has no network to load sources
            _ = interrupt.recv() => return Ok(ExitCode::from(130)),
            _ = terminate.recv() => return Ok(ExitCode::from(143)),
        }
        let again = iter::once(env::current_exe()?.into()).chain(env::args_os().skip(1));
        return on(&machine, &again.collect::<Vec<_>>(), &mut terminate).await;
    }
    let cluster = tokio::select! {
        cluster = start(pods) => cluster?,
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    if pods == Pods::Node && command.is_empty() {
        // Only processes on the machine can reach the server.
        command.push(env::var_os("SHELL").unwrap_or_else(|| "sh".into()));
    }
    let Some((program, arguments)) = command.split_first() else {
        announce(&cluster)?;
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        return Ok(ExitCode::SUCCESS);
    };

    let path = env::var_os("PATH").unwrap_or_default();
    let programs = cluster.programs().into_iter();
    let path = env::join_paths(programs.chain(env::split_paths(&path)))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig_path())
        .env("PATH", path)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("failed to run {}", program.display()))?;
    // The terminal sends Ctrl-C to the command as well, which handles the signal itself.
    tokio::select! {
        status = child.wait() => Ok(exit_code(status?)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

/// Runs a command on a separate machine, which ends with the command.
async fn on(machine: &Machine, command: &[OsString], terminate: &mut Signal) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context(USAGE)?;
    let mut command = Command::from(machine.command(program));
    let child = command.args(arguments).kill_on_drop(true).spawn();
    let mut child = child.context("failed to run setpriv")?;
    tokio::select! {
        status = child.wait() => Ok(exit_code(status?)),
        _ = terminate.recv() => {
            // The machine's resources can be removed after its end.
            child.kill().await?;
            Ok(ExitCode::from(143))
        }
    }
}

async fn start(pods: Pods) -> Result<Cluster> {
    if pods == Pods::Node {
        let mut options = Options::new(Controllers::On, None);
        options.nodes = Nodes::One;
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
    let path = |tools: &Path| format!("export PATH={}:$PATH\n", tools.display());
    let path = cluster.tools().map(path).unwrap_or_default();
    let lines = format!("export KUBECONFIG={kubeconfig}\n{path}");
    // One write, because a reader that closes the pipe after the first line must not end the control plane.
    let mut out = std::io::stdout().lock();
    out.write_all(lines.as_bytes())?;
    out.flush()?;
    eprintln!("The control plane runs until Ctrl-C.");
    Ok(())
}

/// A command's exit code as the shell gives it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let of_signal = || Some(128 + status.signal()?);
    let code = status.code().or_else(of_signal);
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
