//! Blocks of a tar archive: headers, bodies, padding and end marker. All bytes are counted.

use std::{
    fmt,
    io::{self, Read},
};

use tar::Header;

use crate::{Error, Result};

/// Size of a header in bytes. Bodies are padded to a multiple of it.
const BLOCK: u64 = 512;

/// Size of the buffer for skipped bytes.
const SKIP_BUFFER: usize = 64 << 10;

// === Meter ===

/// A reader that counts its bytes and fails above a limit.
pub(crate) struct Meter<R> {
    reader: R,
    read: u64,
    limit: u64,
}

/// The error of an exceeded [`Meter`] limit, in a form that passes through decoders.
#[derive(Debug)]
struct LimitExceeded(u64);

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes", self.0)
    }
}

impl std::error::Error for LimitExceeded {}

/// An error of the underlying reader, marked to distinguish it from errors of the decoders above.
#[derive(Debug)]
struct ReaderError(io::Error);

impl fmt::Display for ReaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ReaderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The error for data after the last member of a gzip stream.
#[derive(Debug)]
pub(crate) struct Trailing;

impl fmt::Display for Trailing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PROBLEM)
    }
}

impl std::error::Error for Trailing {}

impl Trailing {
    const PROBLEM: &str = "data follows the end of the gzip stream and cannot be decompressed";
}

/// Reports whether an error comes from a [`Meter`] or from its underlying reader.
pub(crate) fn is_source_error(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<LimitExceeded>() || inner.is::<ReaderError>())
}

impl<R> Meter<R> {
    pub(crate) fn new(reader: R, limit: u64) -> Self {
        Self {
            reader,
            read: 0,
            limit,
        }
    }

    /// Returns the number of bytes that were read.
    #[cfg(feature = "sources")]
    pub(crate) fn count(&self) -> u64 {
        self.read
    }
}

impl<R: Read> Read for Meter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::Other && !is_source_error(&error) {
                io::Error::other(ReaderError(error))
            } else {
                error
            }
        })?;
        self.read = self.read.saturating_add(count as u64);
        if self.read > self.limit {
            return Err(io::Error::other(LimitExceeded(self.limit)));
        }
        Ok(count)
    }
}

/// Classifies an error: truncated, corrupt or oversized archive, broken transfer, or failed reader.
pub(crate) fn explain(source: io::Error, at: String) -> Error {
    if let Some(LimitExceeded(limit)) = source.get_ref().and_then(|inner| inner.downcast_ref()) {
        return Error::TooLong { limit: *limit };
    }
    if let Some(Trailing) = source.get_ref().and_then(|inner| inner.downcast_ref()) {
        return Error::Corrupt {
            at,
            problem: Trailing::PROBLEM,
            source: None,
        };
    }
    let source = source
        .downcast::<ReaderError>()
        .map_or_else(|source| source, |ReaderError(source)| source);
    #[cfg(feature = "sources")]
    let source = match source.downcast() {
        Ok(error) => return Error::Web(error),
        Err(source) => source,
    };
    match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::Truncated { at },
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Error::Corrupt {
            at,
            problem: "the data cannot be decompressed",
            source: Some(source),
        },
        _ => Error::Read {
            path: "archive".to_owned(),
            source,
        },
    }
}

