//! `rukpak catalog serve`.

use std::path::PathBuf;

use catalog::registry::startup::TERMINATION_LOG;
use clap::{ArgAction, Args, ValueHint};
use manifests::names;

/// Serve a catalog over gRPC, as "opm serve" does, and over HTTP, as catalogd does.
///
/// The catalog is validated and written into one file before it is served. Only an index of this file is in memory. With
/// --cache-dir, the file is kept and reused for the same catalog; its name is the digest of the catalog's files. Without
/// it, the file is in the system's temporary directory and is deleted when the process exits.
///
/// Invalid packages, and bundles of formats that OLM does not support, are skipped with a warning; all others are served.
/// The catalog is read once, so later changes on disk have no effect. After SIGTERM or SIGINT the server exits when the
/// requests in progress are answered.
#[derive(Debug, Args)]
pub(crate) struct CatalogServeArgs {
    /// Directory of a file-based catalog, or a catalog in an SQLite database.
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) folder: PathBuf,
    /// Port to listen on, on all addresses; 0 for any free port.
    #[arg(short, long, value_name = "PORT", default_value_t = 50051)]
    pub(crate) port: u16,
    /// Port to serve the catalog over HTTP, too; 0 for any free port.
    #[arg(long, value_name = "PORT")]
    pub(crate) http_port: Option<u16>,
    /// Name of the catalog in URLs: /catalogs/NAME/api/v1/all.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "catalog",
        requires = "http_port",
        value_parser = subdomain
    )]
    pub(crate) http_name: String,
    /// Directory in which the gRPC cache of the catalog is kept and reused.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Create the cache, and serve nothing.
    #[arg(long)]
    pub(crate) cache_only: bool,
    /// Fail unless the cache exists, belongs to this catalog, and is complete. Default: true with --cache-dir, unless
    /// --cache-only is set. With "=false", the cache is recreated if necessary.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = ArgAction::Set,
    )]
    pub(crate) cache_enforce_integrity: Option<bool>,
    /// Fail if any part of the catalog is skipped.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write the reason of a failure into this file. The default is written only if it exists, as in a pod.
    #[arg(short, long, value_name = "FILE", default_value = TERMINATION_LOG)]
    pub(crate) termination_log: PathBuf,
    /// Log more, such as the start of each request.
    #[arg(long)]
    pub(crate) debug: bool,
}

fn subdomain(text: &str) -> Result<String, &'static str> {
    names::dns_subdomain(text).map(|()| text.to_owned())
}

impl CatalogServeArgs {
    /// Reports whether only an existing cache may be served.
    pub(crate) fn enforces_integrity(&self) -> bool {
        let default = self.cache_dir.is_some() && !self.cache_only;
        self.cache_enforce_integrity.unwrap_or(default)
    }
}
