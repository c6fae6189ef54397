//! Writer of new content.

use std::{
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tempfile::NamedTempFile;
use tracing::warn;

use super::{Error, Result, disk::Disk, files, reader::VerifyingReader};
use crate::{Digest, Tree};

/// Size of the buffer between the many small pieces of a tar archive and its file.
const BUFFER: usize = 256 << 10;

/// A file in `tmp` with a shared lock and reserved space. Dropping it removes the file and releases the space.
#[derive(Debug)]
pub(super) struct ContentWriter<'a> {
    disk: &'a Disk,
    temp: NamedTempFile,
    reserved: Reserved<'a>,
}

/// Reserved space, which is released on drop.
#[derive(Debug)]
struct Reserved<'a> {
    disk: &'a Disk,
    size: u64,
}

/// The content file after a commit, with a shared lock.
#[derive(Debug)]
pub(super) enum CommitOutcome {
    /// The content was written.
    New(File),
    /// The content already existed.
    Existing(File),
}

impl<'a> ContentWriter<'a> {
    /// Creates a writer for a file with `size` reserved bytes.
    pub(super) fn new(disk: &'a Disk, temp: NamedTempFile, size: u64) -> Self {
        let reserved = Reserved { disk, size };
        Self {
            disk,
            temp,
            reserved,
        }
    }

    /// Writes a tree and syncs it to disk.
    pub(super) fn fill(&self, tree: &Tree, stop: &AtomicBool) -> Result<Digest> {
        let failed = |error| {
            self.disk
                .io_error("write a file in", self.reserved.size, error)
        };
        let mut writer = ReservedWriter {
            file: self.temp.as_file(),
            remaining: self.reserved.size,
            stop,
            failure: None,
        };
        let written = tree.write_tar(BufWriter::with_capacity(BUFFER, &mut writer));
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if let Some(error) = writer.failure {
            return Err(failed(error));
        }
        let digest = written.map_err(|error| Error::Content(Arc::new(error)))?;
        let size = self.reserved.size - writer.remaining;
        self.temp.as_file().set_len(size).map_err(failed)?;
        self.temp.as_file().sync_all().map_err(failed)?;
        Ok(digest)
    }

    /// Moves the file to the path of its content, unless intact content exists. Existing content is verified first,
    /// so that corrupt content is replaced.
    pub(super) fn commit(self, digest: &Digest) -> Result<CommitOutcome> {
        // The order matters for early returns: the file is removed before its space is released.
        let Self {
            disk,
            mut reserved,
            temp,
        } = self;
        let path = disk.path(digest);
        let size = temp
            .as_file()
            .metadata()
            .map_err(Error::file("examine", temp.path()))?;
        let mut corrupt = None;
        let (mut usage, existing) = loop {
            let usage = disk.state.lock()?;
            let existing = fs::symlink_metadata(&path)
                .ok()
                .filter(fs::Metadata::is_file);
            let is_corrupt = corrupt
                .as_ref()
                .is_some_and(|file| files::is_at(file, &path));
            if is_corrupt
                || existing
                    .as_ref()
                    .is_none_or(|existing| existing.len() != size.len())
            {
                break (usage, existing);
            }
            // No process can unlink the file before it is opened, because that takes the usage lock. A file that
            // cannot be opened is replaced.
            let Ok(file) = disk.content(digest) else {
                break (usage, existing);
            };
            drop(usage); // not held while the file is read
            match VerifyingReader::new(&file).finish() {
                Ok(actual) if actual == *digest => return Ok(CommitOutcome::Existing(file)),
                _ => warn!(%digest, "replacing corrupt content"),
            }
            corrupt = Some(file);
        };
        let file = match temp.persist(&path) {
            Ok(file) => file,
            Err(error) => {
                drop(usage); // dropping the reservation takes the lock
                return Err(Error::file("write", path)(error.error));
            }
        };
        // The write set the time with the coarse clock of the kernel, so the file may appear older than content that
        // was used before.
        disk.clock.mark_used(&file);
        // The reserved space is now used by the file. A `Hold` of the replaced file protects corrupt content.
        let replaced = existing.map_or(0, |existing| existing.len());
        usage.set((usage.used() + size.len()).saturating_sub(reserved.size + replaced))?;
        reserved.size = 0;
        drop(usage);
        let synced = File::open(&disk.content).and_then(|dir| dir.sync_all());
        synced.map_err(Error::file("sync", &disk.content))?;
        Ok(CommitOutcome::New(file))
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.size > 0
            && let Ok(mut usage) = self.disk.state.lock()
        {
            let used = usage.used().saturating_sub(self.size);
            // If the number cannot be recorded, the space is counted until the next measurement.
            let _ = usage.set(used);
        }
    }
}

/// A writer that writes at most the reserved bytes, and stops when no caller waits for the content.
struct ReservedWriter<'a> {
    file: &'a File,
    remaining: u64,
    stop: &'a AtomicBool,
    /// Error of the file. The writers above it would only pass its text on.
    failure: Option<io::Error>,
}

impl Write for ReservedWriter<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("all callers gave up"));
        }
        let written = if buffer.len() as u64 > self.remaining {
            Err(ErrorKind::FileTooLarge.into())
        } else {
            self.file.write(buffer)
        };
        match written {
            Ok(count) => {
                self.remaining -= count as u64;
                Ok(count)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the size of the tar archive of a tree. Each file has a header, possibly a second one for a long path, and
/// its content in blocks of 512 bytes. Two blocks follow at the end.
pub(super) fn size_of(tree: &Tree) -> u64 {
    let blocks = |bytes: u64| bytes.div_ceil(512).saturating_mul(512);
    let sizes = tree.files().map(|(path, file)| {
        let path = path.len() as u64;
        let long_path = if path > 100 {
            512 + blocks(path + 1)
        } else {
            0
        };
        blocks(file.size).saturating_add(512 + long_path)
    });
    sizes.fold(1024, u64::saturating_add)
}
