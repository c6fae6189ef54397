//! A catalog's files where the store has them: in a tar without compression, which may be larger than what the pod has of
//! memory. Each file is read where it lies.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    ops::Range,
};

use catalog::source::Files;
use unpacker::store::Reader;

/// The files of what is in the store.
#[derive(Debug)]
pub(super) struct Stored {
    tar: Reader,
    files: BTreeMap<String, Range<u64>>,
}

/// A part of the tar.
struct Part<'a> {
    tar: &'a Reader,
    left: Range<u64>,
}

// === impl Stored ===

impl Stored {
    /// Looks where the files are. The store has written the tar: there are only regular files in it, with checked paths.
    pub(super) fn new(mut tar: Reader) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let mut archive = tar::Archive::new(&mut tar);
        for entry in archive.entries_with_seek()? {
            let entry = entry?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let start = entry.raw_file_position();
            files.insert(path, start..start + entry.size());
        }
        Ok(Self { tar, files })
    }
}

impl Files for Stored {
    fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let found = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Part {
            tar: &self.tar,
            left: found.clone(),
        }))
    }
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let room = buffer.get_mut(..most).unwrap_or_default();
        let count = self.tar.read_at(room, self.left.start)?;
        self.left.start += count as u64;
        Ok(count)
    }
}
