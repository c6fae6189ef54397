//! The one way in: paths, counts and sizes are checked here, wherever the bytes are kept.

use std::io::{self, Read};

use super::{Error, Irregular, Limits, Paths, normalize};

/// Lets files in under limits, and leaves to its caller what is kept of each.
#[derive(Debug)]
pub struct Gate<T> {
    limits: Limits,
    paths: Paths<T>,
    entries: usize,
    size: u64,
}

impl<T> Gate<T> {
    /// Nothing yet, under these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            paths: Paths::default(),
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
        let path = self.normalize(path)?;
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
        let path = self.normalize(path)?;
        self.count()?;
        self.check_folders(&path)?;
        self.settle(path, size, value)
    }

    /// Lets one regular file in through a link that was recorded before: its path is that of the link.
    ///
    /// # Errors
    /// Returns an error if a limit is reached.
    pub fn follow(&mut self, path: &str, size: u64, value: T) -> Result<(), Error> {
        self.paths.remove_irregular(path);
        self.note(path, size, value)
    }

    /// The entries so far.
    pub fn paths(&self) -> &Paths<T> {
        &self.paths
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
        if self.paths.is_taken(&path) {
            return Err(Error::Duplicate { path });
        }
        self.size += size;
        self.paths.insert(path, value);
        Ok(())
    }

    /// Checks and counts an entry that carries no content: a folder, or one that is skipped.
    ///
    /// # Errors
    /// When the path is not acceptable or there are too many entries.
    pub fn skip(&mut self, path: &str) -> Result<(), Error> {
        if !matches!(path, "" | "." | "./" | "/") {
            self.normalize(path)?;
        }
        self.count()
    }

    /// Checks, counts and records an entry that is not a regular file.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable, exists already, lies below or above another entry that is not a
    /// directory, or there are too many entries.
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

    /// What has been let in.
    pub fn finish(self) -> Paths<T> {
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
                unit: "folders",
                flag: "--max-path-depth",
            });
        }
        Ok(normal)
    }

    /// A file cannot be a directory at the same time, and a path below a link is elsewhere.
    fn check_folders(&self, path: &str) -> Result<(), Error> {
        let conflict = |file: &str, below: &str| Error::FileAsFolder {
            path: file.to_owned(),
            other: below.to_owned(),
        };
        for (at, _) in path.match_indices('/') {
            if let Some(folder) = path.get(..at)
                && self.paths.is_taken(folder)
            {
                return Err(conflict(folder, path));
            }
        }
        match self.paths.first_below(path) {
            Some(other) => Err(conflict(path, other)),
            None => Ok(()),
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
