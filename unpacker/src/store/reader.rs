//! Readers of stored content.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
};

use flate2::{Compression, GzBuilder, bufread::GzEncoder};
use sha2::{Digest as _, Sha256};

use super::Hold;
use crate::{Digest, Format};

const BUFFER: usize = 256 << 10;

/// A reader that hashes a file from its start. It does not use the file position, which all users of the descriptor
/// share.
#[derive(Debug)]
pub(super) struct VerifyingReader<'a> {
    file: &'a File,
    at: u64,
    hash: Sha256,
    failure: Option<io::Error>,
}

impl<'a> VerifyingReader<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        Self {
            file,
            at: 0,
            hash: Sha256::new(),
            failure: None,
        }
    }

    /// Returns the digest of the whole file, including the part that was not read yet.
    pub(super) fn finish(mut self) -> io::Result<Digest> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let mut buffer = vec![0; BUFFER];
        while self.read(&mut buffer)? > 0 {}
        Ok(self.hash.into())
    }
}

impl Read for VerifyingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.file.read_at(buffer, self.at) {
            Ok(count) => {
                self.hash.update(buffer.get(..count).unwrap_or_default());
                self.at += count as u64;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                Err(kind.into())
            }
        }
    }
}

/// The uncompressed tar archive of verified content. It holds the content.
#[derive(Debug)]
pub struct Reader {
    hold: Hold,
    at: u64,
}

impl Reader {
    pub(super) fn new(hold: Hold) -> Self {
        Self { hold, at: 0 }
    }

    /// Returns the size of the archive in bytes.
    pub fn size(&self) -> u64 {
        self.hold.size()
    }

    /// Reads from a given offset, independently of other readers; returns 0 at the end.
    ///
    /// # Errors
    /// Returns an error if the disk cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.hold.file().read_at(buffer, at)
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.size().checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// The archive of content in the requested format. Compression is deterministic and happens while the archive is
/// read.
#[derive(Debug)]
pub struct PackedReader(Encoding);

#[derive(Debug)]
enum Encoding {
    Tar(Reader),
    TarGz(Box<GzEncoder<BufReader<Reader>>>),
}

impl PackedReader {
    pub(super) fn new(reader: Reader, format: Format) -> Self {
        Self(match format {
            Format::Tar => Encoding::Tar(reader),
            Format::TarGz => {
                let buffered = BufReader::with_capacity(BUFFER, reader);
                let gzip = GzBuilder::new().mtime(0);
                Encoding::TarGz(Box::new(gzip.buf_read(buffered, Compression::fast())))
            }
        })
    }

    /// Returns the number of bytes, if known in advance.
    pub fn size(&self) -> Option<u64> {
        match &self.0 {
            Encoding::Tar(reader) => Some(reader.size()),
            Encoding::TarGz(_) => None,
        }
    }
}

impl Read for PackedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Encoding::Tar(reader) => reader.read(buffer),
            Encoding::TarGz(gzip) => gzip.read(buffer),
        }
    }
}
