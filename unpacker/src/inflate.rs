//! Compression, told by the first bytes. What a media type says about it is not asked: registries are full of images
//! whose layers were compressed anew, and every reader of them looks at the bytes.

use std::io::{self, BufRead as _, BufReader, Cursor, Read};

use flate2::bufread::GzDecoder;

use crate::block::{Trailing, Wrapping, fill};

/// The bytes that tell.
const MAGIC: usize = 4;

/// The largest window of zstd that is given memory, as an exponent of two: 16 MiB. The format asks readers for half of
/// that, and no level below --ultra writes more.
#[cfg(feature = "sources")]
const WINDOW: u32 = 24;

type Whole<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// A stream, inflated if it is compressed. Gzip members and zstd frames one behind the other are one stream.
pub(crate) enum Inflate<R: Read> {
    Plain(Whole<R>),
    Gzip(Box<Members<Whole<R>>>),
    #[cfg(feature = "sources")]
    Zstd(zstd::Decoder<'static, io::BufReader<Whole<R>>>),
}

impl<R: Read> Inflate<R> {
    pub(crate) fn new(mut reader: R) -> io::Result<Self> {
        let mut magic = [0; MAGIC];
        let count = fill(&mut reader, &mut magic)?;
        let head: Vec<u8> = magic.into_iter().take(count).collect();
        let wrapping = match head.as_slice() {
            [0x1f, 0x8b, ..] => Wrapping::Gzip,
            // A frame, or one that is skipped.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Wrapping::Zstd,
            _ => Wrapping::Plain,
        };
        let whole = Cursor::new(head).chain(reader);
        Ok(match wrapping {
            Wrapping::Gzip => Self::Gzip(Box::new(Members::new(whole))),
            #[cfg(feature = "sources")]
            Wrapping::Zstd => {
                let mut zstd = zstd::Decoder::new(whole)?;
                zstd.window_log_max(WINDOW)?;
                Self::Zstd(zstd)
            }
            _ => Self::Plain(whole),
        })
    }

    pub(crate) fn wrapping(&self) -> Wrapping {
        match self {
            Self::Plain(_) => Wrapping::Plain,
            Self::Gzip(_) => Wrapping::Gzip,
            #[cfg(feature = "sources")]
            Self::Zstd(_) => Wrapping::Zstd,
        }
    }
}

impl<R: Read> Read for Inflate<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(reader) => reader.read(buffer),
            #[cfg(feature = "sources")]
            Self::Zstd(reader) => reader.read(buffer).map_err(|error| {
                // Zstd has no kinds of errors. One of the reader below was marked where it was metered.
                let own = error.kind() == io::ErrorKind::Other && !crate::block::is_marked(&error);
                if own {
                    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                } else {
                    error
                }
            }),
        }
    }
}

/// The members of a gzip stream, one behind the other. Unlike the decoder of `flate2`, tells data behind the last member
/// from a member that is cut short.
pub(crate) struct Members<R: Read> {
    /// `None` behind the last member.
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
        /// The first byte of a member.
        const MAGIC: u8 = 0x1f;
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            // The member has ended, and its checksum is right.
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
