//! Flags of the content store and its limits.

use std::path::PathBuf;

use clap::Args;
use manifests::yaml;
use unpacker::{Limits, store::Budget};

use super::{Error, values};

/// Flags of the content store and of the limits of bundles.
#[derive(Debug, Args)]
#[command(next_help_heading = "Storage and limits")]
pub(super) struct StorageArgs {
    /// Directory of the content store
    #[arg(long, value_name = "FOLDER", default_value = "/var/cache/bundles")]
    storage_dir: PathBuf,

    /// Maximum size of the content store; the least recently used content is evicted
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 64 << 20),
        default_value = "4Gi"
    )]
    storage_size: u64,

    /// Maximum size of the content that is cached in memory
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 0),
        default_value = "4Mi"
    )]
    memory_cache: u64,

    /// Declare that the storage directory outlives this pod: uploads that are too large for the cluster (8 MiB) are
    /// accepted, too
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        default_value_t = false,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    persistent_storage: bool,

    /// Maximum size of all files of a bundle together
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 1 << 10),
        default_value = "32Mi"
    )]
    max_bundle_size: u64,

    /// Maximum size of one file of a bundle
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 1 << 10),
        default_value = "16Mi"
    )]
    max_file_size: u64,

    /// Maximum number of files and directories of a bundle
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        default_value_t = 10_000
    )]
    max_files: u32,

    /// Maximum number of values in all manifests of a bundle together: entries of mappings and lists. Also sets the maximum
    /// memory for values: 100 bytes for each, and at least 64 MiB
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000),
        default_value_t = MAX_VALUES
    )]
    max_values: u32,
}

/// Default of `--max-values`.
#[allow(clippy::cast_possible_truncation)] // far below u32::MAX
const MAX_VALUES: u32 = crate::runtime::settings::MAX_VALUES as u32;

impl StorageArgs {
    /// Returns an error if the largest permitted bundle exceeds the content store.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.storage_size < self.max_bundle_size {
            return Err(Error::Storage);
        }
        Ok(())
    }

    /// Returns the options for unpacking, with the limits of bundles.
    pub(super) fn unpack(&self) -> unpacker::Options {
        let defaults = unpacker::Options::default();
        unpacker::Options {
            limits: Limits {
                total: self.max_bundle_size,
                file: self.max_file_size.min(self.max_bundle_size),
                entries: usize::try_from(self.max_files).unwrap_or(usize::MAX),
                ..defaults.limits
            },
            ..defaults
        }
    }

    /// Returns the limits of manifests.
    pub(super) fn manifests(&self) -> yaml::Limits {
        yaml::Limits::with_values(usize::try_from(self.max_values).unwrap_or(usize::MAX))
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.persistent_storage
    }

    pub(super) fn budget(&self) -> Budget {
        Budget {
            disk: self.storage_size,
            memory: self.memory_cache,
        }
    }

    pub(super) fn dir(self) -> PathBuf {
        self.storage_dir
    }
}
