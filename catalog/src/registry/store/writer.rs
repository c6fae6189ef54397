//! Writer of store files.

use std::{
    fs::{self, File, Permissions},
    io::{self, BufWriter, Seek, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use prost::Message;
use tempfile::NamedTempFile;

use super::{Digest, Error, FOOTER, MAGIC, Result, checksum};
use crate::registry::index::{FileRange, Index};

/// Name prefix of incomplete files.
const UNFINISHED: &str = "unfinished-";
/// File mode: access for owner and group, regardless of the umask. In clusters the user ID is not known in advance, but
/// the group is always the same.
const MODE: u32 = 0o660;
const BUFFER: usize = 256 << 10;

/// A store that is being written. It is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: PathBuf,
    /// Maximum size of the file in bytes.
    max_size: u64,
    manifests: SectionWriter<NamedTempFile>,
    /// Fields for lists are read together, so they are collected separately and appended at the end.
    lists: SectionWriter<File>,
}

#[derive(Debug)]
struct SectionWriter<W: Write> {
    out: BufWriter<W>,
    at: u64,
}

// === impl Writer ===

impl Writer {
    /// Creates a store file of at most `max_size` bytes.
    pub(crate) fn create(directory: &Path, max_size: u64) -> Result<Self> {
        let new = || -> io::Result<_> {
            let named = tempfile::Builder::new()
                .prefix(UNFINISHED)
                .tempfile_in(directory)?;
            // The lock marks the file as being written; see [`sweep`].
            named.as_file().lock()?;
            Ok((named, tempfile::tempfile_in(directory)?))
        };
        let (named, unnamed) =
            new().map_err(|error| failed("create a store in", directory, error))?;
        let mut writer = Self {
            directory: directory.to_owned(),
            max_size,
            manifests: SectionWriter {
                out: BufWriter::with_capacity(BUFFER, named),
                at: 0,
            },
            lists: SectionWriter {
                out: BufWriter::with_capacity(BUFFER, unnamed),
                at: 0,
            },
        };
        writer.manifest(MAGIC)?;
        Ok(writer)
    }

    /// Appends content that is read for one bundle at a time.
    pub(crate) fn manifest(&mut self, bytes: &[u8]) -> Result<FileRange> {
        self.check_size(bytes.len())?;
        self.manifests
            .add(bytes)
            .map_err(|error| failed("write a store in", &self.directory, error))
    }

    /// Appends content that is read for lists. Its final offset is known only at the end; see [`Writer::finish`].
    pub(crate) fn listed(&mut self, bytes: &[u8]) -> Result<FileRange> {
        self.check_size(bytes.len())?;
        self.lists
            .add(bytes)
            .map_err(|error| failed("write a store in", &self.directory, error))
    }

    /// Checks the size limit before `bytes` bytes are written, because others share the disk.
    fn check_size(&self, bytes: usize) -> Result<()> {
        let sizes = [self.manifests.at, self.lists.at, bytes as u64];
        if sizes.into_iter().fold(0, u64::saturating_add) <= self.max_size {
            return Ok(());
        }
        Err(Error::TooLarge {
            most: self.max_size,
        })
    }

    /// Writes the index and renames the file to its final name. `list_fields` of bundles must come from
    /// [`Writer::listed`].
    pub(crate) fn finish(self, mut index: Index, digest: Digest, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        let start = self.manifests.at;
        for package in &mut index.packages {
            for bundle in &mut package.bundles {
                bundle.list_fields.offset += start;
            }
        }
        let index = index.encode_to_vec();
        self.check_size(index.len().saturating_add(FOOTER))?;
        self.persist(&index, &digest, &path)
            .map_err(|error| failed("write", &path, error))?;
        Ok(path)
    }

    fn persist(self, index: &[u8], digest: &Digest, path: &Path) -> io::Result<()> {
        let mut lists = self.lists.out.into_inner()?;
        lists.rewind()?;
        let mut manifests = self.manifests.out.into_inner()?;
        io::copy(&mut lists, manifests.as_file_mut())?;

        let mut end = Vec::with_capacity(FOOTER);
        end.extend_from_slice(&(index.len() as u64).to_le_bytes());
        end.extend_from_slice(&digest.0);
        end.extend_from_slice(&checksum(digest, index));
        end.extend_from_slice(MAGIC);
        manifests.write_all(index)?;
        manifests.write_all(&end)?;

        let file = manifests.as_file();
        file.set_permissions(Permissions::from_mode(MODE))?;
        file.sync_all()?;
        manifests.persist(path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    }
}

// === impl SectionWriter ===

impl<W: Write> SectionWriter<W> {
    fn add(&mut self, bytes: &[u8]) -> io::Result<FileRange> {
        let too_large = |_| io::Error::other("a document of 4 GiB or more");
        let range = FileRange {
            offset: self.at,
            length: u32::try_from(bytes.len()).map_err(too_large)?,
            checksum: crc32fast::hash(bytes),
        };
        self.out.write_all(bytes)?;
        self.at += u64::from(range.length);
        Ok(range)
    }
}

/// Removes incomplete files of processes that have ended.
pub(crate) fn sweep(directory: &Path) -> Result<()> {
    let sweep = || -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                continue;
            }
            // Files that cannot be opened are left to their owners.
            let is_abandoned = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if is_abandoned {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    sweep().map_err(|source| failed("clean up in", directory, source))
}

/// Reports whether [`sweep`] removes files of this name.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_stops_at_the_size_limit() {
        let dir = tempfile::tempdir().unwrap();
        let finish = |most: u64| -> Result<PathBuf> {
            let mut writer = Writer::create(dir.path(), most)?;
            writer.manifest(&[1; 100])?;
            writer.listed(&[2; 100])?;
            let written = writer.manifests.at + writer.lists.at;
            assert!(written <= most, "{written} of {most}");
            writer.finish(Index::default(), Digest([7; 32]), "whole")
        };
        let needed = (MAGIC.len() + 200 + FOOTER) as u64;
        for most in [0, 8, 100, 108, 207, 208, needed - 1] {
            let error = finish(most).unwrap_err();
            assert_rows!(matches!(error, Error::TooLarge { most: limit } if limit == most) => true, "{error}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        assert_rows!(fs::metadata(finish(needed).unwrap()).unwrap().len() => needed);
    }
}
