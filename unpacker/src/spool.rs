//! Storage of data in memory and, above a limit, in an unnamed file.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use bytes::Bytes;

#[cfg(feature = "sources")]
use crate::tar::blocks::explain;
use crate::{Error, Result};

/// Maximum number of bytes in memory.
const MEMORY_LIMIT: u64 = 1 << 20;

/// The kind of storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Storage {
    /// All data in memory.
    Memory,
    /// Memory up to a limit, and an unnamed file in this directory for the rest.
    Disk(PathBuf),
}

impl Storage {
    /// Copies a reader to an unnamed file, which is deleted when it is closed.
    #[cfg(feature = "sources")]
    pub(crate) fn to_file(&self, reader: &mut dyn Read) -> Result<File> {
        let folder = match self {
            Self::Memory => std::env::temp_dir(),
            Self::Disk(folder) => folder.clone(),
        };
        let failed = |source| Error::Spool {
            directory: folder.clone(),
            source,
        };
        let mut file = tempfile::tempfile_in(&folder).map_err(failed)?;
        copy(reader, |bytes| file.write_all(bytes).map_err(failed)).map_err(
            |failure| match failure {
                Failure::Write(error) => error,
                Failure::Read(source) => explain(source, "in its compressed part".to_owned()),
            },
        )?;
        Ok(file)
    }
}

/// Passes all bytes of a reader to `write`.
fn copy(
    reader: &mut dyn Read,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<(), Failure> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                write(buffer.get(..count).unwrap_or_default()).map_err(Failure::Write)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Read(error)),
        }
    }
}

/// Consecutive pieces of data. The file is unlinked when it is created, so that it disappears with the process.
#[derive(Debug)]
pub(crate) struct Spool {
    storage: Storage,
    memory: u64,
    file: Option<File>,
    end: u64,
}

/// A stored piece of data.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Memory(Bytes),
    Disk { at: u64, size: u64 },
}

impl Piece {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk { size, .. } => *size,
        }
    }
}

/// An error while a piece is stored.
pub(crate) enum Failure {
    /// The source cannot be read.
    Read(io::Error),
    /// The storage cannot be written.
    Write(Error),
}

impl Spool {
    pub(crate) fn new(storage: Storage) -> Self {
        Self {
            storage,
            memory: 0,
            file: None,
            end: 0,
        }
    }

    /// Stores all bytes of a reader.
    pub(crate) fn store(&mut self, reader: &mut dyn Read) -> Result<Piece, Failure> {
        let limit = match self.storage {
            Storage::Memory => u64::MAX,
            Storage::Disk(_) => MEMORY_LIMIT.saturating_sub(self.memory),
        };
        let mut bytes = Vec::new();
        if limit > 0 {
            (&mut *reader)
                .take(limit)
                .read_to_end(&mut bytes)
                .map_err(Failure::Read)?;
        }
        if (bytes.len() as u64) < limit {
            self.memory += bytes.len() as u64;
            bytes.shrink_to_fit(); // the buffer may otherwise have twice the size of the file
            return Ok(Piece::Memory(bytes.into()));
        }
        let at = self.end;
        self.write(&bytes).map_err(Failure::Write)?;
        copy(reader, |bytes| self.write(bytes))?;
        let size = self.end - at;
        Ok(Piece::Disk { at, size })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Storage::Disk(folder) = &self.storage else {
            return Ok(()); // everything is stored in memory
        };
        let failed = |source| Error::Spool {
            directory: folder.clone(),
            source,
        };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(folder).map_err(failed)?),
        };
        file.write_all(bytes).map_err(failed)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Returns a reader of a piece of this spool.
    pub(crate) fn reader<'a>(&'a self, piece: &'a Piece) -> PieceReader<'a> {
        match (piece, &self.file) {
            (Piece::Memory(bytes), _) => PieceReader::Memory(bytes),
            (Piece::Disk { at, size }, Some(file)) => PieceReader::Disk {
                file,
                at: *at,
                remaining: *size,
            },
            (Piece::Disk { .. }, None) => PieceReader::Memory(&[]), // a piece of another spool
        }
    }
}

/// A reader of a piece.
pub(crate) enum PieceReader<'a> {
    Memory(&'a [u8]),
    Disk {
        file: &'a File,
        at: u64,
        remaining: u64,
    },
}

impl Read for PieceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => bytes.read(buffer),
            Self::Disk {
                file,
                at,
                remaining,
            } => {
                let limit = usize::try_from(*remaining).unwrap_or(usize::MAX);
                let limit = limit.min(buffer.len());
                let chunk = buffer.get_mut(..limit).unwrap_or_default();
                if chunk.is_empty() {
                    return Ok(0);
                }
                let count = file.read_at(chunk, *at)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *at += count as u64;
                *remaining -= count as u64;
                Ok(count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_go_to_an_unnamed_file_and_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(Storage::Disk(directory.path().to_owned()));
        let large: Vec<u8> = (0..(9 << 20)).map(|n: u32| n.to_le_bytes()[1]).collect();
        let mut pieces = Vec::new();
        for bytes in [b"first".as_slice(), &large, b"last", b""] {
            let Ok(piece) = spool.store(&mut &*bytes) else {
                panic!("this is kept");
            };
            assert_eq!(piece.size(), bytes.len() as u64);
            pieces.push((piece, bytes));
        }
        for (piece, bytes) in &pieces {
            let mut read = Vec::new();
            spool.reader(piece).read_to_end(&mut read).unwrap();
            assert_eq!(read, *bytes);
        }
        assert_rows!(matches!((&pieces[0].0, &pieces[1].0), (Piece::Memory(_), Piece::Disk { .. })) => true);
        // The file is unlinked while it is in use.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn full_disk_differs_from_a_broken_source() {
        let large = vec![0; 5 << 20];
        let mut spool = Spool::new(Storage::Disk("/dev/null/none".into()));
        let Err(Failure::Write(error)) = spool.store(&mut large.as_slice()) else {
            panic!("a file was written below /dev/null");
        };
        assert!(error.to_string().contains("\"/dev/null/none\"") && !error.is_terminal());
        // Writing to this file fails as on a full disk.
        let mut spool = Spool::new(Storage::Disk("/".into()));
        spool.file = Some(File::options().write(true).open("/dev/full").unwrap());
        assert_rows!(matches!(spool.store(&mut large.as_slice()), Err(Failure::Write(_))) => true);
    }
}
