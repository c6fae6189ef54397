//! The blocks of a tar: headers, bodies, padding and the end, read with every byte counted.

use std::{
    fmt,
    io::{self, Read},
};

use tar::Header;

use crate::{Error, Result};

/// The size of a header, and what bodies are padded to.
const BLOCK: u64 = 512;

/// What is passed over at once.
const PASSED: usize = 64 << 10;

// === Meter ===

/// Counts what is read and fails behind the limit.
pub(crate) struct Meter<R> {
    reader: R,
    read: u64,
    limit: u64,
}

/// The limit of a [`Meter`], as it travels through decoders.
#[derive(Debug)]
struct Overrun(u64);

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes", self.0)
    }
}

impl std::error::Error for Overrun {}

/// A failure of the reader itself, told from those of decoders above it.
#[derive(Debug)]
struct Failed(io::Error);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Data behind the last member of a gzip stream.
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

/// Whether an error comes from a [`Meter`] or from what it reads.
pub(crate) fn is_marked(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<Overrun>() || inner.is::<Failed>())
}

impl<R> Meter<R> {
    pub(crate) fn new(reader: R, limit: u64) -> Self {
        Self {
            reader,
            read: 0,
            limit,
        }
    }

    /// The bytes that were read.
    #[cfg(feature = "sources")]
    pub(crate) fn count(&self) -> u64 {
        self.read
    }
}

impl<R: Read> Read for Meter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::Other && !is_marked(&error) {
                io::Error::other(Failed(error))
            } else {
                error
            }
        })?;
        self.read = self.read.saturating_add(count as u64);
        if self.read > self.limit {
            return Err(io::Error::other(Overrun(self.limit)));
        }
        Ok(count)
    }
}

/// Tells a cut archive from a damaged one, an endless one, a transfer that broke, and a reader that failed.
pub(crate) fn explain(source: io::Error, at: String) -> Error {
    if let Some(Overrun(limit)) = source.get_ref().and_then(|inner| inner.downcast_ref()) {
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
        .downcast::<Failed>()
        .map_or_else(|source| source, |Failed(source)| source);
    #[cfg(feature = "sources")]
    let source = match source.downcast() {
        Ok(error) => return Error::Web(error),
        Err(source) => source,
    };
    match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::Truncated { at },
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Error::Corrupt {
            at,
            problem: "it cannot be decompressed",
            source: Some(source),
        },
        _ => Error::Read {
            path: "archive".to_owned(),
            source,
        },
    }
}

/// Reads until the buffer is full or nothing is left.
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

// === Blocks ===

/// Whether the bytes are protected against being cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapping {
    /// As they are: only the end marker shows that nothing is missing.
    Plain,
    /// Gzip, which ends with a checksum and a length.
    Gzip,
    /// Zstd, whose frames say where they end.
    Zstd,
}

/// A tar, block by block.
pub(crate) struct Blocks<R> {
    reader: Meter<R>,
    wrapping: Wrapping,
    /// Whether something outside vouches for the last byte, so that no end marker is needed.
    vouched: bool,
    passed: Vec<u8>,
}

impl<R: Read> Blocks<R> {
    pub(crate) fn new(reader: R, wrapping: Wrapping, limit: u64) -> Self {
        Self {
            reader: Meter::new(reader, limit),
            wrapping,
            // Go reads an archive without an end marker too, and the checksum vouches for the rest.
            vouched: wrapping != Wrapping::Plain,
            passed: Vec::new(),
        }
    }

    /// A tar whose digest or size is known besides.
    #[cfg(feature = "sources")]
    pub(crate) fn vouched(self) -> Self {
        Self {
            vouched: true,
            ..self
        }
    }

    /// The bytes of tar that were read.
    #[cfg(feature = "sources")]
    pub(crate) fn count(&self) -> u64 {
        self.reader.count()
    }

    /// Where the next byte stands in the tar.
    pub(crate) fn place(&self) -> String {
        format!("at byte {} of the tar", self.reader.read)
    }

    /// The next header, or nothing at the end of the archive, which has been read to its last byte then.
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
        if count == 0 && self.vouched {
            return Ok(None);
        }
        if count == BLOCK && header.as_bytes().iter().all(|byte| *byte == 0) {
            self.expect_zeros()?;
            return Ok(None);
        }
        let sound = count == BLOCK && has_right_sum(&header);
        match (sound, start) {
            (true, _) => Ok(Some(header)),
            (false, 0) => Err(Error::NotArchive {
                found: looks_like(header.as_bytes(), self.wrapping),
            }),
            (false, _) if count < BLOCK => Err(Error::Truncated { at }),
            (false, _) => Err(Error::Corrupt {
                at,
                problem: "the checksum of a header is wrong",
                source: None,
            }),
        }
    }

    /// The next so many bytes, whose end comes as an error if it comes early.
    pub(crate) fn body(&mut self, size: u64) -> Body<'_, R> {
        Body {
            reader: &mut self.reader,
            left: size,
        }
    }

    /// Passes over a body, or over the rest of one, without keeping it.
    pub(crate) fn pass(&mut self, size: u64) -> Result<()> {
        let at = self.place();
        let mut body = Body {
            reader: &mut self.reader,
            left: size,
        };
        self.passed.resize(PASSED, 0);
        loop {
            match body.read(&mut self.passed) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(explain(error, at)),
            }
        }
    }

    /// Passes over what fills the last block of a body.
    pub(crate) fn padding(&mut self) -> Result<()> {
        let over = self.reader.read % BLOCK;
        if over == 0 {
            Ok(())
        } else {
            self.pass(BLOCK - over)
        }
    }

    /// The rest, which fills the record: readers that go on behind the end would see other content in it.
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
    left: u64,
}

impl<R: Read> Read for Body<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let part = buffer.get_mut(..most).unwrap_or_default();
        if part.is_empty() {
            return Ok(0);
        }
        match self.reader.read(part)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.left = self.left.saturating_sub(count as u64);
                Ok(count)
            }
        }
    }
}

// === Headers ===

/// The sum of all bytes with the sum itself as spaces; old writers summed signed bytes.
fn has_right_sum(header: &Header) -> bool {
    let Ok(stated) = header.cksum() else {
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
    let stated = i64::from(stated);
    bytes().map(i64::from).sum::<i64>() == stated
        || bytes()
            .map(|byte| i64::from(byte.cast_signed()))
            .sum::<i64>()
            == stated
}

/// A guess at what came instead of a tar, for the message alone.
fn looks_like(head: &[u8], wrapping: Wrapping) -> &'static str {
    const KNOWN: [(&[u8], &str); 8] = [
        (b"PK\x03\x04", "a zip"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
        (b"\xfd7zXZ\0", "compressed with xz"),
        (b"BZh", "compressed with bzip2"),
        (b"\x1f\x8b", "compressed with gzip"),
        (b"{", "JSON"),
        (b"<", "HTML or XML"),
        (b"---", "YAML"),
    ];
    let known = KNOWN.iter().find(|(magic, _)| head.starts_with(magic));
    match (wrapping, known) {
        (Wrapping::Plain, Some((_, found))) => found,
        (Wrapping::Plain, None) => "of an unknown format",
        (Wrapping::Gzip, Some((b"\x1f\x8b", _))) => "compressed with gzip twice",
        (Wrapping::Gzip, _) => "something else compressed with gzip",
        (Wrapping::Zstd, _) => "something else compressed with zstd",
    }
}
