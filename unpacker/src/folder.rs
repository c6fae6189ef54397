//! Reading a folder: never through a link, never from anything but a regular file.
//!
//! A folder is surveyed first, by its listings alone, and read afterwards, file by file. So limits are known to hold
//! before the first byte is read, and a folder of any size can be streamed into a tar.

use std::{
    cell::RefCell,
    fs,
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use manifests::content::{self, Paths};

use crate::{
    Digest, Error, Format, Options, Result, Skipped,
    pack::{self, Packed},
    spool::Room,
    tree::{Builder, Tree},
};

mod walk;

/// Reads all files below the root.
pub(crate) fn read(root: &Path, options: &Options, room: Room) -> Result<(Tree, Skipped)> {
    let survey = Survey::new(root, options, Bounds::Everything)?;
    let mut files = Builder::new(options.limits, room);
    for (path, found) in survey.files.iter() {
        let mut file = survey.open(path, found)?;
        files
            .add(path, found.mode, &mut file)
            .map_err(|error| match error {
                Error::Content(content::Error::Read { source, .. }) => failed(path, source),
                error => error,
            })?;
    }
    Ok((files.finish(), survey.skipped))
}

/// Where a survey stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// Nowhere.
    Everything,
    /// At what a container runtime puts into the root of every container.
    Container,
}

/// The regular files of a folder, none of them opened yet.
#[derive(Debug)]
pub(crate) struct Survey {
    root: PathBuf,
    files: Paths<Found>,
    skipped: Skipped,
}

/// A file as it was listed.
#[derive(Debug)]
struct Found {
    mode: u32,
    size: u64,
    device: u64,
    inode: u64,
}

impl Survey {
    /// Lists all that is selected.
    pub(crate) fn new(root: &Path, options: &Options, bounds: Bounds) -> Result<Self> {
        walk::walk(root, options, bounds)
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// What is there besides.
    pub(crate) fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Opens every file and reads none, so that one that may not be read is known before anything is sent.
    pub(crate) fn check(&self) -> Result<()> {
        self.files
            .iter()
            .try_for_each(|(path, found)| self.open(path, found).map(drop))
    }

    /// Writes the tar that [`pack`](crate::pack) makes of the same files, and has no file in memory at any time. A
    /// file that has another size than it was listed with is an error.
    pub(crate) fn write_tar(&self, writer: impl Write) -> Result<Digest> {
        let failure = RefCell::new(None);
        let files = self.files.iter().map(|(path, found)| Packed {
            path,
            mode: found.mode,
            size: found.size,
            reader: Exact {
                survey: self,
                path,
                found,
                file: None,
                left: found.size,
                failure: &failure,
            },
        });
        let out = Guarded {
            writer,
            failure: &failure,
        };
        let written = pack::write(files, Format::Tar, out);
        match failure.take() {
            Some(failure) => Err(failure),
            None => written,
        }
    }

    /// Opens what was listed as a regular file, and makes sure that no link took its place meanwhile.
    fn open(&self, path: &str, found: &Found) -> Result<fs::File> {
        let at = self.root.join(path);
        let is_same = |now: &fs::Metadata| (now.dev(), now.ino()) == (found.device, found.inode);
        let open = || {
            // Looked at first as well: opening a fifo would wait.
            let listed = fs::symlink_metadata(&at)?;
            if listed.is_file() && is_same(&listed) {
                let file = fs::File::open(&at)?;
                if is_same(&file.metadata()?) {
                    return Ok(file);
                }
            }
            Err(io::Error::other(
                "it was replaced while the folder was read",
            ))
        };
        open().map_err(|error| failed(path, error))
    }
}

fn failed(path: &str, source: io::Error) -> Error {
    let path = if path.is_empty() { "." } else { path }.to_owned();
    Error::Read { path, source }
}

/// A file of so many bytes, neither fewer nor more, which is open only while it is read. Why it cannot be read is put
/// aside, for behind a copy that could as well be a failure to write.
struct Exact<'a> {
    survey: &'a Survey,
    path: &'a str,
    found: &'a Found,
    file: Option<fs::File>,
    left: u64,
    failure: &'a RefCell<Option<Error>>,
}

impl Exact<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            closed => closed.insert(self.survey.open(self.path, self.found)?),
        };
        let failed = |error| failed(self.path, error);
        let count = loop {
            match file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result.map_err(failed)?,
            }
        };
        match self.left.checked_sub(count as u64) {
            Some(left) if count > 0 || left == 0 || buffer.is_empty() => {
                self.left = left;
                Ok(count)
            }
            _ => Err(failed(io::Error::other(
                "its size changed while it was read",
            ))),
        }
    }
}

impl Read for Exact<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.next(buffer).map_err(|error| {
            self.failure.replace(Some(error));
            io::Error::other("a file cannot be read")
        })
    }
}

/// Takes nothing more behind a failure: the tar would still be given an end.
struct Guarded<'a, W> {
    writer: W,
    failure: &'a RefCell<Option<Error>>,
}

impl<W: Write> Write for Guarded<'_, W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.failure.borrow().is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.writer.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
