//! Reader of directories. It reads only regular files, and none outside of the directory.
//!
//! Symbolic links of a bundle to regular files of the same directory tree are followed if [`Links::Follow`] is set.
//! Every file is opened directory by directory without following links, so that concurrent changes of the tree cannot
//! redirect the reader.
//!
//! A directory is listed first and read afterwards, file by file. Therefore the limits are checked before the first
//! byte is read, and a directory of any size can be streamed into a tar archive.

use std::{
    cell::RefCell,
    fs,
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use manifests::content::{self, PathMap, SkippedEntries};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::{
    Digest, Error, Options, Result,
    pack::{self, Packed},
    spool::Storage,
    tree::{Builder, Tree},
};

mod walk;

/// Reads all files below the root. Also returns the number of entries that are not selected.
pub(crate) fn read(root: &Path, options: &Options, storage: Storage) -> Result<(Tree, usize)> {
    let listing = DirListing::new(root, options, WalkScope::Unlimited, Links::Follow)?;
    let mut files = Builder::new(options.limits, storage);
    for (path, listed) in listing.files.iter() {
        let mut file = listing.open(path, listed)?;
        files
            .add(path, listed.mode, &mut file)
            .map_err(|error| match error {
                Error::Content(content::Error::Read { source, .. }) => failed(path, source),
                error => error,
            })?;
    }
    for (path, entry) in listing.files.irregular() {
        files.record(path, entry.clone())?;
    }
    Ok((files.finish(), listing.unselected))
}

/// Treatment of symbolic links in `manifests/` and `metadata/` of a bundle to regular files of the same tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Read the target file in place of the link.
    Follow,
    /// Record the link like all other links.
    Record,
}

/// The extent of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkScope {
    /// All entries of the directory.
    Unlimited,
    /// All entries except those that a container runtime adds to the root of every container.
    Container,
}

/// The selected regular files of a directory, before any of them is opened.
#[derive(Debug)]
pub(crate) struct DirListing {
    root: PathBuf,
    files: PathMap<ListedFile>,
    unselected: usize,
}

/// A file with the metadata of the listing.
#[derive(Debug)]
struct ListedFile {
    /// Path of the file if the listed path is a symbolic link to it; otherwise `None`.
    target: Option<String>,
    mode: u32,
    size: u64,
    device: u64,
    inode: u64,
}

impl DirListing {
    /// Lists the selected files.
    pub(crate) fn new(
        root: &Path,
        options: &Options,
        bounds: WalkScope,
        links: Links,
    ) -> Result<Self> {
        walk::walk(root, options, bounds, links)
    }

    /// Returns the number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the entries that are not regular files.
    pub(crate) fn skipped(&self) -> SkippedEntries {
        SkippedEntries::count(self.files.irregular())
    }

    /// Opens every file without reading it, so that an unreadable file is detected before anything is sent.
    pub(crate) fn check(&self) -> Result<()> {
        self.files
            .iter()
            .try_for_each(|(path, listed)| self.open(path, listed).map(drop))
    }

    /// Writes a tar archive for a receiver that checks the bundle. It is the archive of [`pack`](crate::pack) for the
    /// same files, followed by the entries that are not regular files. Returns digest and size of the former. No file
    /// is held in memory. A file whose size differs from the listing is an error.
    pub(crate) fn deliver(&self, writer: impl Write) -> Result<(Digest, u64)> {
        let failure = RefCell::new(None);
        let files = self.files.iter().map(|(path, listed)| Packed {
            path,
            mode: listed.mode,
            size: listed.size,
            reader: ExactReader {
                listing: self,
                path,
                listed,
                file: None,
                remaining: listed.size,
                failure: &failure,
            },
        });
        let out = FailingWriter {
            writer,
            failure: &failure,
        };
        let written = pack::deliver(files, self.files.irregular(), out);
        match failure.take() {
            Some(failure) => Err(failure),
            None => written,
        }
    }

    fn open(&self, path: &str, listed: &ListedFile) -> Result<fs::File> {
        open(&self.root, path, listed)
    }
}

