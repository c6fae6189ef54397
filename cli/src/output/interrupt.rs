//! Handling of Ctrl-C and other signals: removes unfinished files before the process exits.
//!
//! Signals are handled only after the first [`CleanupGuard`] was created.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::{Once, mpsc},
    thread,
};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};

use super::progress;

/// Signals that end a process, with the exit codes of shells for them.
const SIGNALS: [(SignalKind, u8); 3] = [
    (SignalKind::interrupt(), 130),
    (SignalKind::terminate(), 143),
    (SignalKind::hangup(), 129),
];

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pending {
    File(PathBuf),
    /// A directory with all its contents.
    Directory(PathBuf),
    /// A directory that is removed only if it is empty.
    EmptyDirectory(PathBuf),
}

/// A file or directory that is removed when the guard is dropped, or when the process receives a signal.
#[derive(Debug)]
pub(crate) struct CleanupGuard(Option<Pending>);

impl CleanupGuard {
    /// Creates a file that is guarded from the start.
    pub(crate) fn file(path: &Path) -> io::Result<(fs::File, Self)> {
        Self::new(Pending::File(path.to_owned()), fs::File::create_new)
    }

    /// Creates a directory, and guards all its contents.
    pub(crate) fn directory(path: &Path) -> io::Result<Self> {
        let created = Self::new(Pending::Directory(path.to_owned()), fs::create_dir);
        Ok(created?.1)
    }

    /// Creates a directory that is removed only while it is empty.
    pub(crate) fn empty_directory(path: &Path) -> io::Result<Self> {
        let created = Self::new(Pending::EmptyDirectory(path.to_owned()), fs::create_dir);
        Ok(created?.1)
    }

    fn new<T>(
        pending: Pending,
        create: impl FnOnce(PathBuf) -> io::Result<T>,
    ) -> io::Result<(T, Self)> {
        static LISTEN: Once = Once::new();
        LISTEN.call_once(listen);
        // The signal handler waits for the lock.
        let mut pending_list = PENDING.lock();
        let created = create(pending.path().to_owned())?;
        pending_list.push(pending.clone());
        drop(pending_list);
        Ok((created, Self(Some(pending))))
    }

    /// Keeps the file or directory.
    pub(crate) fn commit(mut self) {
        let finished = self.0.take();
        PENDING
            .lock()
            .retain(|other| Some(other) != finished.as_ref());
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        if let Some(pending) = self.0.take() {
            let mut pending_list = PENDING.lock();
            pending_list.retain(|other| *other != pending);
            pending.remove();
        }
    }
}

impl Pending {
    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Directory(path) | Self::EmptyDirectory(path) => path,
        }
    }

    /// Removes the file or directory. A failure is not reported; the next run finds the remaining file.
    fn remove(&self) {
        let _ = match self {
            Self::File(path) => fs::remove_file(path),
            Self::Directory(path) => fs::remove_dir_all(path),
            Self::EmptyDirectory(path) => fs::remove_dir(path),
        };
    }
}

/// Creates a file or a directory with an unused name, so that neither the remains of a killed process nor a symbolic link
/// of another user is used. Returns its absolute path, and the result of `create`.
pub(super) fn create_unique<T>(
    directory: &Path,
    prefix: &OsStr,
    create: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    let mut names = tempfile::Builder::new();
    // The guard removes the file, also after a signal.
    names.prefix(prefix).disable_cleanup(true);
    let (created, path) = names.make_in(directory, create)?.into_parts();
    Ok((path.to_path_buf(), created))
}

/// Waits for a signal and returns its exit code. This is for work without unfinished files: while a [`CleanupGuard`]
/// exists, its signal handler exits the process first.
pub(crate) async fn wait_for_signal() -> u8 {
    let [(a, one), (b, two), (c, three)] = SIGNALS;
    let (Ok(mut a), Ok(mut b), Ok(mut c)) = (signal(a), signal(b), signal(c)) else {
        // Without a handler, the signals end the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = a.recv() => one,
        _ = b.recv() => two,
        _ = c.recv() => three,
    }
}

/// Runs work that a signal must not interrupt. The work must be short.
pub(crate) fn without_interrupt<T>(work: impl FnOnce() -> T) -> T {
    let _list = PENDING.lock();
    work()
}

/// Starts the signal handler, and returns once it is ready. If it cannot be started, signals have their default effect.
fn listen() {
    let (ready, is_ready) = mpsc::channel();
    let wait = move || -> Option<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .ok()?;
        let code = runtime.block_on(async {
            let [(a, one), (b, two), (c, three)] = SIGNALS;
            let (mut a, mut b, mut c) = (signal(a).ok()?, signal(b).ok()?, signal(c).ok()?);
            ready.send(()).ok()?;
            Some(tokio::select! {
                _ = a.recv() => one,
                _ = b.recv() => two,
                _ = c.recv() => three,
            })
        })?;
        progress::clear();
        let pending_list = PENDING.lock();
        // The newest entry is first: nested files are removed before their directory. Another thread may still write into
        // it.
        for pending in pending_list.iter().rev() {
            for _ in 0..3 {
                pending.remove();
            }
        }
        process::exit(code.into())
    };
    let started = thread::Builder::new().name("signals".into()).spawn(wait);
    if started.is_ok() {
        let _ = is_ready.recv(); // an error means that signals cannot be handled
    }
}
