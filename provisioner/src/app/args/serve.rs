//! Arguments of `provisioner serve` and `provisioner copy`.

use std::path::PathBuf;

use catalog::registry::startup::TERMINATION_LOG;
use clap::{ArgAction, Args, Subcommand, ValueHint};

use super::ConvertArgs;

/// Commands that run instead of the controllers.
#[derive(Debug, Subcommand)]
pub(in crate::app) enum Command {
    Serve(ServeArgs),
    Copy(CopyArgs),
    ConvertCatalogsources(ConvertArgs),
}

/// Serve one catalog over gRPC, like "opm serve"; the program of registry pods
///
/// Needs no cluster and no permissions. DIR is a file-based catalog or an SQLite database. Files of the catalog may be
/// compressed (*.yaml.gz, *.json.gz), and mounted ConfigMaps are supported. The catalog is validated and written into one
/// file before it is served: into --cache-dir or the temporary directory of the system, one of which must be writable.
/// Invalid packages are skipped and logged. Later changes on disk have no effect.
#[derive(Debug, Args)]
pub(in crate::app) struct ServeArgs {
    /// Directory of a file-based catalog, or a database
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub(in crate::app) catalog: PathBuf,
    /// Port to listen on, on all addresses; 0 for any free port
    #[arg(short, long, value_name = "PORT", default_value_t = 50051)]
    pub(in crate::app) port: u16,
    /// Directory for the cache of the catalog; an existing cache is used
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::app) cache_dir: Option<PathBuf>,
    /// Create the cache and exit
    #[arg(long)]
    pub(in crate::app) cache_only: bool,
    /// Fail unless the cache exists, belongs to this catalog and is complete. By default true with --cache-dir and without
    /// --cache-only; with "=false" the cache is recreated if necessary
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
    /// Serve the cache that --cache-dir created in this directory, if it exists and belongs to this catalog; the directory
    /// is never written to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "cache_dir")]
    pub(in crate::app) cache_from: Option<PathBuf>,
    /// Fail if any part of the catalog is skipped
    #[arg(long)]
    pub(in crate::app) strict: bool,
    /// File for the reason of a failure. The default is written only if the file exists, as in a pod
    #[arg(short, long, value_name = "FILE", default_value = TERMINATION_LOG)]
    pub(in crate::app) termination_log: PathBuf,
    /// Log more, including the start of each request
    #[arg(long)]
    pub(in crate::app) debug: bool,
}

/// Copy this program to DIR/provisioner, so that a container of another image can run it
#[derive(Debug, Args)]
pub(in crate::app) struct CopyArgs {
    /// Directory that both containers mount
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::app) folder: PathBuf,
}

impl ServeArgs {
    /// Reports whether only the contents of the cache may be served.
    pub(in crate::app) fn enforces(&self) -> bool {
        let default = self.cache_dir.is_some() && !self.cache_only;
        self.cache_enforce_integrity.unwrap_or(default)
    }
}
