//! Content on its way into the store.

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

use super::{Error, Result, disk::Disk, files, reading::Reading};
use crate::{Digest, Tree};

/// Between the many small pieces of a tar and its file.
const BUFFER: usize = 256 << 10;

/// A file in `tmp` with a shared lock on it, its space accounted for. Dropping it gives both back.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    disk: &'a Disk,
    temp: NamedTempFile,
    reserved: Reserved<'a>,
}

/// Space that is accounted for until this is dropped.
#[derive(Debug)]
struct Reserved<'a> {
    disk: &'a Disk,
    size: u64,
}

/// Content that is in its place, with a shared lock on it.
#[derive(Debug)]
pub(super) enum Kept {
    /// Written just now.
    New(File),
    /// It was there before.
    Old(File),
}

impl<'a> Writing<'a> {
    /// For a file for which `size` bytes have been accounted for.
    pub(super) fn new(disk: &'a Disk, temp: NamedTempFile, size: u64) -> Self {
        let reserved = Reserved { disk, size };
        Self {
            disk,
            temp,
            reserved,
        }
    }

    /// Writes all of a tree, and waits until the disk has it.
    pub(super) fn fill(&self, tree: &Tree, stop: &AtomicBool) -> Result<Digest> {
        let failed = |error| {
            self.disk
                .explain("write a file in", self.reserved.size, error)
        };
        let mut sink = Sink {
            file: self.temp.as_file(),
            left: self.reserved.size,
            stop,
            failure: None,
        };
        let written = tree.write_tar(BufWriter::with_capacity(BUFFER, &mut sink));
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if let Some(error) = sink.failure {
            return Err(failed(error));
        }
        let digest = written.map_err(|error| Error::Content(Arc::new(error)))?;
        let size = self.reserved.size - sink.left;
        self.temp.as_file().set_len(size).map_err(failed)?;
        self.temp.as_file().sync_all().map_err(failed)?;
        Ok(digest)
    }

    /// Gives the file the name of its content, unless that is there. What is there is read to its end first: who brings
    /// the right bytes is not sent away for the sake of wrong ones.
    pub(super) fn keep(self, digest: &Digest) -> Result<Kept> {
        // In this order, so that early returns remove the file first and give back its space then.
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
        let mut damaged = None;
        let (mut usage, old) = loop {
            let usage = disk.state.lock()?;
            let old = fs::symlink_metadata(&path)
                .ok()
                .filter(fs::Metadata::is_file);
            let is_damaged = damaged
                .as_ref()
                .is_some_and(|file| files::is_at(file, &path));
            if is_damaged || old.as_ref().is_none_or(|old| old.len() != size.len()) {
                break (usage, old);
            }
            // Nobody can unlink it before it is opened: that takes the usage. What cannot even be opened is replaced.
            let Ok(file) = disk.content(digest) else {
                break (usage, old);
            };
            drop(usage); // reading takes its time
            match Reading::new(&file).finish() {
                Ok(found) if found == *digest => return Ok(Kept::Old(file)),
                _ => warn!(%digest, "replacing content that was damaged on disk"),
            }
            damaged = Some(file);
        };
        let file = match temp.persist(&path) {
            Ok(file) => file,
            Err(error) => {
                drop(usage); // or giving back what was reserved would wait for it
                return Err(Error::file("write", path)(error.error));
            }
        };
        // Writing marks it only to the tick of a coarse clock, and so perhaps as older than what was used before.
        disk.clock.touch(&file);
        // What was reserved for it is now in use by it, and whoever held the old one holds something damaged.
        let replaced = old.map_or(0, |old| old.len());
        usage.set((usage.used() + size.len()).saturating_sub(reserved.size + replaced))?;
        reserved.size = 0;
        drop(usage);
        let folder = File::open(&disk.content).and_then(|folder| folder.sync_all());
        folder.map_err(Error::file("sync", &disk.content))?;
        Ok(Kept::New(file))
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.size > 0
            && let Ok(mut usage) = self.disk.state.lock()
        {
            let rest = usage.used().saturating_sub(self.size);
            // What cannot be written down is counted until somebody measures.
            let _ = usage.set(rest);
        }
    }
}

/// Writes no more than has been reserved, and stops when nobody waits for it any more.
struct Sink<'a> {
    file: &'a File,
    left: u64,
    stop: &'a AtomicBool,
    /// What the writers above would only pass on as text.
    failure: Option<io::Error>,
}

impl Write for Sink<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        let written = if buffer.len() as u64 > self.left {
            Err(ErrorKind::FileTooLarge.into())
        } else {
            self.file.write(buffer)
        };
        match written {
            Ok(count) => {
                self.left -= count as u64;
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

/// The size of the tar that a tree makes: for each file a header, perhaps one more with a long path, and its bytes,
/// in blocks of 512; then two blocks.
pub(super) fn size_of(tree: &Tree) -> u64 {
    let blocks = |bytes: u64| bytes.div_ceil(512).saturating_mul(512);
    let sizes = tree.files().map(|(path, file)| {
        let path = path.len() as u64;
        let long = if path > 100 {
            512 + blocks(path + 1)
        } else {
            0
        };
        blocks(file.size).saturating_add(512 + long)
    });
    sizes.fold(1024, u64::saturating_add)
}
