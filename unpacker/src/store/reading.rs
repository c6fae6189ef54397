//! Content on its way out of the store.

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

/// Reads a file from its start and hashes what it reads. The descriptor's own position is everybody's, and not used.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    file: &'a File,
    at: u64,
    hash: Sha256,
    failure: Option<io::Error>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        Self {
            file,
            at: 0,
            hash: Sha256::new(),
            failure: None,
        }
    }

    /// The digest of the whole file, what has not been read yet included.
    pub(super) fn finish(mut self) -> io::Result<Digest> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let mut buffer = vec![0; BUFFER];
        while self.read(&mut buffer)? > 0 {}
        Ok(self.hash.into())
    }
}

impl Read for Reading<'_> {
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

/// The plain tar of content that has been verified. It holds the content while it lives.
#[derive(Debug)]
pub struct Reader {
    hold: Hold,
    at: u64,
}

impl Reader {
    pub(super) fn new(hold: Hold) -> Self {
        Self { hold, at: 0 }
    }

    /// The bytes of all of it.
    pub fn size(&self) -> u64 {
        self.hold.size()
    }

    /// Bytes from a place on, whoever else reads; none at the end.
    ///
    /// # Errors
    /// When the disk does not give them.
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

/// Content as it is sent to others: compressed while it is read, if at all, with the same bytes every time.
#[derive(Debug)]
pub struct Served(Form);

#[derive(Debug)]
enum Form {
    Tar(Reader),
    TarGz(Box<GzEncoder<BufReader<Reader>>>),
}

impl Served {
    pub(super) fn new(reader: Reader, format: Format) -> Self {
        Self(match format {
            Format::Tar => Form::Tar(reader),
            Format::TarGz => {
                let buffered = BufReader::with_capacity(BUFFER, reader);
                let gzip = GzBuilder::new().mtime(0);
                Form::TarGz(Box::new(gzip.buf_read(buffered, Compression::fast())))
            }
        })
    }

    /// The bytes there will be, where that is known beforehand.
    pub fn size(&self) -> Option<u64> {
        match &self.0 {
            Form::Tar(reader) => Some(reader.size()),
            Form::TarGz(_) => None,
        }
    }
}

impl Read for Served {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Form::Tar(reader) => reader.read(buffer),
            Form::TarGz(gzip) => gzip.read(buffer),
        }
    }
}
