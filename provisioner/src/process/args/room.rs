//! Flags of where content is kept, and of how large it may be.

use std::path::PathBuf;

use clap::Args;
use manifests::yaml;
use unpacker::{Limits, store::Budget};

use super::{Error, values};

/// What there is for bundles.
#[derive(Debug, Args)]
#[command(next_help_heading = "Storage and limits")]
pub(super) struct Room {
    /// The folder for bundles' content
    #[arg(long, value_name = "FOLDER", default_value = "/var/cache/bundles")]
    storage_dir: PathBuf,

    /// How much of it may be used; what was used longest ago makes room
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 64 << 20),
        default_value = "4Gi"
    )]
    storage_size: u64,

    /// How much content is kept in memory
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 0),
        default_value = "4Mi"
    )]
    memory_cache: u64,

    /// The folder survives this pod: uploads that are too large for the cluster (8 MiB) are taken, too
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

    /// All files of a bundle together
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 1 << 10),
        default_value = "32Mi"
    )]
    max_bundle_size: u64,

    /// One file of a bundle
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 1 << 10),
        default_value = "16Mi"
    )]
    max_file_size: u64,

    /// Files and folders of a bundle
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        default_value_t = 10_000
    )]
    max_files: u32,

    /// Values in all manifests of a bundle together: entries of mappings and lists. Memory that they may take follows
    /// from it: 100 bytes for each, and at least 64 MiB
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000),
        default_value_t = MAX_VALUES
    )]
    max_values: u32,
}

/// The default of `--max-values`.
#[allow(clippy::cast_possible_truncation)] // it is far below
const MAX_VALUES: u32 = crate::settings::MAX_VALUES as u32;

impl Room {
    /// The largest bundle has to fit in.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.storage_size < self.max_bundle_size {
            return Err(Error::Storage);
        }
        Ok(())
    }

    /// What bundles may have.
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

    /// The limits of manifests.
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

    pub(super) fn folder(self) -> PathBuf {
        self.storage_dir
    }
}
