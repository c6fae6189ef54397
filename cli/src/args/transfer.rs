//! `rukpak unpack` and `rukpak push`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueHint};

use super::{AccessArgs, Description, FileLimitArgs, SOURCES};

/// Fetch a bundle, check it, and write it into a folder or an archive.
///
/// Without --output nothing is written, and the bundle is only described: what its source resolves to for good, the
/// digest of its content, and how much there is of it. With --output that goes to standard error, unless --format asks
/// for it.
///
/// The digest is the SHA-256 of the content as a tar whose order, times and owners are fixed, so that equal content has
/// the same digest wherever it comes from.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct UnpackArgs {
    /// A folder, an archive, an image, a git repository or a URL; see below.
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: OsString,
    /// Where the content goes: a folder that is new or empty; a file that ends in .tgz, .tar.gz or .tar, which is
    /// replaced if there is one; or "-" for a tar.gz on standard output. Either all of it appears or nothing.
    #[arg(short, long, value_name = "DIR|FILE|-", value_hint = ValueHint::AnyPath)]
    pub(crate) output: Option<PathBuf>,
    /// Write into a folder that is not empty. Files and folders that the content has at its top are replaced as a
    /// whole, all others stay. A .git is never replaced.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Take this folder or file only; may be repeated.
    #[arg(long, value_name = "PATH", conflicts_with = "all")]
    pub(crate) only: Vec<String>,
    /// Take everything of an image, too. Otherwise it is the folders that its labels name, else manifests and metadata.
    #[arg(long)]
    pub(crate) all: bool,
    /// Format of the description.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Description>,
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
/// gives the same image, byte by byte, and so the same digest; what is printed names the image by it.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// A folder, a tar or tar.gz file, or "-" for one on standard input.
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath)]
    pub(crate) bundle: OsString,
    /// Where it goes: registry/repository:tag, with docker:// before it or not.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: String,
    /// Only say what its digest would be; nothing is sent.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
    /// Print no progress and no warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: FileLimitArgs,
}
