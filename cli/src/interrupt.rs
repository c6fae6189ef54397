//! Ctrl-C: whatever is half written goes before the process does.
//!
//! Nothing waits for signals until there is something to clean up.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::{Mutex, MutexGuard, Once, PoisonError, mpsc},
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::progress;

/// The signals that people and systems end a process with, and what shells call its exit code then.
const SIGNALS: [(SignalKind, u8); 3] = [
    (SignalKind::interrupt(), 130),
    (SignalKind::terminate(), 143),
    (SignalKind::hangup(), 129),
];

static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

#[derive(Debug, Clone, PartialEq, Eq)]
enum Unfinished {
    File(PathBuf),
    /// With all that is in it.
    Folder(PathBuf),
    /// Unless something else is in it.
    Empty(PathBuf),
}

/// Something that is removed when this is dropped, and when the process is told to end while this exists.
#[derive(Debug)]
pub(crate) struct Guard(Option<Unfinished>);

impl Guard {
    /// Creates a file, and guards it from its first moment on.
    pub(crate) fn file(path: &Path) -> io::Result<(fs::File, Self)> {
        Self::new(Unfinished::File(path.to_owned()), fs::File::create_new)
    }

    /// Creates a folder, and guards all that will be in it.
    pub(crate) fn folder(path: &Path) -> io::Result<Self> {
        let created = Self::new(Unfinished::Folder(path.to_owned()), fs::create_dir);
        Ok(created?.1)
    }

    /// Creates a folder, which is removed only while it is empty.
    pub(crate) fn empty_folder(path: &Path) -> io::Result<Self> {
        let created = Self::new(Unfinished::Empty(path.to_owned()), fs::create_dir);
        Ok(created?.1)
    }

    fn new<T>(
        unfinished: Unfinished,
        create: impl FnOnce(PathBuf) -> io::Result<T>,
    ) -> io::Result<(T, Self)> {
        static LISTEN: Once = Once::new();
        LISTEN.call_once(listen);
        // A signal waits for the lock.
        let mut list = list();
        let created = create(unfinished.path().to_owned())?;
        list.push(unfinished.clone());
        drop(list);
        Ok((created, Self(Some(unfinished))))
    }

    /// It is finished, and stays.
    pub(crate) fn keep(mut self) {
        let finished = self.0.take();
        list().retain(|other| Some(other) != finished.as_ref());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(unfinished) = self.0.take() {
            let mut list = list();
            list.retain(|other| *other != unfinished);
            unfinished.remove();
        }
    }
}

impl Unfinished {
    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Folder(path) | Self::Empty(path) => path,
        }
    }

    /// Whatever makes this fail is said by the next run, which finds the rest in its way.
    fn remove(&self) {
        let _ = match self {
            Self::File(path) => fs::remove_file(path),
            Self::Folder(path) => fs::remove_dir_all(path),
            Self::Empty(path) => fs::remove_dir(path),
        };
    }
}

/// Waits for a signal, and tells the exit code that it means. For work that leaves nothing half written here; while there
/// is a [`Guard`], that one is faster.
pub(crate) async fn received() -> u8 {
    let [(a, one), (b, two), (c, three)] = SIGNALS;
    let (Ok(mut a), Ok(mut b), Ok(mut c)) = (signal(a), signal(b), signal(c)) else {
        // They end the process, then.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = a.recv() => one,
        _ = b.recv() => two,
        _ = c.recv() => three,
    }
}

/// Does what must not be interrupted half way. Only for work of an instant.
pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _list = list();
    work()
}

fn list() -> MutexGuard<'static, Vec<Unfinished>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns when signals are waited for. If they cannot be, they do what they always do.
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
        let list = list();
        // Newest first: what lies inside before what it lies in. Another thread may just be writing into it.
        for unfinished in list.iter().rev() {
            for _ in 0..3 {
                unfinished.remove();
            }
        }
        process::exit(code.into())
    };
    let started = thread::Builder::new().name("signals".into()).spawn(wait);
    if started.is_ok() {
        let _ = is_ready.recv(); // an error says that it cannot
    }
}
