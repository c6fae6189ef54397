//! `rukpak unpack` and `rukpak push`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueHint};

use super::{AccessArgs, DescriptionFormat, FileLimitArgs, SOURCES};

/// Fetch and check a bundle, and write it into a directory or an archive.
///
/// Without --output, nothing is written and the bundle is only described: the pinned form of its source, the digest of its
/// content, and its size. With --output, the description is printed to standard error, unless --format requests it.
///
/// The digest is the SHA-256 of the content as a tar with fixed order, times and owners, so that equal content has the same
/// digest regardless of its source.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct UnpackArgs {
    /// Directory, archive, image, git repository or URL; see below.
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: OsString,
    /// Destination of the content: a directory that is new or empty; a file that ends in .tgz, .tar.gz or .tar, which is
    /// replaced if it exists; or "-" for a tar.gz on standard output. Either all content is written or nothing.
    #[arg(short, long, value_name = "DIR|FILE|-", value_hint = ValueHint::AnyPath)]
    pub(crate) output: Option<PathBuf>,
    /// Write into a directory that is not empty. Top-level files and directories of the content are replaced as a whole,
    /// all others are kept. A .git is never replaced.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Only take this directory or file; may be repeated.
    #[arg(long, value_name = "PATH", conflicts_with = "all")]
    pub(crate) only: Vec<String>,
    /// Take all files of an image, too. Default: the directories that its labels name, else manifests and metadata.
    #[arg(long)]
    pub(crate) all: bool,
    /// Format of the description.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<DescriptionFormat>,
    /// Write the description into this JSON file, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Print no progress, no notes and, with --output, no description.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: FileLimitArgs,
}

/// Publish a bundle as an image.
///
/// The image has manifests, metadata and tests of the bundle in one layer, and its annotations as labels. The same bundle
/// gives the same image, byte by byte, and thus the same digest. The printed name of the image contains the digest.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Directory, tar or tar.gz file, or "-" for one of the latter on standard input.
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath)]
    pub(crate) bundle: OsString,
    /// Target image: registry/repository:tag, with or without docker:// before it.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: String,
    /// Only print the digest that the image would have; nothing is sent.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
    /// Print no progress and no warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: FileLimitArgs,
}
