//! How much may be read.

use clap::Args;
use manifests::{content::Limits, yaml};

const HEADING: &str = "Limits (sizes are bytes, or 64Ki, 32Mi, 1Gi, 5M and the like)";

/// How much may be read of a bundle that is converted.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    pub(super) files: FileLimitArgs,
    /// Values in all manifests of a bundle together.
    #[arg(long = "max-values", value_name = "COUNT", default_value_t = yaml::Limits::default().values)]
    pub(super) values: usize,
}

/// How much may be read of any source.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct FileLimitArgs {
    /// Size of all files together.
    #[arg(long = "max-size", value_name = "SIZE", value_parser = size, default_value = "32Mi")]
    size: u64,
    /// Size of one file.
    #[arg(long = "max-file-size", value_name = "SIZE", value_parser = size, default_value = "16Mi")]
    file_size: u64,
    /// Number of files, folders and links.
    #[arg(long = "max-entries", value_name = "COUNT", default_value_t = Limits::default().entries)]
    entries: usize,
    /// Length of a path in bytes.
    #[arg(long = "max-path-length", value_name = "BYTES", default_value_t = Limits::default().path)]
    path_length: usize,
    /// Depth of a path in folders.
    #[arg(long = "max-path-depth", value_name = "COUNT", default_value_t = Limits::default().depth)]
    path_depth: usize,
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

/// Reads a size as Kubernetes writes one.
fn size(text: &str) -> Result<u64, &'static str> {
    const PROBLEM: &str = "write a number of bytes, or one with Ki, Mi, Gi, k, M or G behind it";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.strip_prefix(digits) {
        Some("") => 1,
        Some("k") => 1000,
        Some("M") => 1000 * 1000,
        Some("G") => 1000 * 1000 * 1000,
        Some("Ki") => 1 << 10,
        Some("Mi") => 1 << 20,
        Some("Gi") => 1 << 30,
        _ => return Err(PROBLEM),
    };
    let number: u64 = digits.parse().map_err(|_| PROBLEM)?;
    number
        .checked_mul(unit)
        .ok_or("this is more than any machine has")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn default_limits_are_those_of_the_library() {
        let cli = Cli::try_parse_from(["rukpak", "validate", "x"]).unwrap();
        let Command::Validate(args) = cli.command else {
            panic!("another command");
        };
        assert_eq!(
            unpacker::Options::from(args.limits),
            unpacker::Options::default()
        );
    }

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("5k", Some(5000)),
            ("64Ki", Some(65536)),
            ("64Mi", Some(64 << 20)),
            ("2Gi", Some(2 << 30)),
            ("1M", Some(1_000_000)),
            ("", None),
            ("Mi", None),
            ("1.5Mi", None),
            ("-1", None),
            ("1mi", None),
            ("1 Mi", None),
            ("18446744073709551615Gi", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text:?}");
        }
    }
}
