//! Limits for reading bundles and other sources.

use clap::Args;
use manifests::{byte_size, content::Limits, yaml};

const HEADING: &str = "Limits (sizes in bytes, or with a suffix such as 64Ki, 32Mi, 1Gi or 5M)";

/// Limits for reading a bundle that is converted.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    pub(super) files: FileLimitArgs,
    /// Maximum number of values in all manifests of a bundle together.
    #[arg(long = "max-values", value_name = "COUNT", default_value_t = yaml::Limits::default().values)]
    pub(super) values: usize,
}

/// Limits for reading any source.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct FileLimitArgs {
    /// Maximum size of all files together.
    #[arg(long = "max-size", value_name = "SIZE", value_parser = byte_size::bytes, default_value = "32Mi")]
    size: u64,
    /// Maximum size of one file.
    #[arg(long = "max-file-size", value_name = "SIZE", value_parser = byte_size::bytes, default_value = "16Mi")]
    file_size: u64,
    /// Maximum number of files, directories and links.
    #[arg(long = "max-entries", value_name = "COUNT", default_value_t = Limits::default().entries)]
    entries: usize,
    /// Maximum length of a path in bytes.
    #[arg(long = "max-path-length", value_name = "BYTES", default_value_t = Limits::default().path)]
    path_length: usize,
    /// Maximum depth of a path in directories.
    #[arg(long = "max-path-depth", value_name = "COUNT", default_value_t = Limits::default().depth)]
    path_depth: usize,
}

impl LimitArgs {
    /// Returns the limits for parsing YAML.
    pub(crate) fn yaml(self) -> yaml::Limits {
        yaml::Limits {
            values: self.values,
            ..yaml::Limits::default()
        }
    }
}

impl From<LimitArgs> for unpacker::Options {
    fn from(args: LimitArgs) -> Self {
        args.files.into()
    }
}

impl From<FileLimitArgs> for unpacker::Options {
    fn from(args: FileLimitArgs) -> Self {
        Self {
            limits: Limits {
                total: args.size,
                file: args.file_size,
                entries: args.entries,
                path: args.path_length,
                depth: args.path_depth,
            },
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_limits_are_those_of_the_library() {
        let args: LimitArgs = crate::testing::parse(&[]).unwrap();
        assert_eq!(unpacker::Options::from(args), unpacker::Options::default());
    }
}
