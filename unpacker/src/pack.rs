//! Writing content as an archive, with the same bytes for the same content.

use std::io::{self, Read, Write};

use flate2::{Compression, GzBuilder};
use manifests::content::Content;

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
    let files = content.files().map(|(path, file)| Packed {
        path,
        mode: file.mode,
        size: file.bytes.len() as u64,
        reader: file.bytes.as_ref(),
    });
    write(files, format, writer)
}

/// A file that is to be written.
pub(crate) struct Packed<'a, R> {
    pub(crate) path: &'a str,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Exactly `size` bytes, or an error.
    pub(crate) reader: R,
}

/// Writes files in the order given, which is that of their paths.
pub(crate) fn write<'a, R: Read>(
    files: impl Iterator<Item = Packed<'a, R>>,
    format: Format,
    writer: impl Write,
) -> Result<Digest> {
    let writer = Hashed::new(writer);
    let written = match format {
        Format::Tar => tar(files, writer),
        Format::TarGz => {
            let gzip = GzBuilder::new()
                .mtime(0)
                .write(writer, Compression::default());
            tar(files, gzip).and_then(flate2::write::GzEncoder::finish)
        }
    };
    let hashed = written.and_then(|mut hashed| hashed.flush().map(|()| hashed));
    match hashed {
        Ok(hashed) => Ok(hashed.finish().1),
        Err(source) => Err(Error::Write { source }),
    }
}

fn tar<'a, R: Read, W: Write>(
    files: impl Iterator<Item = Packed<'a, R>>,
    writer: W,
) -> io::Result<W> {
    let mut archive = tar::Builder::new(writer);
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(file.size);
        header.set_mode(if file.mode & 0o111 == 0 { 0o644 } else { 0o755 });
        archive.append_data(&mut header, file.path, file.reader)?;
    }
    archive.into_inner()
}
