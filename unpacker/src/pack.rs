//! Writing content as an archive, with the same bytes for the same content.

use std::{
    fmt,
    io::{self, Write},
};

use flate2::{Compression, GzBuilder};
use manifests::content::{Content, File};
use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// What an archive is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A tar.
    Tar,
    /// A tar compressed with gzip.
    TarGz,
}

/// The SHA-256 of an archive, written as `sha256:<64 hexadecimal digits>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes all files in order, owned by nobody in particular, from the beginning of time, and executable or not.
///
/// # Errors
/// When writing fails.
pub fn pack(content: &Content, format: Format, writer: impl Write) -> Result<Digest> {
    let writer = Hashed {
        writer,
        hash: Sha256::new(),
    };
    let written = match format {
        Format::Tar => tar(content, writer),
        Format::TarGz => {
            let gzip = GzBuilder::new()
                .mtime(0)
                .write(writer, Compression::default());
            tar(content, gzip).and_then(flate2::write::GzEncoder::finish)
        }
    };
    let hashed = written.and_then(|mut hashed| hashed.flush().map(|()| hashed));
    match hashed {
        Ok(hashed) => Ok(Digest(hashed.hash.finalize().into())),
        Err(source) => Err(Error::Write { source }),
    }
}

fn tar<W: Write>(content: &Content, writer: W) -> io::Result<W> {
    let mut archive = tar::Builder::new(writer);
    for (path, File { bytes, mode }) in content.files() {
        let mut header = tar::Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        header.set_mode(if mode & 0o111 == 0 { 0o644 } else { 0o755 });
        archive.append_data(&mut header, path, bytes.as_ref())?;
    }
    archive.into_inner()
}

/// Hashes what it passes on.
struct Hashed<W> {
    writer: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.writer.write(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or(buffer));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
