//! `provisioner serve`.

use std::path::PathBuf;

use catalog::registry::hosting::TERMINATION_LOG;
use clap::{ArgAction, Args, Subcommand, ValueHint};

use super::ConvertArgs;

/// What the program does instead of working in the cluster.
#[derive(Debug, Subcommand)]
pub(in crate::process) enum Command {
    Serve(ServeArgs),
    Copy(CopyArgs),
    ConvertCatalogsources(ConvertArgs),
}

/// Serve one catalog over gRPC, as "opm serve" does, and nothing else: what the pod of a catalog runs
///
/// Needs no cluster and no rights. DIR is a file-based catalog, or one in an SQLite database. Parts of it may be
/// compressed (*.yaml.gz, *.json.gz), and ConfigMaps that are mounted there are read as what they hold. The catalog is
/// checked and written into one file before it is served: into --cache-dir, else into the system's temporary folder, one
/// of which has to be writable. Packages with faults are left out and told of. What changes on disk later is not seen.
#[derive(Debug, Args)]
pub(in crate::process) struct ServeArgs {
    /// The folder of a file-based catalog, or a database
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub(in crate::process) catalog: PathBuf,
    /// Port to listen on, on all addresses; 0 for any that is free
    #[arg(short, long, value_name = "PORT", default_value_t = 50051)]
    pub(in crate::process) port: u16,
    /// Keep what is made of the catalog in this folder, and use what is there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::process) cache_dir: Option<PathBuf>,
    /// Make the cache, and serve nothing
    #[arg(long)]
    pub(in crate::process) cache_only: bool,
    /// Fail unless the cache is there, of this very catalog, and whole. By default so with --cache-dir, unless
    /// --cache-only; with "=false" the cache is made again when it has to be
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        requires_if("true", "cache_dir"),
        action = ArgAction::Set,
    )]
    cache_enforce_integrity: Option<bool>,
    /// Serve what --cache-dir has made in this folder before, if it is there and of this very catalog; never written to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "cache_dir")]
    pub(in crate::process) cache_from: Option<PathBuf>,
    /// Fail when anything of the catalog is left out
    #[arg(long)]
    pub(in crate::process) strict: bool,
    /// Write why the service failed into this file. The default is written only where it exists: in a pod
    #[arg(short, long, value_name = "FILE", default_value = TERMINATION_LOG)]
    pub(in crate::process) termination_log: PathBuf,
    /// Log more: also the beginning of each request
    #[arg(long)]
    pub(in crate::process) debug: bool,
}

/// Copy this program to DIR/provisioner, for a container of another image to run it there
#[derive(Debug, Args)]
pub(in crate::process) struct CopyArgs {
    /// The folder, which both containers have
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::process) folder: PathBuf,
}

impl ServeArgs {
    /// Reports whether only what is in the cache may be served.
    pub(in crate::process) fn enforces(&self) -> bool {
        let default = self.cache_dir.is_some() && !self.cache_only;
        self.cache_enforce_integrity.unwrap_or(default)
    }
}
