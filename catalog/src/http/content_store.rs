//! Content store of the HTTP service: maps catalog names to their current content.
//!
//! ```text
//! lock            locked while the directory is in use
//! contents/<hex>  lines and index, immutable
//! names/<catalog> "<hex> <seconds since 1970>": content that is published under the name, and since when
//! unfinished/     files that are being written; cleared when the directory is opened
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use manifests::names;
use parking_lot::{Mutex, RwLock};

use super::{
    Error,
    content::{self, Content, WriteSummary},
};
use crate::{Limits, Source};

const CONTENTS: &str = "contents";
const NAMES: &str = "names";
const UNFINISHED: &str = "unfinished";
/// Maximum size of a name file, which has about eighty bytes.
const MAX_NAME_FILE: u64 = 256;

/// The published catalogs. Clones share their state.
#[derive(Debug, Clone)]
pub struct ContentStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    published: RwLock<BTreeMap<String, Arc<PublishedContent>>>,
    /// Serializes changes of the directory; the locked file excludes other processes.
    write_lock: Mutex<File>,
}

/// Published content of a catalog.
#[derive(Debug)]
pub(super) struct PublishedContent {
    pub(super) content: Content,
    /// Publication time in whole seconds, later than that of any earlier content of the same name.
    pub(super) since: SystemTime,
    hex: String,
}

/// Result of publishing a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// The content was written.
    Written(WriteSummary),
    /// The content already existed.
    Unchanged,
}

