//! Destination of unpacked content.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use unpacker::{Format, Tree};

use crate::output::{
    self, AtomicFile,
    staged_dir::{ExistingPolicy, FILE, StagedDir},
};

const EXECUTABLE: u32 = 0o755;

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
    pub(crate) fn from_path(path: &Path) -> Self {
        let name = path.as_os_str().as_encoded_bytes();
        let is = |ending: &str| name.ends_with(ending.as_bytes());
        if name == b"-" {
            Self::Stdout
        } else if is(".tgz") || is(".tar.gz") {
            Self::File(path.to_owned(), Archive::TarGz)
        } else if is(".tar") {
            Self::File(path.to_owned(), Archive::Tar)
        } else {
            Self::Directory(path.to_owned())
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
        ::tests::assert_rows! {
            Destination::from_path(Path::new("-")) => Destination::Stdout;
            Destination::from_path(Path::new("a.tgz")) => Destination::File("a.tgz".into(), Archive::TarGz);
            Destination::from_path(Path::new("a.tar.gz")) => Destination::File("a.tar.gz".into(), Archive::TarGz);
            Destination::from_path(Path::new("x/a.tar")) => Destination::File("x/a.tar".into(), Archive::Tar);
            Destination::from_path(Path::new("a.tar/")) => Destination::Directory("a.tar/".into());
            Destination::from_path(Path::new("a")) => Destination::Directory("a".into());
            Destination::from_path(Path::new("v1.0")) => Destination::Directory("v1.0".into());
        }
    }
}
