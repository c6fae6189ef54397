//! What a Job carries.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{Error, error::explain};
use crate::{
    Digest, Options, Selection, SkippedEntries,
    folder::{Bounds, Links, Survey},
    pack,
};

/// The selected files of a folder: found, allowed, readable, and not read yet.
#[derive(Debug)]
pub struct Load {
    folder: PathBuf,
    survey: Survey,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// The digest of the content.
    pub digest: Digest,
    /// The size of the content's tar in bytes.
    pub size: u64,
}

impl Load {
    /// Looks through a folder. Below the root of a container only what the image brought counts.
    ///
    /// # Errors
    /// When there is nothing selected, something exceeds a limit, or may not be read.
    pub fn new(folder: &Path, options: &Options) -> Result<Self, Error> {
        let is_root = fs::canonicalize(folder).is_ok_and(|path| path == Path::new("/"));
        let bounds = if is_root {
            Bounds::Container
        } else {
            Bounds::Everything
        };
        let explain = |error| explain(folder, error);
        // The receiver gives the same answer for an image that it pulls itself, where links cannot be followed.
        let survey = Survey::new(folder, options, bounds, Links::Record).map_err(explain)?;
        let skipped = survey.skipped();
        if survey.len() == 0 && skipped.is_empty() {
            return Err(Error::Empty {
                folder: folder.to_owned(),
                wanted: match &options.select {
                    Selection::Only(paths) => paths.join(", "),
                    Selection::Natural | Selection::All => "any file".to_owned(),
                },
            });
        }
        survey.check().map_err(explain)?;
        Ok(Self {
            folder: folder.to_owned(),
            survey,
        })
    }

    /// The number of files.
    pub fn files(&self) -> usize {
        self.survey.len()
    }

    /// Entries that are not regular files. The receiver gets them without content.
    pub fn skipped(&self) -> SkippedEntries {
        self.survey.skipped()
    }

    /// Writes the tar.gz: compressed fast, for what counts is the tar in it. What was written before an error is no
    /// whole archive.
    ///
    /// # Errors
    /// When a file cannot be read, is not what it was, or writing fails.
    pub fn write(&self, writer: impl Write) -> Result<Packed, Error> {
        let out = Cut {
            writer,
            broken: false,
        };
        let mut gzip = pack::gzip(out);
        let (digest, size) = self.survey.deliver(&mut gzip).map_err(|error| {
            gzip.get_mut().broken = true;
            explain(&self.folder, error)
        })?;
        let written = gzip.finish().and_then(|mut out| out.flush());
        written.map_err(|source| Error::Write { source })?;
        Ok(Packed { digest, size })
    }
}

/// Takes nothing more once the archive cannot become whole: an encoder that is dropped would still end it well.
struct Cut<W> {
    writer: W,
    broken: bool,
}

impl<W: Write> Write for Cut<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.writer.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
