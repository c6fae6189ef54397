//! Destination of unpacked content.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use unpacker::{Format, Tree};

use crate::{
    args,
    output::{
        self, AtomicFile,
        staged_dir::{ExistingPolicy, FILE, StagedDir},
    },
};

const EXECUTABLE: u32 = 0o755;
/// Output formats of other commands. They are rejected as directory names, because the user probably meant `--format`.
const FORMATS: [&str; 5] = ["json", "name", "text", "wide", "yaml"];

/// Destination of content, determined by its name alone, so that repeated commands have the same effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf, Archive),
    Directory(PathBuf),
}

/// Archive format of a file extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Archive {
    Tar,
    TarGz,
}

/// A writable destination without visible output.
pub(crate) enum PreparedDestination {
    Stdout,
    File(AtomicFile, Archive),
    Directory(StagedDir),
}

/// Reports whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

impl Destination {
    /// Returns the destination that the flag `--output` names. Exits with a usage error if the path is not a destination.
    pub(crate) fn from_flag(path: &Path) -> Self {
        Self::from_path(path).unwrap_or_else(|problem| args::usage(&problem))
    }

    /// Returns the destination that a path names.
    ///
    /// # Errors
    /// Returns an error if the path is the name of a format, or has the extension of an archive that cannot be written.
    fn from_path(path: &Path) -> Result<Self, String> {
        let name = path.to_string_lossy();
        let lowercase = name.to_ascii_lowercase();
        let has = |endings: &[&str]| endings.iter().any(|ending| lowercase.ends_with(ending));
        if name == "-" {
            Ok(Self::Stdout)
        } else if FORMATS.contains(&&*name) {
            Err(format!(
                "{name:?} is a format, but --output takes a directory or an archive; use --format for a format, or ./{name} for \
                 a directory of this name"
            ))
        } else if has(&[".tgz", ".tar.gz"]) {
            Ok(Self::File(path.to_owned(), Archive::TarGz))
        } else if has(&[".tar"]) {
            Ok(Self::File(path.to_owned(), Archive::Tar))
        } else if has(&[".zip", ".tar.bz2", ".tar.xz", ".tar.zst"]) {
            Err(format!(
                "{name:?} has the extension of an archive that cannot be written; use .tgz, .tar.gz or .tar, or add a slash at \
                 the end for a directory"
            ))
        } else {
            Ok(Self::Directory(path.to_owned()))
        }
    }

    pub(crate) fn prepare(self, force: bool) -> anyhow::Result<PreparedDestination> {
        Ok(match self {
            Self::Stdout => PreparedDestination::Stdout,
            Self::File(path, _) if path.is_dir() => anyhow::bail!(
                "{} is a directory with the name of an archive; add a slash at the end, or choose another name",
                path.display()
            ),
            Self::File(path, archive) => {
                PreparedDestination::File(AtomicFile::new(&path)?, archive)
            }
            Self::Directory(path) if path.is_file() => anyhow::bail!(
                "{} is a file; use a directory, or a file that ends in .tgz, .tar.gz or .tar",
                path.display()
            ),
            Self::Directory(path) => {
                let before = if force {
                    ExistingPolicy::Anything
                } else {
                    ExistingPolicy::Empty
                };
                PreparedDestination::Directory(
                    StagedDir::new(&path, before).context("failed to prepare --output")?,
                )
            }
        })
    }
}

impl PreparedDestination {
    /// Writes all files and publishes them.
    pub(crate) fn write(self, tree: &Tree) -> anyhow::Result<()> {
        match self {
            Self::Stdout => output::stream(|out| Ok(tree.pack(Format::TarGz, out).map(drop)?)),
            Self::File(mut draft, archive) => {
                let mut out = BufWriter::with_capacity(1 << 16, &mut draft);
                let format = match archive {
                    Archive::Tar => Format::Tar,
                    Archive::TarGz => Format::TarGz,
                };
                tree.pack(format, &mut out)?;
                out.flush().context("failed to write the archive")?;
                drop(out);
                draft.publish()
            }
            Self::Directory(staged) => {
                for (path, info) in tree.files() {
                    let mode = if info.mode & 0o111 == 0 {
                        FILE
                    } else {
                        EXECUTABLE
                    };
                    let mut reader = tree
                        .read(path)
                        .with_context(|| format!("{path:?} no longer exists"))?;
                    staged.add(path, mode, &mut reader)?;
                }
                staged.publish(|_| false)?;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_determines_the_destination() {
        let file = |path: &str, archive| Ok(Destination::File(path.into(), archive));
        let directory = |path: &str| Ok(Destination::Directory(path.into()));
        for (path, expected) in ::tests::rows![
            "-" => Ok(Destination::Stdout);
            "a.tgz" => file("a.tgz", Archive::TarGz);
            "a.tar.gz" => file("a.tar.gz", Archive::TarGz);
            "A.Tar.GZ" => file("A.Tar.GZ", Archive::TarGz);
            "x/a.tar" => file("x/a.tar", Archive::Tar);
            "a.tar/" => directory("a.tar/");
            "a" => directory("a");
            "v1.0" => directory("v1.0");
            "yaml" => Err("\"yaml\" is a format*use --format for a format, or ./yaml for a directory of this name");
            "./yaml" => directory("./yaml");
            "x/name" => directory("x/name");
            "a.ZIP" => Err("\"a.ZIP\" has the extension of an archive that cannot be written; use .tgz*");
            "a.tar.zst" => Err("*cannot be written*");
            "a.zip/" => directory("a.zip/");
        ] {
            ::tests::table::assert_outcome(Destination::from_path(Path::new(path)), expected, path);
        }
    }
}
