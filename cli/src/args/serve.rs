//! `rukpak catalog serve`.

use std::path::PathBuf;

use catalog::registry::hosting::TERMINATION_LOG;
use clap::{ArgAction, Args, ValueHint};
use manifests::names;

/// Serve a catalog over gRPC, as "opm serve" does, and over HTTP, as catalogd does.
///
/// The catalog is checked and written into one file before it is served, and only an index of it is kept in memory. With
/// --cache-dir the file stays there and is used again for the same catalog; its name is the digest of the catalog's
/// files. Without it, the file is in the system's temporary folder and gone with the process.
///
/// Packages with faults, and bundles of formats that OLM does not know, are left out and told of; the others are served.
/// The catalog is read once: what changes on disk later is not seen. SIGTERM and SIGINT end the service after the
/// requests that are being answered.
#[derive(Debug, Args)]
pub(crate) struct CatalogServeArgs {
    /// The folder of a file-based catalog, or a catalog in an SQLite database.
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) folder: PathBuf,
    /// Port to listen on, on all addresses; 0 for any that is free.
    #[arg(short, long, value_name = "PORT", default_value_t = 50051)]
    pub(crate) port: u16,
    /// Serve the catalog over HTTP, too, on this port; 0 for any that is free.
    #[arg(long, value_name = "PORT")]
    pub(crate) http_port: Option<u16>,
    /// The catalog's name in URLs: /catalogs/NAME/api/v1/all.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "catalog",
        requires = "http_port",
        value_parser = subdomain
    )]
    pub(crate) http_name: String,
    /// Keep what is made of the catalog for gRPC in this folder, and use what is there.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Make the cache, and serve nothing.
    #[arg(long)]
    pub(crate) cache_only: bool,
    /// Fail unless the cache is there, of this very catalog, and whole. By default so with --cache-dir, unless
    /// --cache-only; with "=false" the cache is made again when it has to be.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = ArgAction::Set,
    )]
    pub(crate) cache_enforce_integrity: Option<bool>,
    /// Fail when anything of the catalog is left out.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write why the service failed into this file. The default is written only where it exists: in a pod.
    #[arg(short, long, value_name = "FILE", default_value = TERMINATION_LOG)]
    pub(crate) termination_log: PathBuf,
    /// Log more: also the beginning of each request.
    #[arg(long)]
    pub(crate) debug: bool,
}

fn subdomain(text: &str) -> Result<String, &'static str> {
    names::dns_subdomain(text).map(|()| text.to_owned())
}

impl CatalogServeArgs {
    /// Whether only what is in the cache may be served.
    pub(crate) fn enforces(&self) -> bool {
        let default = self.cache_dir.is_some() && !self.cache_only;
        self.cache_enforce_integrity.unwrap_or(default)
    }
}
