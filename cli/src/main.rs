//! The `rukpak` command: converts, validates and inspects bundles without a cluster, fetches them from registries,
//! repositories and URLs, pushes them to registries, and installs them in a cluster.
//!
//! ```text
//!                           ┌─ convert ─── output ─── manifests: standard output, or a staged directory
//!  BUNDLE... ─ args ─ source├─ validate ───────────── findings: table, JSON, SARIF
//!                       │   ├─ inspect ────────────── bundle info and permissions: text, JSON, YAML
//!                     fetch ┼─ unpack ─────────────── content: a staged directory, an archive
//!                 (networks)└─ push ───────────────── an image in a registry
//!
//!  CATALOG... ─ args ─ source ── catalog ───────────── findings, lists, a choice, a graph, a catalog server
//!                                    ├─ platform_render  manifests for a new cluster
//!                                    └─ upgrade_check ─ a table, JSON, YAML; installed operators come from the cluster
//!
//!  NAME ─ args ─ cluster ─┬─ status ───────────────── a tree, a table, JSON, YAML
//!            (kubeconfig) ├─ install, uninstall ───── a BundleInstance, followed by cluster::watch
//!                         ├─ diff, adopt ──────────── desired objects against live objects
//!                         ├─ history, rollback ────── revisions: the status, and records in Secrets
//!                         ├─ run_bundle ───────────── a bundle under development, and its next version
//!                         ├─ pause
//!                         └─ content ──────────────── the content service, through a port-forward
//! ```
//!
//! The commands are the modules of [`commands`]. They use `cluster`, `fetch`, `source` and `output`, and these use no
//! command.
//!
//! Data is written to standard output, and everything else to standard error. The exit code is 0 on success, 1 after a
//! failure or a rejection, 2 for an invalid command line, and 128 plus the signal number after a signal.

mod age;
mod args;
mod cluster;
mod commands;
mod fetch;
mod output;
mod parallel;
mod source;
#[cfg(test)]
mod testing;

use std::process::ExitCode;

use crate::args::Command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Result of a command that did not return an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitStatus {
    Done,
    /// The command failed and has already printed the errors.
    Failed,
    /// The command returns a specific exit code.
    Code(u8),
}

/// Exit code if the reader closes the pipe before the end of the output: that of a process that SIGPIPE ends.
const EXIT_PIPE: u8 = 141;

fn main() -> ExitCode {
    let command = args::parse();
    // Like in kubectl diff, exit code 1 means that differences exist.
    let failure = match command {
        Command::Diff(_) => ExitCode::from(commands::diff::EXIT_FAILED),
        _ => ExitCode::FAILURE,
    };
    let closed_pipe = if command.only_prints() {
        ExitCode::SUCCESS
    } else {
        // Exit code 0 would report a result that the command may not have determined.
        ExitCode::from(EXIT_PIPE)
    };
    let result = match command {
        Command::Convert(args) => commands::convert::run(&args),
        Command::Validate(args) => commands::validate::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Unpack(args) => commands::unpack::run(&args),
        Command::Push(args) => commands::push::run(&args),
        Command::Catalog(args) => commands::catalog::run(&args),
        Command::CatalogSource(args) => commands::catalogsource::run(&args),
        Command::Platform(args) => commands::platform_render::run(&args),
        Command::Install(args) => commands::install::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Adopt(args) => commands::adopt::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::History(args) => commands::history::run(&args),
        Command::Rollback(args) => commands::rollback::run(&args),
        Command::Content(args) => commands::content::run(&args),
        Command::Pause(args) => commands::pause::run(&args.change, true),
        Command::Resume(args) => commands::pause::run(&args.change, false),
        Command::Uninstall(args) => commands::uninstall::run(&args),
        Command::Run(args) => commands::run_bundle::run(&args),
        Command::Cleanup(args) => commands::run_bundle::cleanup(&args),
        Command::UpgradeCheck(args) => commands::upgrade_check::run(&args),
        Command::Completion(args) => commands::version::completion(&args),
        Command::Version(args) => commands::version::run(&args),
    };
    match result {
        Ok(ExitStatus::Done) => ExitCode::SUCCESS,
        Ok(ExitStatus::Failed) => ExitCode::FAILURE,
        Ok(ExitStatus::Code(code)) => code.into(),
        // The reader of the data, such as `head`, has closed the pipe.
        Err(error) if output::is_closed(&error) => closed_pipe,
        Err(error) => {
            output::message::error(&format!("{error:#}"));
            failure
        }
    }
}
