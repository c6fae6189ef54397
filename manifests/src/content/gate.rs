//! The one way in: paths, counts and sizes are checked here, wherever the bytes are kept.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use super::{Error, Limits, Paths, normalise};

/// Lets files in under limits, and leaves to its caller what is kept of each.
#[derive(Debug)]
pub struct Gate<T> {
    limits: Limits,
    files: BTreeMap<String, T>,
    entries: usize,
    size: u64,
}

impl<T> Gate<T> {
    /// Nothing yet, under these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            files: BTreeMap::new(),
            entries: 0,
            size: 0,
        }
    }

    /// Lets one regular file in. `keep` reads it to the end of the reader that it is given, which ends one byte behind
    /// the limit at the latest, and returns what stands for the file.
    ///
    /// # Errors
    /// When the path is not acceptable, a limit is reached, the path exists already or `keep` fails.
    pub fn add<E: From<Error>>(
        &mut self,
        path: &str,
        reader: &mut dyn Read,
        keep: impl FnOnce(&str, &mut dyn Read) -> Result<T, E>,
    ) -> Result<(), E> {
        let path = self.normalise(path)?;
        self.count()?;
        self.check_folders(&path)?;
        let left = self.limits.total.saturating_sub(self.size);
        let allowed = left.min(self.limits.file);
        let mut counted = Counted {
            reader: reader.take(allowed.saturating_add(1)),
            count: 0,
        };
        let value = keep(&path, &mut counted)?;
        let size = counted.count;
        Ok(self.settle(path, size, value)?)
    }

    /// Lets one regular file in whose size is known: one that is not read yet, or was read under another name.
    ///
    /// # Errors
    /// When the path is not acceptable, a limit is reached or the path exists already.
    pub fn note(&mut self, path: &str, size: u64, value: T) -> Result<(), Error> {
        let path = self.normalise(path)?;
        self.count()?;
        self.check_folders(&path)?;
        self.settle(path, size, value)
    }

    /// What stands for a file that was let in.
    pub fn get(&self, path: &str) -> Option<&T> {
        self.files.get(path)
    }

    fn settle(&mut self, path: String, size: u64, value: T) -> Result<(), Error> {
        if size > self.limits.file {
            let limit = self.limits.file;
            return Err(Error::FileTooLarge { path, limit });
        }
        if size > self.limits.total.saturating_sub(self.size) {
            let limit = self.limits.total;
            return Err(Error::TooLarge { path, limit });
        }
        if self.files.contains_key(&path) {
            return Err(Error::Duplicate { path });
        }
        self.size += size;
        self.files.insert(path, value);
        Ok(())
    }

    /// Checks and counts an entry that carries no content: a folder, or one that is skipped.
    ///
    /// # Errors
    /// When the path is not acceptable or there are too many entries.
    pub fn skip(&mut self, path: &str) -> Result<(), Error> {
        if !matches!(path, "" | "." | "./" | "/") {
            self.normalise(path)?;
        }
        self.count()
    }

    /// What has been let in.
    pub fn finish(self) -> Paths<T> {
        Paths::new(self.files)
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

    fn normalise(&self, path: &str) -> Result<String, Error> {
        if path.len() > self.limits.path {
            return Err(Error::PathTooLong {
                path: path.chars().take(80).chain("…".chars()).collect(),
                limit: self.limits.path,
                unit: "bytes",
                flag: "--max-path-length",
            });
        }
        let normal = normalise(path)?;
        if normal.split('/').count() > self.limits.depth {
            return Err(Error::PathTooLong {
                path: normal.chars().take(80).chain("…".chars()).collect(),
                limit: self.limits.depth,
                unit: "folders",
                flag: "--max-path-depth",
            });
        }
        Ok(normal)
    }

    /// A file cannot be a folder at the same time.
    fn check_folders(&self, path: &str) -> Result<(), Error> {
        let conflict = |file: &str, below: &str| Error::FileAsFolder {
            path: file.to_owned(),
            other: below.to_owned(),
        };
        for (at, _) in path.match_indices('/') {
            if let Some(folder) = path.get(..at)
                && self.files.contains_key(folder)
            {
                return Err(conflict(folder, path));
            }
        }
        let below = format!("{path}/");
        match self.files.range(below.clone()..).next() {
            Some((other, _)) if other.starts_with(&below) => Err(conflict(path, other)),
            _ => Ok(()),
        }
    }
}

/// Counts what is read.
struct Counted<R> {
    reader: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.count = self.count.saturating_add(count as u64);
        Ok(count)
    }
}
