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
/// The layers of published images are made by this, so that the bytes stay the same from version to version.
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
    // The level that images have always been compressed with: another one would change their digests.
    compressed(files, format, Compression::default(), writer)
}

/// A file that is to be written.
pub(crate) struct Packed<'a, R> {
    pub(crate) path: &'a str,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Exactly `size` bytes, or an error.
    pub(crate) reader: R,
}

/// Writes files in the order given, which is that of their paths. Whatever is compressed is so in a hurry: somebody
/// waits for it, and only the tar inside has a digest that matters.
pub(crate) fn write<'a, R: Read>(
    files: impl Iterator<Item = Packed<'a, R>>,
    format: Format,
    writer: impl Write,
) -> Result<Digest> {
    compressed(files, format, Compression::fast(), writer)
}

fn compressed<'a, R: Read>(
    files: impl Iterator<Item = Packed<'a, R>>,
    format: Format,
    level: Compression,
    writer: impl Write,
) -> Result<Digest> {
    let writer = Hashed::new(writer);
    let written = match format {
        Format::Tar => tar(files, writer),
        Format::TarGz => {
            let gzip = GzBuilder::new().mtime(0).write(writer, level);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    /// `XFL` of the header says what level was used: 4 is the fastest.
    #[test]
    fn archives_are_packed_in_a_hurry_and_images_as_ever() {
        let mut builder = manifests::content::Builder::new(manifests::content::Limits::default());
        builder.add("a", 0o644, &mut b"aaaa".as_slice()).unwrap();
        let content = builder.finish();
        let (mut image, mut archive) = (Vec::new(), Vec::new());
        pack(&content, Format::TarGz, &mut image).unwrap();
        let tree = Tree::from_content(content);
        tree.pack(Format::TarGz, &mut archive).unwrap();
        assert_eq!((image[8], archive[8]), (0, 4));
    }
}