/// Opens a file that was listed as a regular file.
fn open(root: &Path, path: &str, listed: &ListedFile) -> Result<fs::File> {
    let open = || {
        let file = open_beneath(root, listed.target.as_deref().unwrap_or(path))?;
        let now = file.metadata()?;
        if now.is_file() && (now.dev(), now.ino()) == (listed.device, listed.inode) {
            return Ok(file);
        }
        Err(io::Error::other(
            "the file was replaced while the directory was read",
        ))
    };
    open().map_err(|error| failed(path, error))
}

/// Opens a file below a directory without following links below it.
fn open_beneath(root: &Path, path: &str) -> io::Result<fs::File> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Without this flag, opening a FIFO that replaced the file would wait for a writer.
    let file = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut at = openat(CWD, root, directory, Mode::empty())?;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_some() {
            directory
        } else {
            file
        };
        at = openat(&at, part, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(at.into())
}

fn failed(path: &str, source: io::Error) -> Error {
    let path = if path.is_empty() { "." } else { path }.to_owned();
    Error::Read { path, source }
}

/// A reader of a file with a known size, which is open only while it is read. Read errors are stored in `failure`,
/// because the error of a copy could also be a write error.
struct ExactReader<'a> {
    listing: &'a DirListing,
    path: &'a str,
    listed: &'a ListedFile,
    file: Option<fs::File>,
    remaining: u64,
    failure: &'a RefCell<Option<Error>>,
}

impl ExactReader<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            closed => closed.insert(self.listing.open(self.path, self.listed)?),
        };
        let failed = |error| failed(self.path, error);
        let count = loop {
            match file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result.map_err(failed)?,
            }
        };
        match self.remaining.checked_sub(count as u64) {
            Some(remaining) if count > 0 || remaining == 0 || buffer.is_empty() => {
                self.remaining = remaining;
                Ok(count)
            }
            _ => Err(failed(io::Error::other(
                "the file size changed while the file was read",
            ))),
        }
    }
}

impl Read for ExactReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.next(buffer).map_err(|error| {
            self.failure.replace(Some(error));
            io::Error::other("failed to read a file")
        })
    }
}

/// A writer that fails after a read error. Otherwise the tar archive would be completed.
struct FailingWriter<'a, W> {
    writer: W,
    failure: &'a RefCell<Option<Error>>,
}

impl<W: Write> Write for FailingWriter<'_, W> {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns a directory with a link from `manifests` to a file in `shared`, and a sibling with the same file.
    fn linked() -> (tempfile::TempDir, DirListing) {
        let directory = tempfile::tempdir().unwrap();
        for name in ["bundle/manifests", "bundle/shared", "outside"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        let at = |path: &str| directory.path().join(path);
        fs::write(at("bundle/shared/a"), "1").unwrap();
        fs::hard_link(at("bundle/shared/a"), at("outside/a")).unwrap();
        symlink("../shared/a", at("bundle/manifests/a")).unwrap();
        let options = Options::default();
        let bounds = WalkScope::Unlimited;
        let survey = DirListing::new(&at("bundle"), &options, bounds, Links::Follow).unwrap();
        (directory, survey)
    }

    #[test]
    fn directory_replaced_by_a_link_is_not_followed() {
        let (directory, survey) = linked();
        assert_eq!(survey.files.iter().count(), 2);
        let shared = directory.path().join("bundle/shared");
        fs::rename(&shared, directory.path().join("before")).unwrap();
        symlink("../outside", &shared).unwrap();
        for (path, listed) in survey.files.iter() {
            let error = survey.open(path, listed).unwrap_err();
            assert_eq!(error.reason(), "ReadFailed", "{path}: {error}");
        }
    }

    #[test]
    fn fifo_that_replaces_a_file_does_not_block() {
        let (directory, survey) = linked();
        let file = directory.path().join("bundle/shared/a");
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(CWD, &file, Mode::from_raw_mode(0o600)).unwrap();
        assert!(survey.check().is_err());
    }
}
