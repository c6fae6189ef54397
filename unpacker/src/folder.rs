//! Reads a directory: only regular files, and none outside of the directory.
//!
//! Symbolic links of a bundle to regular files of the same directory tree are followed where [`Links::Follow`] says so.
//! Every file is opened directory by directory without following links, so that changes of the tree in the meantime
//! cannot lead the reader elsewhere.
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

use manifests::content::{self, Paths, SkippedEntries};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::{
    Digest, Error, Options, Result,
    pack::{self, Packed},
    spool::Room,
    tree::{Builder, Tree},
};

mod walk;

/// Reads all files below the root. Also returns the number of entries that are not selected.
pub(crate) fn read(root: &Path, options: &Options, room: Room) -> Result<(Tree, usize)> {
    let survey = Survey::new(root, options, Bounds::Everything, Links::Follow)?;
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
    for (path, entry) in survey.files.irregular() {
        files.record(path, entry.clone())?;
    }
    Ok((files.finish(), survey.unselected))
}

/// Treatment of symbolic links in `manifests/` and `metadata/` of a bundle to regular files of the same tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// They stand for the files.
    Follow,
    /// They are recorded as all other links are.
    Record,
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
    unselected: usize,
}

/// A file as it was listed.
#[derive(Debug)]
struct Found {
    /// Path of the file if a symbolic link stands for it.
    target: Option<String>,
    mode: u32,
    size: u64,
    device: u64,
    inode: u64,
}

impl Survey {
    /// Lists all that is selected.
    pub(crate) fn new(
        root: &Path,
        options: &Options,
        bounds: Bounds,
        links: Links,
    ) -> Result<Self> {
        walk::walk(root, options, bounds, links)
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Entries that are not regular files.
    pub(crate) fn skipped(&self) -> SkippedEntries {
        SkippedEntries::count(self.files.irregular())
    }

    /// Opens every file and reads none, so that one that may not be read is known before anything is sent.
    pub(crate) fn check(&self) -> Result<()> {
        self.files
            .iter()
            .try_for_each(|(path, found)| self.open(path, found).map(drop))
    }

    /// Writes a tar for a receiver that checks the bundle: the tar that [`pack`](crate::pack) makes of the same files,
    /// with the entries that are not regular files after them. Returns digest and size of the former. No file is in
    /// memory at any time. A file that has another size than it was listed with is an error.
    pub(crate) fn deliver(&self, writer: impl Write) -> Result<(Digest, u64)> {
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
        let written = pack::deliver(files, self.files.irregular(), out);
        match failure.take() {
            Some(failure) => Err(failure),
            None => written,
        }
    }

    fn open(&self, path: &str, found: &Found) -> Result<fs::File> {
        open(&self.root, path, found)
    }
}

/// Opens a file that was listed as a regular file.
fn open(root: &Path, path: &str, found: &Found) -> Result<fs::File> {
    let open = || {
        let file = open_beneath(root, found.target.as_deref().unwrap_or(path))?;
        let now = file.metadata()?;
        if now.is_file() && (now.dev(), now.ino()) == (found.device, found.inode) {
            return Ok(file);
        }
        Err(io::Error::other(
            "it was replaced while the directory was read",
        ))
    };
    open().map_err(|error| failed(path, error))
}

/// Opens a file below a directory, without following a link below it.
fn open_beneath(root: &Path, path: &str) -> io::Result<fs::File> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Without the flag, opening a FIFO that took the place of the file would wait for a writer.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A link in `manifests` to a file in `shared`, and a directory beside the bundle with the same file.
    fn linked() -> (tempfile::TempDir, Survey) {
        let folder = tempfile::tempdir().unwrap();
        for directory in ["bundle/manifests", "bundle/shared", "outside"] {
            fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        let at = |path: &str| folder.path().join(path);
        fs::write(at("bundle/shared/a"), "1").unwrap();
        fs::hard_link(at("bundle/shared/a"), at("outside/a")).unwrap();
        symlink("../shared/a", at("bundle/manifests/a")).unwrap();
        let options = Options::default();
        let bounds = Bounds::Everything;
        let survey = Survey::new(&at("bundle"), &options, bounds, Links::Follow).unwrap();
        (folder, survey)
    }

    #[test]
    fn a_followed_link_is_read_as_its_target() {
        let (_folder, survey) = linked();
        survey.check().unwrap();
        assert_rows!(survey.files.iter().map(|(path, _)| path).collect::<Vec<_>>() => ["manifests/a", "shared/a"]);
    }

    #[test]
    fn a_directory_that_becomes_a_link_leads_nowhere() {
        let (folder, survey) = linked();
        let shared = folder.path().join("bundle/shared");
        fs::rename(&shared, folder.path().join("before")).unwrap();
        symlink("../outside", &shared).unwrap();
        for (path, found) in survey.files.iter() {
            let error = survey.open(path, found).unwrap_err();
            assert_eq!(error.reason(), "ReadFailed", "{path}: {error}");
        }
    }

    #[test]
    fn a_fifo_that_takes_the_place_of_a_file_is_not_waited_for() {
        let (folder, survey) = linked();
        let file = folder.path().join("bundle/shared/a");
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(CWD, &file, Mode::from_raw_mode(0o600)).unwrap();
        assert!(survey.check().is_err());
    }
}
