//! Writing content as an archive, with the same bytes for the same content.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use manifests::content::{Content, File};

use crate::{Digest, Error, Result, digest::Hashed};

/// What an archive is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A tar.
    Tar,
    /// A tar compressed with gzip.
    TarGz,
}

/// Writes all files in order, owned by nobody in particular, from the beginning of time, and executable or not.
///
/// # Errors
/// When writing fails.
pub fn pack(content: &Content, format: Format, writer: impl Write) -> Result<Digest> {
    let writer = Hashed::new(writer);
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
        Ok(hashed) => Ok(hashed.finish().1),
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
