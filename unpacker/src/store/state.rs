//! What all processes that use a folder agree upon: one small file, its lock, and in it how full the folder is.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Error, Result};

/// How the file begins. It marks the folder as ours, so that nothing is ever swept in another one.
const MARK: &[u8] = b"content store 1\n";
const SALT: usize = 32;
/// The bytes in use stand behind mark and salt, in as many digits as any number needs.
const USED: usize = MARK.len() + SALT;
const DIGITS: usize = 20;

/// The open file.
#[derive(Debug)]
pub(super) struct State {
    /// `flock` keeps processes apart, the mutex the threads of this one.
    file: Mutex<File>,
    path: PathBuf,
    /// Random, and made with the store: what is hashed with it cannot be compared with anything outside.
    pub(super) salt: [u8; SALT],
}

/// Sole access to the folder, for microseconds: never held while content is read, written or synced.
#[derive(Debug)]
pub(super) struct Usage<'a> {
    state: &'a State,
    file: MutexGuard<'a, File>,
    used: u64,
}

impl State {
    /// Opens or makes the file. `is_free` tells whether a folder without that file may be made a store.
    pub(super) fn open(path: &Path, is_free: impl Fn() -> Result<()>) -> Result<Self> {
        let failed = |error| Error::open(path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let mut bytes = Vec::new();
        let whole = (&mut file).take(4096).read_to_end(&mut bytes);
        whole.map_err(failed)?;
        // Nothing or zeros is what a crash leaves that came before the first bytes were on disk.
        if bytes.iter().all(|byte| *byte == 0) {
            is_free()?;
            bytes = [MARK, &random().map_err(failed)?, &[b'0'; DIGITS]].concat();
            file.write_all_at(&bytes, 0).map_err(failed)?;
            file.sync_all().map_err(failed)?;
        }
        let salt = bytes.get(MARK.len()..USED).map(<[u8; SALT]>::try_from);
        let (true, Some(Ok(salt))) = (bytes.starts_with(MARK), salt) else {
            return Err(Error::Foreign { path: path.into() });
        };
        file.unlock().map_err(failed)?;
        Ok(Self {
            file: Mutex::new(file),
            path: path.into(),
            salt,
        })
    }

    /// Waits until nobody else has it.
    pub(super) fn lock(&self) -> Result<Usage<'_>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.lock().map_err(Error::file("lock", &self.path))?;
        let mut digits = [0; DIGITS];
        let read = file.read_exact_at(&mut digits, USED as u64);
        read.map_err(Error::file("read", &self.path))?;
        let used = std::str::from_utf8(&digits)
            .ok()
            .and_then(|digits| digits.parse().ok());
        Ok(Usage {
            state: self,
            file,
            // What is no number is measured anew, as is every number that leaves no room.
            used: used.unwrap_or(u64::MAX),
        })
    }
}

impl Usage<'_> {
    /// The bytes that all content has, and all that is being written. A process that is killed may leave more than
    /// there is, never less: bytes are counted before they are written, and discounted after they are gone.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Writes the number down for everybody.
    pub(super) fn set(&mut self, used: u64) -> Result<()> {
        let digits = format!("{used:0DIGITS$}");
        let written = self.file.write_all_at(digits.as_bytes(), USED as u64);
        written.map_err(Error::file("write", &self.state.path))?;
        self.used = used;
        Ok(())
    }
}

impl Drop for Usage<'_> {
    fn drop(&mut self) {
        // Fails only for files that cannot be locked, and this one was.
        let _ = self.file.unlock();
    }
}

/// Unpredictable bytes, from the system.
fn random() -> io::Result<[u8; SALT]> {
    let mut bytes = [0; SALT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
