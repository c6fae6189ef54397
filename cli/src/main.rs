//! The `rukpak` command: converts, validates and inspects bundles without a cluster, fetches them from registries,
//! repositories and URLs, pushes them to registries, and installs them in a cluster.
//!
//! ```text
//!                           ┌─ conversion ─ output ── manifests: standard output, or a staged directory
//!  BUNDLE... ─ args ─ source├─ validation ─────────── findings: table, JSON, SARIF
//!                       │   ├─ inspection ─────────── bundle info and permissions: text, JSON, YAML
//!                     reach ┼─ unpacking ──────────── content: a staged directory, an archive
//!                 (networks)└─ pushing ────────────── an image in a registry
//!
//!  CATALOG... ─ args ─ source ── catalogs ───────────── findings, lists, a choice, a graph, a catalog server
//!                                    ├─ platform ────── manifests for a new cluster
//!                                    └─ upgrade ─────── a table, JSON, YAML; installed operators come from the cluster
//!
//!  NAME ─ args ─ cluster ─┬─ status ───────────────── a tree, a table, JSON, YAML
//!            (kubeconfig) ├─ installing, uninstalling  a BundleInstance, followed by watch
//!                         ├─ diff, adopting ────────  desired objects against live objects
//!                         ├─ history, rollback ───── revisions: the status, and records in Secrets
//!                         ├─ run ────────────────── a bundle under development, and its next version
//!                         ├─ pausing
//!                         └─ content ── service ────── the content service, through a port-forward
//! ```
//!
//! Data is written to standard output, and everything else to standard error. The exit code is 0 on success, 1 after a
//! failure or a rejection, 2 for an invalid command line, and 128 plus the signal number after a signal.

mod adopting;
mod age;
mod args;
mod catalog_sources;
mod catalogs;
mod cluster;
mod confirm;
mod content;
mod conversion;
mod desired;
mod diff;
mod folder;
mod history;
mod inspection;
mod installing;
mod interrupt;
mod live;
mod message;
mod output;
mod parallel;
mod pausing;
mod platform;
mod progress;
mod pushing;
mod reach;
mod revisions;
mod rollback;
mod run;
mod service;
mod source;
mod status;
mod table;
#[cfg(test)]
mod testing;
mod uninstalling;
mod unpacking;
mod upgrade;
mod validation;
mod version;
mod watch;

use std::process::ExitCode;

use crate::args::Command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Result of a command that did not return an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done,
    /// The command failed and has already printed the errors.
    Failed,
    /// The command returns a specific exit code.
    Code(u8),
}

fn main() -> ExitCode {
    let command = args::parse();
    // Like in kubectl diff, exit code 1 means that differences exist.
    let failure = match command {
        Command::Diff(_) => ExitCode::from(diff::EXIT_FAILED),
        _ => ExitCode::FAILURE,
    };
    let result = match command {
        Command::Convert(args) => conversion::run(&args),
        Command::Validate(args) => validation::run(&args),
        Command::Inspect(args) => inspection::run(&args),
        Command::Unpack(args) => unpacking::run(&args),
        Command::Push(args) => pushing::run(&args),
        Command::Catalog(args) => catalogs::run(&args),
        Command::CatalogSource(args) => catalog_sources::run(&args),
        Command::Platform(args) => platform::run(&args),
        Command::Install(args) => installing::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Adopt(args) => adopting::run(&args),
        Command::Status(args) => status::run(&args),
        Command::History(args) => history::run(&args),
        Command::Rollback(args) => rollback::run(&args),
        Command::Content(args) => content::run(&args),
        Command::Pause(args) => pausing::run(&args.change, true),
        Command::Resume(args) => pausing::run(&args.change, false),
        Command::Uninstall(args) => uninstalling::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Cleanup(args) => run::cleanup(&args),
        Command::UpgradeCheck(args) => upgrade::run(&args),
        Command::Completion(args) => version::completion(&args),
        Command::Version(args) => version::run(&args),
    };
    match result {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::FAILURE,
        Ok(Exit::Code(code)) => code.into(),
        // The reader of the data, such as `head`, has closed the pipe.
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            message::error(&format!("{error:#}"));
            failure
        }
    }
}
