//! Validation of entries: paths, counts and sizes, independent of the storage of the bytes.

use std::io::{self, Read};

use super::{Error, Irregular, Limits, PathMap, normalize};

/// Validates files against limits. The caller decides on the stored value for each file.
#[derive(Debug)]
pub struct EntryLimiter<T> {
    limits: Limits,
    paths: PathMap<T>,
    entries: usize,
    size: u64,
}

impl<T> EntryLimiter<T> {
    /// Creates a limiter without entries, with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            paths: PathMap::default(),
            entries: 0,
            size: 0,
        }
    }

    /// Adds a regular file. `store` reads its reader to the end, which is at most one byte beyond the limit, and returns
    /// the value to store for the file.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable, a limit is reached, the path already exists, or `store` fails.
    pub fn add<E: From<Error>>(
        &mut self,
        path: &str,
        reader: &mut dyn Read,
        store: impl FnOnce(&str, &mut dyn Read) -> Result<T, E>,
    ) -> Result<(), E> {
        let path = self.normalize(path)?;
        self.count()?;
        self.check_folders(&path)?;
        let remaining = self.limits.total.saturating_sub(self.size);
        let allowed = remaining.min(self.limits.file);
        let mut counted = CountingReader {
            reader: reader.take(allowed.saturating_add(1)),
            count: 0,
        };
        let value = store(&path, &mut counted)?;
        let size = counted.count;
        Ok(self.finish_entry(path, size, value)?)
    }

    /// Adds a regular file with a known size: one that is read later, or was read under another name.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable, a limit is reached, or the path already exists.
    pub fn count_entry(&mut self, path: &str, size: u64, value: T) -> Result<(), Error> {
        let path = self.normalize(path)?;
        self.count()?;
        self.check_folders(&path)?;
        self.finish_entry(path, size, value)
    }

    /// Adds a regular file at the path of a link that was recorded before.
    ///
    /// # Errors
    /// Returns an error if a limit is reached.
    pub fn follow(&mut self, path: &str, size: u64, value: T) -> Result<(), Error> {
        self.paths.remove_irregular(path);
        self.count_entry(path, size, value)
    }

    /// Returns the entries so far.
    pub fn paths(&self) -> &PathMap<T> {
        &self.paths
    }

    fn finish_entry(&mut self, path: String, size: u64, value: T) -> Result<(), Error> {
        if size > self.limits.file {
            let limit = self.limits.file;
            return Err(Error::FileTooLarge { path, limit });
        }
        if size > self.limits.total.saturating_sub(self.size) {
            let limit = self.limits.total;
            return Err(Error::TooLarge { path, limit });
        }
        if self.paths.is_taken(&path) {
            return Err(Error::Duplicate { path });
        }
        self.size += size;
        self.paths.insert(path, value);
        Ok(())
    }

    /// Validates and counts an entry without content: a directory, or a skipped entry.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable, or the source has too many entries.
    pub fn skip(&mut self, path: &str) -> Result<(), Error> {
        if !matches!(path, "" | "." | "./" | "/") {
            self.normalize(path)?;
        }
        self.count()
    }

    /// Validates, counts and records an entry that is not a regular file.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable or already exists, if it lies below or above another entry that is
    /// not a directory, or if the source has too many entries.
    pub fn record(&mut self, path: &str, entry: Irregular) -> Result<(), Error> {
        let path = self.normalize(path)?;
        self.count()?;
        self.check_folders(&path)?;
        if self.paths.is_taken(&path) {
            return Err(Error::Duplicate { path });
        }
        self.paths.insert_irregular(path, entry);
        Ok(())
    }

    /// Returns the entries that were added.
    pub fn finish(self) -> PathMap<T> {
        self.paths
    }

    fn count(&mut self) -> Result<(), Error> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(Error::TooManyEntries {
                limit: self.limits.entries,
            });
        }
        Ok(())
    }

    fn normalize(&self, path: &str) -> Result<String, Error> {
        if path.len() > self.limits.path {
            return Err(Error::PathTooLong {
                path: path.chars().take(80).chain("…".chars()).collect(),
                limit: self.limits.path,
                unit: "bytes",
                flag: "--max-path-length",
            });
        }
        let normal = normalize(path)?;
        if normal.split('/').count() > self.limits.depth {
            return Err(Error::PathTooLong {
                path: normal.chars().take(80).chain("…".chars()).collect(),
                limit: self.limits.depth,
                unit: "directories",
                flag: "--max-path-depth",
            });
        }
        Ok(normal)
    }

    /// Rejects a path that is a file and a directory, and a path below a link, which refers to another location.
    fn check_folders(&self, path: &str) -> Result<(), Error> {
        let conflict = |file: &str, below: &str| Error::FileAsFolder {
            path: file.to_owned(),
            other: below.to_owned(),
        };
        for (at, _) in path.match_indices('/') {
            if let Some(dir) = path.get(..at)
                && self.paths.is_taken(dir)
            {
                return Err(conflict(dir, path));
            }
        }
        match self.paths.first_below(path) {
            Some(other) => Err(conflict(path, other)),
            None => Ok(()),
        }
    }
}

/// A reader that counts the bytes read.
struct CountingReader<R> {
    reader: R,
    count: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.count = self.count.saturating_add(count as u64);
        Ok(count)
    }
}
