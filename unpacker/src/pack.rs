//! Writer of deterministic archives: the same content gives the same bytes.

use std::io::{self, Read, Write};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use manifests::content::{Content, Irregular, Kind};

use tar::EntryType;

use crate::{Digest, Error, Result, digest::HashingWriter};

/// The format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A tar archive.
    Tar,
    /// A tar archive that is compressed with gzip.
    TarGz,
}

/// Writes all files in order, with fixed owner, time and permissions. Of the permission bits, only the executable bit
/// is kept.
///
/// Layers of published images are created by this function, so its output must not change between versions.
///
/// # Errors
/// Returns an error if writing fails.
pub fn pack(content: &Content, format: Format, writer: impl Write) -> Result<Digest> {
    let files = content.files().map(|(path, file)| Packed {
        path,
        mode: file.mode,
        size: file.bytes.len() as u64,
        reader: file.bytes.as_ref(),
    });
    // The compression level of all published images. Another level would change their digests.
    compressed(files, format, Compression::default(), writer)
}

/// A file to write.
pub(crate) struct Packed<'a, R> {
    pub(crate) path: &'a str,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Reader of exactly `size` bytes. It fails if the file has another size.
    pub(crate) reader: R,
}

/// Writes files in the given order, which is that of their paths. Compression is fast, because only the digest of the
/// tar archive matters.
pub(crate) fn write<'a, R: Read>(
    files: impl Iterator<Item = Packed<'a, R>>,
    format: Format,
    writer: impl Write,
) -> Result<Digest> {
    compressed(files, format, Compression::fast(), writer)
}

/// Writes files to a tar archive like [`write`], followed by the entries that are not regular files, for a receiver
/// that checks the bundle. Returns the digest and the size of the tar archive of the files alone.
pub(crate) fn deliver<'a, R: Read>(
    files: impl Iterator<Item = Packed<'a, R>>,
    irregular: impl Iterator<Item = (&'a str, &'a Irregular)>,
    writer: impl Write,
) -> Result<(Digest, u64)> {
    let mut archive = tar::Builder::new(HashingWriter::new(writer));
    let write = || -> io::Result<_> {
        append(&mut archive, files)?;
        let content = archive.get_ref().as_ended_tar();
        for (path, entry) in irregular {
            append_irregular(&mut archive, path, entry)?;
        }
        archive.finish()?;
        archive.get_mut().flush()?;
        Ok(content)
    };
    write().map_err(|source| Error::Write { source })
}

/// Returns a gzip encoder with fast compression, because the archive is read once and only the digest of the tar
/// archive matters.
pub(crate) fn gzip<W: Write>(writer: W) -> GzEncoder<W> {
    GzBuilder::new().mtime(0).write(writer, Compression::fast())
}

fn compressed<'a, R: Read>(
    files: impl Iterator<Item = Packed<'a, R>>,
    format: Format,
    level: Compression,
    writer: impl Write,
) -> Result<Digest> {
    let writer = HashingWriter::new(writer);
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
    append(&mut archive, files)?;
    archive.into_inner()
}

fn append<'a, R: Read, W: Write>(
    archive: &mut tar::Builder<W>,
    files: impl Iterator<Item = Packed<'a, R>>,
) -> io::Result<()> {
    for file in files {
        let mut header = header(file.size);
        header.set_mode(if file.mode & 0o111 == 0 { 0o644 } else { 0o755 });
        archive.append_data(&mut header, file.path, file.reader)?;
    }
    Ok(())
}

/// Writes an entry in the form of other tar programs.
fn append_irregular<W: Write>(
    archive: &mut tar::Builder<W>,
    path: &str,
    entry: &Irregular,
) -> io::Result<()> {
    // Entries next to the top-level directory of the bundle have `..` in their path, which tar archives must not
    // contain.
    let outside = path.strip_prefix("../").map(|path| format!(".../{path}"));
    let path = outside.as_deref().unwrap_or(path);
    let mut header = header(0);
    header.set_mode(0o644);
    header.set_entry_type(match entry.kind {
        Kind::Symlink => EntryType::Symlink,
        Kind::HardLink => EntryType::Link,
        Kind::Special => EntryType::Fifo,
        Kind::Sparse => EntryType::GNUSparse,
    });
    match entry.kind {
        // A link without a target cannot be written.
        Kind::Symlink | Kind::HardLink => {
            let target = entry.target.as_deref().unwrap_or("unknown");
            // The receiver already has all files, so a hard link with a target outside of the bundle never refers to
            // one of them.
            let is_hard = entry.kind == Kind::HardLink;
            let target = [if is_hard { "../" } else { "" }, target].concat();
            archive.append_link(&mut header, path, target)
        }
        Kind::Special | Kind::Sparse => archive.append_data(&mut header, path, io::empty()),
    }
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}