/// Reads until the buffer is full or the reader ends.
pub(crate) fn fill(reader: &mut dyn Read, mut buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while !buffer.is_empty() {
        match reader.read(buffer) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                buffer = buffer.get_mut(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

// === TarBlocks ===

/// The compression of a stream, which determines whether truncation is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// No compression. Only the end marker shows that the archive is complete.
    Plain,
    /// Gzip, which ends with a checksum and a length.
    Gzip,
    /// Zstd, whose frames mark their end.
    Zstd,
}

/// A reader of tar blocks.
pub(crate) struct TarBlocks<R> {
    reader: Meter<R>,
    wrapping: Compression,
    /// Whether the last byte is verified otherwise, so that the end marker is optional.
    is_length_verified: bool,
    skip_buffer: Vec<u8>,
}

impl<R: Read> TarBlocks<R> {
    pub(crate) fn new(reader: R, wrapping: Compression, limit: u64) -> Self {
        Self {
            reader: Meter::new(reader, limit),
            wrapping,
            // Go also reads archives without an end marker, and the checksum shows that nothing is missing.
            is_length_verified: wrapping != Compression::Plain,
            skip_buffer: Vec::new(),
        }
    }

    /// Makes the end marker optional, for an archive whose digest or size is verified otherwise.
    #[cfg(feature = "sources")]
    pub(crate) fn with_verified_length(self) -> Self {
        Self {
            is_length_verified: true,
            ..self
        }
    }

    /// Returns the number of tar bytes that were read.
    #[cfg(feature = "sources")]
    pub(crate) fn count(&self) -> u64 {
        self.reader.count()
    }

    /// Describes the current position for messages.
    pub(crate) fn place(&self) -> String {
        format!("at byte {} of the tar", self.reader.read)
    }

    /// Returns the next header, or `None` at the end of the archive. The archive was then read to its last byte.
    pub(crate) fn header(&mut self) -> Result<Option<Header>> {
        let start = self.reader.read;
        let at = self.place();
        let mut header = Header::new_old();
        let count = match fill(&mut self.reader, header.as_mut_bytes()) {
            Ok(count) => count as u64,
            Err(error) => return Err(explain(error, at)),
        };
        if count == 0 && start == 0 {
            return Err(Error::Empty);
        }
        if count == 0 && self.is_length_verified {
            return Ok(None);
        }
        if count == BLOCK && header.as_bytes().iter().all(|byte| *byte == 0) {
            self.expect_zeros()?;
            return Ok(None);
        }
        let is_valid = count == BLOCK && has_valid_checksum(&header);
        match (is_valid, start) {
            (true, _) => Ok(Some(header)),
            (false, 0) => Err(Error::NotArchive {
                found: detect_format(header.as_bytes(), self.wrapping),
                remedy: "pack the bundle with \"tar czf\"",
            }),
            (false, _) if count < BLOCK => Err(Error::Truncated { at }),
            (false, _) => Err(Error::Corrupt {
                at,
                problem: "invalid header checksum",
                source: None,
            }),
        }
    }

    /// Returns a reader of the next `size` bytes. It fails if the archive ends before.
    pub(crate) fn body(&mut self, size: u64) -> Body<'_, R> {
        Body {
            reader: &mut self.reader,
            remaining: size,
        }
    }

    /// Skips a body, or the rest of one.
    pub(crate) fn skip(&mut self, size: u64) -> Result<()> {
        let at = self.place();
        let mut body = Body {
            reader: &mut self.reader,
            remaining: size,
        };
        self.skip_buffer.resize(SKIP_BUFFER, 0);
        loop {
            match body.read(&mut self.skip_buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(explain(error, at)),
            }
        }
    }

    /// Skips the padding of a body.
    pub(crate) fn padding(&mut self) -> Result<()> {
        let excess = self.reader.read % BLOCK;
        if excess == 0 {
            Ok(())
        } else {
            self.skip(BLOCK - excess)
        }
    }

    /// Reads the rest of the archive, which must be zeros. Readers that continue after the end marker would otherwise
    /// find other content.
    fn expect_zeros(&mut self) -> Result<()> {
        let mut buffer = [0; 8192];
        loop {
            let at = self.place();
            let count =
                fill(&mut self.reader, &mut buffer).map_err(|error| explain(error, at.clone()))?;
            if count == 0 {
                return Ok(());
            }
            if buffer.iter().take(count).any(|byte| *byte != 0) {
                return Err(Error::Corrupt {
                    at,
                    problem: "data follows the end marker, as in archives joined with cat",
                    source: None,
                });
            }
        }
    }
}

/// The body of an entry.
pub(crate) struct Body<'a, R> {
    reader: &'a mut Meter<R>,
    remaining: u64,
}

impl<R: Read> Read for Body<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = usize::try_from(self.remaining)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let chunk = buffer.get_mut(..limit).unwrap_or_default();
        if chunk.is_empty() {
            return Ok(0);
        }
        match self.reader.read(chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.remaining = self.remaining.saturating_sub(count as u64);
                Ok(count)
            }
        }
    }
}

// === Headers ===

/// Verifies the checksum of a header. The checksum field counts as spaces, and old programs summed signed bytes.
fn has_valid_checksum(header: &Header) -> bool {
    let Ok(checksum) = header.cksum() else {
        return false;
    };
    let bytes = || {
        let bytes = header.as_bytes().iter().enumerate();
        bytes.map(|(at, byte)| {
            if (148..156).contains(&at) {
                b' '
            } else {
                *byte
            }
        })
    };
    let checksum = i64::from(checksum);
    bytes().map(i64::from).sum::<i64>() == checksum
        || bytes()
            .map(|byte| i64::from(byte.cast_signed()))
            .sum::<i64>()
            == checksum
}

/// Guesses the format of data that is not a tar archive, for the message only.
fn detect_format(head: &[u8], wrapping: Compression) -> &'static str {
    const SIGNATURES: [(&[u8], &str); 8] = [
        (b"PK\x03\x04", "a zip archive"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
        (b"\xfd7zXZ\0", "compressed with xz"),
        (b"BZh", "compressed with bzip2"),
        (b"\x1f\x8b", "compressed with gzip"),
        (b"{", "JSON"),
        (b"<", "HTML or XML"),
        (b"---", "YAML"),
    ];
    let signature = SIGNATURES.iter().find(|(magic, _)| head.starts_with(magic));
    match (wrapping, signature) {
        (Compression::Plain, Some((_, found))) => found,
        (Compression::Plain, None) => "of an unknown format",
        (Compression::Gzip, Some((b"\x1f\x8b", _))) => "compressed with gzip twice",
        (Compression::Gzip, _) => "something else compressed with gzip",
        (Compression::Zstd, _) => "something else compressed with zstd",
    }
}
