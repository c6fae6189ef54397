//! How a store comes onto the disk.

use std::{
    fs::{self, File, Permissions},
    io::{self, BufWriter, Seek, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use prost::Message;
use tempfile::NamedTempFile;

use super::{Digest, Error, FOOTER, MAGIC, Result, checksum};
use crate::registry::index::{Index, Piece};

/// What files are called until they are whole.
const UNFINISHED: &str = "unfinished-";
/// Group and owner, whatever the umask: in clusters the user is not known beforehand, and its group is always the same.
const MODE: u32 = 0o660;
const BUFFER: usize = 256 << 10;

/// A store on its way. It vanishes when it is dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: PathBuf,
    /// Bytes of the whole file.
    most: u64,
    manifests: Part<NamedTempFile>,
    /// What lists consist of is read together, so it is put together in the end.
    lists: Part<File>,
}

#[derive(Debug)]
struct Part<W: Write> {
    out: BufWriter<W>,
    at: u64,
}

// === impl Writer ===

impl Writer {
    /// Begins a store that will not have more than so many bytes.
    pub(crate) fn create(folder: &Path, most: u64) -> Result<Self> {
        let new = || -> io::Result<_> {
            let named = tempfile::Builder::new()
                .prefix(UNFINISHED)
                .tempfile_in(folder)?;
            // Tells others that it is being written.
            named.as_file().lock()?;
            Ok((named, tempfile::tempfile_in(folder)?))
        };
        let (named, unnamed) = new().map_err(|it| failed("create a store in", folder, it))?;
        let mut writer = Self {
            folder: folder.to_owned(),
            most,
            manifests: Part {
                out: BufWriter::with_capacity(BUFFER, named),
                at: 0,
            },
            lists: Part {
                out: BufWriter::with_capacity(BUFFER, unnamed),
                at: 0,
            },
        };
        writer.manifest(MAGIC)?;
        Ok(writer)
    }

    /// Adds what is read for one bundle at a time.
    pub(crate) fn manifest(&mut self, bytes: &[u8]) -> Result<Piece> {
        self.room(bytes.len())?;
        self.manifests
            .add(bytes)
            .map_err(|it| failed("write a store in", &self.folder, it))
    }

    /// Adds what is read for lists. Where it is in the file is known only in the end; see [`Writer::finish`].
    pub(crate) fn listed(&mut self, bytes: &[u8]) -> Result<Piece> {
        self.room(bytes.len())?;
        self.lists
            .add(bytes)
            .map_err(|it| failed("write a store in", &self.folder, it))
    }

    /// Sees that there is room for so many bytes, before they are written: whoever shares the disk needs it, too.
    fn room(&self, bytes: usize) -> Result<()> {
        let would = [self.manifests.at, self.lists.at, bytes as u64];
        if would.into_iter().fold(0, u64::saturating_add) <= self.most {
            return Ok(());
        }
        Err(Error::TooLarge { most: self.most })
    }

    /// Writes the index and gives the store its name. `light` pieces of bundles have to be those of [`Writer::listed`].
    pub(crate) fn finish(self, mut index: Index, digest: Digest, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        let start = self.manifests.at;
        for package in &mut index.packages {
            for bundle in &mut package.bundles {
                bundle.light.offset += start;
            }
        }
        let index = index.encode_to_vec();
        self.room(index.len().saturating_add(FOOTER))?;
        self.persist(&index, &digest, &path)
            .map_err(|it| failed("write", &path, it))?;
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

// === impl Part ===

impl<W: Write> Part<W> {
    fn add(&mut self, bytes: &[u8]) -> io::Result<Piece> {
        let too_large = |_| io::Error::other("4 GiB or more in one piece");
        let piece = Piece {
            offset: self.at,
            length: u32::try_from(bytes.len()).map_err(too_large)?,
            checksum: crc32fast::hash(bytes),
        };
        self.out.write_all(bytes)?;
        self.at += u64::from(piece.length);
        Ok(piece)
    }
}

/// Removes what was being written by processes that are gone.
pub(crate) fn sweep(folder: &Path) -> Result<()> {
    let sweep = || -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                continue;
            }
            // Who cannot open it leaves it to others.
            let is_abandoned = File::open(entry.path()).is_ok_and(|it| it.try_lock().is_ok());
            if is_abandoned {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    sweep().map_err(|source| failed("clean up in", folder, source))
}

/// Whether a file of this name is one of those that are removed by [`sweep`].
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
    fn nothing_is_written_beyond_what_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let digest = Digest([7; 32]);
        let finish = |most: u64| -> Result<PathBuf> {
            let mut writer = Writer::create(folder.path(), most)?;
            writer.manifest(&[1; 100])?;
            writer.listed(&[2; 100])?;
            let written = writer.manifests.at + writer.lists.at;
            assert!(written <= most, "{written} of {most}");
            writer.finish(Index::default(), digest, "whole")
        };
        let needed = (MAGIC.len() + 200 + FOOTER) as u64;
        for most in [0, 8, 100, 108, 207, 208, needed - 1] {
            let error = finish(most).unwrap_err();
            let is_expected = matches!(error, Error::TooLarge { most: told } if told == most);
            assert!(is_expected, "{error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        let size = fs::metadata(finish(needed).unwrap()).unwrap().len();
        assert_eq!(size, needed);
    }
}