impl ContentStore {
    /// Opens a directory and creates it if it does not exist. Catalogs that were published before are published again,
    /// and unreferenced contents and files of an interrupted write are removed.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read or written, or if another process uses it.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        fs::create_dir_all(directory).map_err(Error::disk("make", directory))?;
        let path = directory.join("lock");
        let lock = File::create(&path).map_err(Error::disk("make", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(directory.to_owned())),
            Err(TryLockError::Error(error)) => return Err(Error::disk("lock", path)(error)),
        }
        // Another process may write these files, so only the holder of the lock removes them.
        let unfinished = directory.join(UNFINISHED);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::disk("clear", unfinished)(error));
            }
            _ => {}
        }
        for subdirectory in [CONTENTS, NAMES, UNFINISHED] {
            let subdirectory = directory.join(subdirectory);
            fs::create_dir_all(&subdirectory).map_err(Error::disk("make", subdirectory))?;
        }
        let shelf = Self {
            shared: Arc::new(Shared {
                directory: directory.to_owned(),
                published: RwLock::default(),
                write_lock: Mutex::new(lock),
            }),
        };
        shelf.read_names()?;
        shelf.sweep()?;
        Ok(shelf)
    }

    /// Publishes a catalog under a name and replaces its previous content. `digest` identifies the source; if content
    /// with this digest exists, the source is not read. This call blocks, and catalogs are written one at a time.
    ///
    /// # Errors
    /// Returns an error if the name or the digest is malformed, or if the catalog cannot be read or written. The
    /// previous content then remains published.
    pub fn put(
        &self,
        name: &str,
        digest: Option<&str>,
        source: Source<'_>,
        limits: &Limits,
    ) -> Result<PutOutcome, Error> {
        names::dns_subdomain(name).map_err(|_| Error::Name(shortened(name)))?;
        let expected_hex = match digest {
            Some(digest) => Some(hex_of(digest).ok_or_else(|| Error::Digest(shortened(digest)))?),
            None => None,
        };
        let _guard = self.shared.write_lock.lock();
        if let Some(hex) = expected_hex
            && let Some(content) = self.open_content(hex)?
        {
            self.publish(name, hex, content)?;
            return Ok(PutOutcome::Unchanged);
        }
        let unfinished = self.directory(UNFINISHED);
        let failed = || Error::disk("write a catalog to", &unfinished);
        let file = tempfile::NamedTempFile::new_in(&unfinished).map_err(failed())?;
        let (written, hash) = content::write(source, limits, file.as_file(), &unfinished)?;
        let hex = expected_hex.map_or_else(|| hex(&hash), str::to_owned);
        let path = self.directory(CONTENTS).join(&hex);
        file.persist(&path)
            .map_err(|error| Error::disk("write", &path)(error.error))?;
        let content = Content::open(&path).map_err(Error::disk("read", &path))?;
        let incomplete = || io::Error::from(io::ErrorKind::InvalidData);
        let content = content
            .ok_or_else(incomplete)
            .map_err(Error::disk("read", &path))?;
        self.publish(name, &hex, content)?;
        Ok(PutOutcome::Written(written))
    }

    /// Removes a published catalog. Responses in progress are completed.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        if names::dns_subdomain(name).is_err() {
            return Ok(());
        }
        let _guard = self.shared.write_lock.lock();
        let path = self.directory(NAMES).join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::disk("remove", path)(error));
            }
            _ => {}
        }
        self.shared.published.write().remove(name);
        self.sweep()
    }

    /// Returns the names of the published catalogs.
    pub fn names(&self) -> Vec<String> {
        self.shared.published.read().keys().cloned().collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<PublishedContent>> {
        self.shared.published.read().get(name).cloned()
    }

    /// Records the content of a name on disk and then in memory, and removes unreferenced contents.
    fn publish(&self, name: &str, hex: &str, content: Content) -> Result<(), Error> {
        let previous = self.find(name);
        if previous
            .as_ref()
            .is_some_and(|previous| previous.hex == hex)
        {
            return Ok(());
        }
        // HTTP dates have whole seconds, so two contents must not share a second.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = UNIX_EPOCH + Duration::from_secs(now.as_secs());
        let later = previous.map(|previous| previous.since + Duration::from_secs(1));
        let since = later.map_or(now, |later| later.max(now));
        let seconds = since
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let path = self.directory(NAMES).join(name);
        let failed = || Error::disk("write", &path);
        let mut name_file =
            tempfile::NamedTempFile::new_in(self.directory(UNFINISHED)).map_err(failed())?;
        write!(name_file, "{hex} {seconds}").map_err(failed())?;
        name_file.as_file().sync_all().map_err(failed())?;
        name_file
            .persist(&path)
            .map_err(|error| failed()(error.error))?;
        let published = PublishedContent {
            content,
            since,
            hex: hex.to_owned(),
        };
        self.shared
            .published
            .write()
            .insert(name.to_owned(), Arc::new(published));
        self.sweep()
    }

    /// Removes contents without a name. Open files remain readable until they are closed.
    fn sweep(&self) -> Result<(), Error> {
        let named: BTreeSet<String> = {
            let published = self.shared.published.read();
            published
                .values()
                .map(|published| published.hex.clone())
                .collect()
        };
        let contents = self.directory(CONTENTS);
        for file in list_files(&contents)? {
            if !named.contains(&file) {
                let path = contents.join(file);
                fs::remove_file(&path).map_err(Error::disk("remove", path))?;
            }
        }
        Ok(())
    }

    /// Publishes the recorded catalogs. Malformed name files and contents are ignored.
    fn read_names(&self) -> Result<(), Error> {
        let directory = self.directory(NAMES);
        for name in list_files(&directory)? {
            let path = directory.join(&name);
            let entry = read_name_file(&path).map_err(Error::disk("read", &path))?;
            let Some((hex, since)) = entry.filter(|_| names::dns_subdomain(&name).is_ok()) else {
                continue;
            };
            if let Some(content) = self.open_content(&hex)? {
                let published = PublishedContent {
                    content,
                    since,
                    hex,
                };
                self.shared
                    .published
                    .write()
                    .insert(name, Arc::new(published));
            }
        }
        Ok(())
    }

    fn open_content(&self, hex: &str) -> Result<Option<Content>, Error> {
        let path = self.directory(CONTENTS).join(hex);
        match Content::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map_err(Error::disk("read", path)),
        }
    }

    fn directory(&self, part: &str) -> PathBuf {
        self.shared.directory.join(part)
    }
}

/// Returns the names of the files in a directory.
fn list_files(directory: &Path) -> Result<Vec<String>, Error> {
    let failed = || Error::disk("list", directory);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Reads the digest and the publication time from a name file.
fn read_name_file(path: &Path) -> io::Result<Option<(String, SystemTime)>> {
    if fs::metadata(path)?.len() > MAX_NAME_FILE {
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
