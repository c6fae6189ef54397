//! State that all processes share: a small file with a lock and the number of used bytes.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

/// Magic bytes at the start of the file. They identify the directory as a store, so that no other directory is swept.
const MAGIC: &[u8] = b"content store 1\n";
const SALT: usize = 32;
/// Offset of the used bytes. They follow the magic bytes and the salt, with the digits of the largest possible
/// number.
const USED_OFFSET: usize = MAGIC.len() + SALT;
const DIGITS: usize = 20;

/// The open state file.
#[derive(Debug)]
pub(super) struct UsageFile {
    /// `flock` excludes other processes, and the mutex other threads of this process.
    file: Mutex<File>,
    path: PathBuf,
    /// Random bytes that are created with the store. Hashes with this salt cannot be compared with other hashes.
    pub(super) salt: [u8; SALT],
}

/// Exclusive access to the directory for a short time. It is not held while content is read, written or synced.
#[derive(Debug)]
pub(super) struct UsageLock<'a> {
    state: &'a UsageFile,
    file: MutexGuard<'a, File>,
    used: u64,
}

impl UsageFile {
    /// Opens or creates the file. `is_free` checks whether a directory without the file may become a store.
    pub(super) fn open(path: &Path, is_free: impl Fn() -> Result<()>) -> Result<Self> {
        let failed = |error| Error::open(path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let mut bytes = Vec::new();
        let read = (&mut file).take(4096).read_to_end(&mut bytes);
        read.map_err(failed)?;
        // An empty file, or one with only zeros, remains after a crash before the first bytes reached the disk.
        if bytes.iter().all(|byte| *byte == 0) {
            is_free()?;
            bytes = [MAGIC, &random().map_err(failed)?, &[b'0'; DIGITS]].concat();
            file.write_all_at(&bytes, 0).map_err(failed)?;
            file.sync_all().map_err(failed)?;
        }
        let salt = bytes
            .get(MAGIC.len()..USED_OFFSET)
            .map(<[u8; SALT]>::try_from);
        let (true, Some(Ok(salt))) = (bytes.starts_with(MAGIC), salt) else {
            return Err(Error::Foreign { path: path.into() });
        };
        file.unlock().map_err(failed)?;
        Ok(Self {
            file: Mutex::new(file),
            path: path.into(),
            salt,
        })
    }

    /// Waits for exclusive access.
    pub(super) fn lock(&self) -> Result<UsageLock<'_>> {
        let file = self.file.lock();
        file.lock().map_err(Error::file("lock", &self.path))?;
        let mut digits = [0; DIGITS];
        let read = file.read_exact_at(&mut digits, USED_OFFSET as u64);
        read.map_err(Error::file("read", &self.path))?;
        let used = std::str::from_utf8(&digits)
            .ok()
            .and_then(|digits| digits.parse().ok());
        Ok(UsageLock {
            state: self,
            file,
            // A malformed number is measured again, like every number that exceeds the budget.
            used: used.unwrap_or(u64::MAX),
        })
    }
}

impl UsageLock<'_> {
    /// Returns the size of all content and of all content being written. After a process was killed, the number may
    /// be too large, but never too small: bytes are counted before they are written, and deducted after they are
    /// removed.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Records the number for all processes.
    pub(super) fn set(&mut self, used: u64) -> Result<()> {
        let digits = format!("{used:0DIGITS$}");
        let written = self
            .file
            .write_all_at(digits.as_bytes(), USED_OFFSET as u64);
        written.map_err(Error::file("write", &self.state.path))?;
        self.used = used;
        Ok(())
    }
}

impl Drop for UsageLock<'_> {
    fn drop(&mut self) {
        // Unlocking fails only for files that cannot be locked, and this file was locked.
        let _ = self.file.unlock();
    }
}

/// Returns unpredictable bytes from the operating system.
fn random() -> io::Result<[u8; SALT]> {
    let mut bytes = [0; SALT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
