//! Files of a catalog in the content store. The store keeps them in an uncompressed tar, which may be larger than the
//! memory of the pod, so each file is read in place.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    ops::Range,
};

use catalog::source::FileSource;
use unpacker::store::Reader;

/// Index of the files in a stored tar.
#[derive(Debug)]
pub(super) struct StoreFiles {
    tar: Reader,
    files: BTreeMap<String, Range<u64>>,
}

/// Reader of a byte range of the tar.
struct FileReader<'a> {
    tar: &'a Reader,
    remaining: Range<u64>,
}

// === impl StoreFiles ===

impl StoreFiles {
    /// Indexes the tar. The content store has written it, so it contains only regular files with validated paths.
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

impl FileSource for StoreFiles {
    fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let range = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(FileReader {
            tar: &self.tar,
            remaining: range.clone(),
        }))
    }
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let remaining =
            usize::try_from(self.remaining.end - self.remaining.start).unwrap_or(usize::MAX);
        let limit = buffer.len().min(remaining);
        let room = buffer.get_mut(..limit).unwrap_or_default();
        let count = self.tar.read_at(room, self.remaining.start)?;
        self.remaining.start += count as u64;
        Ok(count)
    }
}
