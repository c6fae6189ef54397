//! Decompression. The format is detected by the first bytes, not by the media type: many images have recompressed
//! layers, and all other clients also check the bytes.

use std::io::{self, BufRead as _, BufReader, Cursor, Read};

use flate2::bufread::GzDecoder;

use crate::tar::blocks::{Compression, Trailing, fill};

/// Number of bytes that identify the format.
const MAGIC: usize = 4;

/// Maximum window size of zstd as a power of two: 16 MiB. The format asks decoders to support half of that, and only
/// levels with `--ultra` write larger windows.
#[cfg(feature = "sources")]
const WINDOW: u32 = 24;

type FullStream<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// A stream that is decompressed if necessary. Consecutive gzip members or zstd frames are one stream.
pub(crate) enum Decompressor<R: Read> {
    Plain(FullStream<R>),
    Gzip(Box<Members<FullStream<R>>>),
    #[cfg(feature = "sources")]
    Zstd(zstd::Decoder<'static, io::BufReader<FullStream<R>>>),
}

impl<R: Read> Decompressor<R> {
    pub(crate) fn new(mut reader: R) -> io::Result<Self> {
        let mut magic = [0; MAGIC];
        let count = fill(&mut reader, &mut magic)?;
        let head: Vec<u8> = magic.into_iter().take(count).collect();
        let wrapping = match head.as_slice() {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A frame, or a skippable frame.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Compression::Zstd,
            _ => Compression::Plain,
        };
        let stream = Cursor::new(head).chain(reader);
        Ok(match wrapping {
            Compression::Gzip => Self::Gzip(Box::new(Members::new(stream))),
            #[cfg(feature = "sources")]
            Compression::Zstd => {
                let mut zstd = zstd::Decoder::new(stream)?;
                zstd.window_log_max(WINDOW)?;
                Self::Zstd(zstd)
            }
            _ => Self::Plain(stream),
        })
    }

    pub(crate) fn wrapping(&self) -> Compression {
        match self {
            Self::Plain(_) => Compression::Plain,
            Self::Gzip(_) => Compression::Gzip,
            #[cfg(feature = "sources")]
            Self::Zstd(_) => Compression::Zstd,
        }
    }
}

impl<R: Read> Read for Decompressor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(reader) => reader.read(buffer),
            #[cfg(feature = "sources")]
            Self::Zstd(reader) => reader.read(buffer).map_err(|error| {
                // Zstd errors have no kinds. Errors of the underlying reader were marked by the meter.
                let is_zstd_error = error.kind() == io::ErrorKind::Other
                    && !crate::tar::blocks::is_source_error(&error);
                if is_zstd_error {
                    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                } else {
                    error
                }
            }),
        }
    }
}

/// The consecutive members of a gzip stream. Unlike the decoder of `flate2`, this reader distinguishes trailing data
/// from a truncated member.
pub(crate) struct Members<R: Read> {
    /// Decoder of the current member; `None` after the last one.
    member: Option<GzDecoder<BufReader<R>>>,
}

impl<R: Read> Members<R> {
    fn new(reader: R) -> Self {
        let reader = BufReader::new(reader);
        Self {
            member: Some(GzDecoder::new(reader)),
        }
    }
}

impl<R: Read> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        /// First byte of a member.
        const MAGIC: u8 = 0x1f;
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            // The member has ended with a correct checksum.
            match member.get_mut().fill_buf()?.first() {
                None => self.member = None,
                Some(&MAGIC) => {
                    let ended = self.member.take();
                    self.member = ended.map(|member| GzDecoder::new(member.into_inner()));
                }
                Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, Trailing)),
            }
        }
        Ok(0)
    }
}
