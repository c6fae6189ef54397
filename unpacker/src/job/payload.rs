//! Files that a Job uploads.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{Error, error::describe};
use crate::{
    Digest, Options, Selection, SkippedEntries,
    dir::{DirListing, Links, WalkScope},
    pack,
};

/// The selected files of a directory. They are listed, allowed and readable, but not read yet.
#[derive(Debug)]
pub struct Payload {
    dir: PathBuf,
    listing: DirListing,
}

/// A written archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Digest of the content.
    pub digest: Digest,
    /// Size of the tar archive of the content, in bytes.
    pub size: u64,
}

impl Payload {
    /// Lists the selected files of a directory. For the root of a container, only files of the image are included.
    ///
    /// # Errors
    /// Returns an error if no file is selected, a limit is exceeded, or a file is not readable.
    pub fn new(directory: &Path, options: &Options) -> Result<Self, Error> {
        let is_root = fs::canonicalize(directory).is_ok_and(|path| path == Path::new("/"));
        let bounds = if is_root {
            WalkScope::Container
        } else {
            WalkScope::Unlimited
        };
        let to_error = |error| describe(directory, error);
        // The receiver pulls images itself with the same result; there, links cannot be followed.
        let listing =
            DirListing::new(directory, options, bounds, Links::Record).map_err(to_error)?;
        let skipped = listing.skipped();
        if listing.len() == 0 && skipped.is_empty() {
            return Err(Error::Empty {
                directory: directory.to_owned(),
                wanted: match &options.select {
                    Selection::Only(paths) => paths.join(", "),
                    Selection::Default | Selection::All => "all files".to_owned(),
                },
            });
        }
        listing.check().map_err(to_error)?;
        Ok(Self {
            dir: directory.to_owned(),
            listing,
        })
    }

    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.listing.len()
    }

    /// Returns the entries that are not regular files. The receiver gets them without content.
    pub fn skipped(&self) -> SkippedEntries {
        self.listing.skipped()
    }

    /// Writes the content as a tar.gz archive. Compression is fast, because only the tar archive in it matters. After
    /// an error, the written bytes are not a complete archive.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or has changed, or if writing fails.
    pub fn write(&self, writer: impl Write) -> Result<Packed, Error> {
        let out = AbortableWriter {
            writer,
            aborted: false,
        };
        let mut gzip = pack::gzip(out);
        let (digest, size) = self.listing.deliver(&mut gzip).map_err(|error| {
            gzip.get_mut().aborted = true;
            describe(&self.dir, error)
        })?;
        let written = gzip.finish().and_then(|mut out| out.flush());
        written.map_err(|source| Error::Write { source })?;
        Ok(Packed { digest, size })
    }
}

/// A writer that accepts no more bytes after a failure. Otherwise a dropped encoder would complete the archive.
struct AbortableWriter<W> {
    writer: W,
    aborted: bool,
}

impl<W: Write> Write for AbortableWriter<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.aborted {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.writer.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
