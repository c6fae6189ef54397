//! Bytes that are too many for memory wait in a file that has no name.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use bytes::Bytes;

#[cfg(feature = "sources")]
use crate::block::explain;
use crate::{Error, Result};

/// What is kept in memory before the rest goes to disk.
const MEMORY: u64 = 1 << 20;

/// Where bytes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Room {
    /// In memory alone.
    Memory,
    /// In memory as far as they are few, else in an unnamed file in this folder.
    Disk(PathBuf),
}

impl Room {
    /// An unnamed file of all that a reader gives, which goes when it is closed.
    #[cfg(feature = "sources")]
    pub(crate) fn file(&self, reader: &mut dyn Read) -> Result<File> {
        let folder = match self {
            Self::Memory => std::env::temp_dir(),
            Self::Disk(folder) => folder.clone(),
        };
        let failed = |source| Error::Spool {
            folder: folder.clone(),
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

/// Passes on all that a reader gives.
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

/// Bytes one behind the other. The file behind them is unlinked from its beginning, so that it goes with the process
/// at the latest, however that ends.
#[derive(Debug)]
pub(crate) struct Spool {
    room: Room,
    memory: u64,
    file: Option<File>,
    end: u64,
}

/// One piece of what was kept.
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

/// Why a piece cannot be kept.
pub(crate) enum Failure {
    /// The bytes could not be read.
    Read(io::Error),
    /// They could not be written.
    Write(Error),
}

impl Spool {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            room,
            memory: 0,
            file: None,
            end: 0,
        }
    }

    /// Keeps all that a reader gives.
    pub(crate) fn keep(&mut self, reader: &mut dyn Read) -> Result<Piece, Failure> {
        let most = match self.room {
            Room::Memory => u64::MAX,
            Room::Disk(_) => MEMORY.saturating_sub(self.memory),
        };
        let mut bytes = Vec::new();
        if most > 0 {
            (&mut *reader)
                .take(most)
                .read_to_end(&mut bytes)
                .map_err(Failure::Read)?;
        }
        if (bytes.len() as u64) < most {
            self.memory += bytes.len() as u64;
            bytes.shrink_to_fit(); // or a file could hold twice its size, and content twice its limit
            return Ok(Piece::Memory(bytes.into()));
        }
        let at = self.end;
        self.write(&bytes).map_err(Failure::Write)?;
        copy(reader, |bytes| self.write(bytes))?;
        let size = self.end - at;
        Ok(Piece::Disk { at, size })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Room::Disk(folder) = &self.room else {
            return Ok(()); // memory takes all, so that nothing is left to write
        };
        let failed = |source| Error::Spool {
            folder: folder.clone(),
            source,
        };
        let file = match &mut self.file {
            Some(file) => file,
            free => free.insert(tempfile::tempfile_in(folder).map_err(failed)?),
        };
        file.write_all(bytes).map_err(failed)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Reads one of the pieces that were kept here.
    pub(crate) fn reader<'a>(&'a self, piece: &'a Piece) -> PieceReader<'a> {
        match (piece, &self.file) {
            (Piece::Memory(bytes), _) => PieceReader::Memory(bytes),
            (Piece::Disk { at, size }, Some(file)) => PieceReader::Disk {
                file,
                at: *at,
                left: *size,
            },
            (Piece::Disk { .. }, None) => PieceReader::Memory(&[]), // a piece of another spool
        }
    }
}

/// Reads a piece from its beginning.
pub(crate) enum PieceReader<'a> {
    Memory(&'a [u8]),
    Disk { file: &'a File, at: u64, left: u64 },
}

impl Read for PieceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => bytes.read(buffer),
            Self::Disk { file, at, left } => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                let most = most.min(buffer.len());
                let part = buffer.get_mut(..most).unwrap_or_default();
                if part.is_empty() {
                    return Ok(0);
                }
                let count = file.read_at(part, *at)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *at += count as u64;
                *left -= count as u64;
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
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(Room::Disk(folder.path().to_owned()));
        let large: Vec<u8> = (0..(9 << 20)).map(|n: u32| n.to_le_bytes()[1]).collect();
        let mut pieces = Vec::new();
        for bytes in [b"first".as_slice(), &large, b"last", b""] {
            let Ok(piece) = spool.keep(&mut &*bytes) else {
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
        assert!(matches!(pieces[0].0, Piece::Memory(_)));
        assert!(matches!(pieces[1].0, Piece::Disk { .. }));
        // The file is unlinked while it is in use.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_source() {
        let large = vec![0; 5 << 20];
        let mut spool = Spool::new(Room::Disk("/dev/null/none".into()));
        let Err(Failure::Write(error)) = spool.keep(&mut large.as_slice()) else {
            panic!("there is no such folder");
        };
        assert!(error.to_string().contains("\"/dev/null/none\"") && !error.is_terminal());
        // Writing to this file fails as on a full disk.
        let mut spool = Spool::new(Room::Disk("/".into()));
        spool.file = Some(File::options().write(true).open("/dev/full").unwrap());
        assert_rows!(matches!(spool.keep(&mut large.as_slice()), Err(Failure::Write(_))) => true);
    }
}
