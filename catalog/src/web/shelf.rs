//! Which content a catalog has at the moment.
//!
//! ```text
//!  lock            held while the folder is used
//!  contents/<hex>  lines and index, never changed
//!  names/<catalog> "<hex> <seconds since 1970>": what is shown under that name, and since when
//!  unfinished/     what is being written; emptied when the folder is opened
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use manifests::names;

use super::{
    Error,
    content::{self, Content, Written},
};
use crate::{Limits, Source};

const CONTENTS: &str = "contents";
const NAMES: &str = "names";
const UNFINISHED: &str = "unfinished";
/// A note of a name has some eighty bytes.
const MAX_NOTE: u64 = 256;

/// The catalogs that are shown. Clones are the same shelf.
#[derive(Debug, Clone)]
pub struct Shelf {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    shown: RwLock<BTreeMap<String, Arc<Shown>>>,
    /// One changes the folder at a time; the file keeps other processes away.
    changing: Mutex<File>,
}

/// A catalog as it is shown now.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) content: Content,
    /// Since when, in whole seconds: later than anything that was shown under the name before.
    pub(super) since: SystemTime,
    hex: String,
}

/// What became of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It was written.
    Written(Written),
    /// Its content was there.
    Known,
}

impl Shelf {
    /// Opens a folder, or makes it. What was shown before is shown again; what a crash has left is removed.
    ///
    /// # Errors
    /// When it cannot be read or written, or another process uses it.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let unfinished = folder.join(UNFINISHED);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::disk("clear", unfinished)(error));
            }
            _ => {}
        }
        for part in [CONTENTS, NAMES, UNFINISHED] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(Error::disk("make", part))?;
        }
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(Error::disk("make", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(folder.to_owned())),
            Err(TryLockError::Error(error)) => return Err(Error::disk("lock", path)(error)),
        }
        let shelf = Self {
            shared: Arc::new(Shared {
                folder: folder.to_owned(),
                shown: RwLock::default(),
                changing: Mutex::new(lock),
            }),
        };
        shelf.read_names()?;
        Ok(shelf)
    }

    /// Shows a catalog under a name from now on, instead of what was shown there. With the digest of what it was made from,
    /// it is not read again when the content is there already. This blocks, and one catalog is written at a time.
    ///
    /// # Errors
    /// When the name or the digest is none, the catalog cannot be read, or it cannot be written. What was shown stays.
    pub fn put(
        &self,
        name: &str,
        digest: Option<&str>,
        source: Source<'_>,
        limits: &Limits,
    ) -> Result<Put, Error> {
        names::dns_subdomain(name).map_err(|_| Error::Name(shortened(name)))?;
        let known = match digest {
            Some(digest) => Some(hex_of(digest).ok_or_else(|| Error::Digest(shortened(digest)))?),
            None => None,
        };
        let _changing = self.changing();
        if let Some(hex) = known
            && let Some(content) = self.open_content(hex)?
        {
            self.show(name, hex, content)?;
            return Ok(Put::Known);
        }
        let unfinished = self.folder(UNFINISHED);
        let failed = || Error::disk("write a catalog to", &unfinished);
        let file = tempfile::NamedTempFile::new_in(&unfinished).map_err(failed())?;
        let (written, hash) = content::write(source, limits, file.as_file(), &unfinished)?;
        let hex = known.map_or_else(|| hex(&hash), str::to_owned);
        let path = self.folder(CONTENTS).join(&hex);
        file.persist(&path)
            .map_err(|error| Error::disk("write", &path)(error.error))?;
        let content = Content::open(&path).map_err(Error::disk("read", &path))?;
        let whole = || io::Error::from(io::ErrorKind::InvalidData);
        let content = content
            .ok_or_else(whole)
            .map_err(Error::disk("read", &path))?;
        self.show(name, &hex, content)?;
        Ok(Put::Written(written))
    }

    /// Shows nothing under a name any more. Whoever is being answered gets the rest.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        if names::dns_subdomain(name).is_err() {
            return Ok(());
        }
        let _changing = self.changing();
        let path = self.folder(NAMES).join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::disk("remove", path)(error));
            }
            _ => {}
        }
        self.write_shown().remove(name);
        self.sweep()
    }

    /// The names under which something is shown.
    pub fn names(&self) -> Vec<String> {
        self.read_shown().keys().cloned().collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Shown>> {
        self.read_shown().get(name).cloned()
    }

    /// Notes what a name shows, on disk and then here, and removes what nobody shows any more.
    fn show(&self, name: &str, hex: &str, content: Content) -> Result<(), Error> {
        let before = self.find(name);
        if before.as_ref().is_some_and(|before| before.hex == hex) {
            return Ok(());
        }
        // Dates on the wire have whole seconds: two contents must not share one.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = UNIX_EPOCH + Duration::from_secs(now.as_secs());
        let later = before.map(|before| before.since + Duration::from_secs(1));
        let since = later.map_or(now, |later| later.max(now));
        let seconds = since
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let path = self.folder(NAMES).join(name);
        let failed = || Error::disk("write", &path);
        let mut note = tempfile::NamedTempFile::new_in(self.folder(UNFINISHED)).map_err(failed())?;
        write!(note, "{hex} {seconds}").map_err(failed())?;
        note.as_file().sync_all().map_err(failed())?;
        note.persist(&path).map_err(|error| failed()(error.error))?;
        let shown = Shown {
            content,
            since,
            hex: hex.to_owned(),
        };
        self.write_shown().insert(name.to_owned(), Arc::new(shown));
        self.sweep()
    }

    /// Removes contents without a name. Files that are open are there until they are closed.
    fn sweep(&self) -> Result<(), Error> {
        let named: BTreeSet<String> = {
            let shown = self.read_shown();
            shown.values().map(|shown| shown.hex.clone()).collect()
        };
        let contents = self.folder(CONTENTS);
        for file in listed(&contents)? {
            if !named.contains(&file) {
                let path = contents.join(file);
                fs::remove_file(&path).map_err(Error::disk("remove", path))?;
            }
        }
        Ok(())
    }

    /// Shows what was shown before. A note or a content that makes no sense is none.
    fn read_names(&self) -> Result<(), Error> {
        let folder = self.folder(NAMES);
        for name in listed(&folder)? {
            let path = folder.join(&name);
            let note = note(&path).map_err(Error::disk("read", &path))?;
            let Some((hex, since)) = note.filter(|_| names::dns_subdomain(&name).is_ok()) else {
                continue;
            };
            if let Some(content) = self.open_content(&hex)? {
                let shown = Shown {
                    content,
                    since,
                    hex,
                };
                self.write_shown().insert(name, Arc::new(shown));
            }
        }
        Ok(())
    }

    fn open_content(&self, hex: &str) -> Result<Option<Content>, Error> {
        let path = self.folder(CONTENTS).join(hex);
        match Content::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map_err(Error::disk("read", path)),
        }
    }

    fn folder(&self, part: &str) -> PathBuf {
        self.shared.folder.join(part)
    }

    fn changing(&self) -> MutexGuard<'_, File> {
        self.shared
            .changing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn read_shown(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, Arc<Shown>>> {
        self.shared
            .shown
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write_shown(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Arc<Shown>>> {
        self.shared
            .shown
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of the files in a folder.
fn listed(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = || Error::disk("list", folder);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// What a name shows, and since when.
fn note(path: &Path) -> io::Result<Option<(String, SystemTime)>> {
    if fs::metadata(path)?.len() > MAX_NOTE {
        return Ok(None);
    }
    let bytes = fs::read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.split_once(' ').and_then(|(hex, seconds)| {
        let seconds: u32 = seconds.trim().parse().ok()?;
        let since = UNIX_EPOCH + Duration::from_secs(seconds.into());
        is_hex(hex).then(|| (hex.to_owned(), since))
    }))
}

fn hex_of(digest: &str) -> Option<&str> {
    digest.strip_prefix("sha256:").filter(|hex| is_hex(hex))
}

fn is_hex(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn hex(hash: &[u8; 32]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in hash {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}
