//! The `rukpak` command: what a bundle becomes, what is wrong with it, and what it may do, without a cluster; the way of
//! bundles from registries, repositories and URLs, and into registries; and what is installed in a cluster.
//!
//! ```text
//!                           ┌─ conversion ─ output ── manifests: standard output, or a staged folder
//!  BUNDLE... ─ args ─ source├─ validation ─────────── findings: table, JSON, SARIF
//!                       │   ├─ inspection ─────────── facts and rights: text, JSON, YAML
//!                     reach ┼─ unpacking ──────────── content: a staged folder, an archive
//!                 (networks)└─ pushing ────────────── an image in a registry
//!
//!  CATALOG... ─ args ─ source ── catalogs ───────────── findings, lists, a decision, a drawing, a service
//!                                    ├─ platform ────── manifests for a cluster that is to be built
//!                                    └─ upgrade ─────── a table, JSON, YAML; what is installed comes from the cluster
//!
//!  NAME ─ args ─ cluster ─┬─ status ───────────────── a tree, a table, JSON, YAML
//!            (kubeconfig) ├─ installing, uninstalling  a BundleInstance; watch tells what becomes of it
//!                         ├─ diff, adopting ────────  desired (what a bundle would be) against live (what is there)
//!                         ├─ history, rollback ───── revisions: the status, and records in Secrets
//!                         ├─ run ────────────────── a bundle that is being worked on, and its next version
//!                         ├─ pausing
//!                         └─ content ── service ────── the content service, through a port-forward
//! ```
//!
//! Data goes to standard output and everything else to standard error. The exit code is 0 when all went well, 1 when
//! something failed or was refused, 2 when the command line makes no sense, 130 and so on when a signal ended it.

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

/// How a command ended that was able to do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done,
    /// It said so already.
    Failed,
    /// For whoever reads exit codes.
    Code(u8),
}

fn main() -> ExitCode {
    let command = args::parse();
    // As of kubectl diff: 1 says that there are differences.
    let failure = match command {
        Command::Diff(_) => ExitCode::from(diff::FAILED),
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
        // Whoever reads the data, as `head` does, has seen enough.
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            message::error(&format!("{error:#}"));
            failure
        }
    }
}
