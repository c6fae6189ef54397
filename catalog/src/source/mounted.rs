//! Catalog directory in a pod, whose parts can be ConfigMaps.
//!
//! A ConfigMap holds one mebibyte, so larger catalogs are split into compressed parts, one per ConfigMap, and mounted
//! side by side. In a mounted ConfigMap, each file is a link to a file of the same name below `..data`, which is a link
//! itself. Names that start with two dots belong to the kubelet.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;

use super::{Error, FileSource, Limits, on_disk};

/// File extensions of compressed parts.
const COMPRESSED_EXTENSIONS: [&str; 3] = [".json.gz", ".yaml.gz", ".yml.gz"];
/// Prefix of the kubelet's own names.
const KUBELET_PREFIX: &str = "..";

/// A directory without the entries of the kubelet. Files in gzip format are decompressed on read.
#[derive(Debug)]
pub struct MountedDir {
    files: BTreeMap<String, MountedFile>,
}

#[derive(Debug)]
struct MountedFile {
    location: PathBuf,
    /// Decompressed size in bytes; `None` if the file is not compressed.
    decompressed_size: Option<u64>,
}

// === impl MountedDir ===

impl MountedDir {
    /// Lists the files and determines the size of compressed ones, so that no larger content is ever read.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be read, a compressed file is corrupt, or a limit is exceeded.
    pub fn open(root: &Path, limits: &Limits) -> Result<Self, Error> {
        let (mut files, mut total) = (BTreeMap::new(), 0u64);
        for (path, location) in on_disk(root, limits, |name| !name.starts_with(KUBELET_PREFIX))? {
            let decompressed_size = if COMPRESSED_EXTENSIONS.iter().any(|end| path.ends_with(end)) {
                let limit = limits.total.saturating_sub(total);
                let count = count(&location, limit).map_err(|source| Error::Decompress {
                    path: location.clone(),
                    source,
                })?;
                if count > limit {
                    return Err(Error::TooLarge {
                        limit: limits.total,
                        unit: "bytes",
                    });
                }
                total += count;
                Some(count)
            } else {
                None
            };
            files.insert(
                path,
                MountedFile {
                    location,
                    decompressed_size,
                },
            );
        }
        Ok(Self { files })
    }
}

impl FileSource for MountedDir {
    fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let file_entry = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let file = regular(&file_entry.location)?;
        Ok(match file_entry.decompressed_size {
            Some(count) => Box::new(ExactReader {
                reader: MultiGzDecoder::new(file),
                remaining: count,
            }),
            None => Box::new(file),
        })
    }
}

/// Reader that fails after the expected size. A file that is changed in the meantime is never read partially.
struct ExactReader<R> {
    reader: R,
    /// Number of expected bytes that were not read yet.
    remaining: u64,
}

impl<R: Read> Read for ExactReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.remaining == 0 && !out.is_empty() {
            return match self.reader.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other(
                    "the file has grown while the catalog was read; read the catalog again",
                )),
            };
        }
        let limit = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let limit = out.len().min(limit);
        let count = self.reader.read(out.get_mut(..limit).unwrap_or_default())?;
        self.remaining -= count as u64;
        Ok(count)
    }
}

/// Returns the decompressed size of a file. A result above `limit` means that the file is larger.
fn count(location: &Path, limit: u64) -> io::Result<u64> {
    let decoder = MultiGzDecoder::new(regular(location)?);
    io::copy(&mut decoder.take(limit.saturating_add(1)), &mut io::sink())
}

/// Opens a regular file. Opening a pipe would block, and reading a device may never end.
fn regular(location: &Path) -> io::Result<File> {
    if !std::fs::metadata(location)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(location)
}

#[cfg(test)]
mod tests {
    use std::{fs, ops::ControlFlow, os::unix::fs::symlink};

    use ::tests::gzip;

    use super::*;
    use crate::{Source, testing::has};

    fn names(root: &Path) -> Vec<String> {
        let mounted = MountedDir::open(root, &Limits::default()).unwrap();
        let mut names = Vec::new();
        let walked = crate::walk(Source::Files(&mounted), &Limits::default(), |meta| {
            let name = meta.map(|meta| format!("{} {}", meta.file, meta.name));
            names.push(name.unwrap_or_else(|fault| fault.to_string()));
            ControlFlow::<()>::Continue(())
        });
        assert!(walked.unwrap().is_continue());
        names
    }

    #[test]
    fn mounted_config_map_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let map = dir.path().join("part-0");
        fs::create_dir_all(map.join("..2026_11_22")).unwrap();
        symlink("..2026_11_22", map.join("..data")).unwrap();
        for (name, bytes) in ::tests::rows![
            "a.yaml.gz" => gzip(b"schema: x\nname: a1\n---\nschema: x\nname: a2\n");
            "b.json.gz" => gzip(br#"{"schema": "x", "name": "b"}"#);
            "c.yaml" => b"schema: x\nname: c".to_vec();
            ".indexignore" => b"d.yaml.gz\n".to_vec();
            "d.yaml.gz" => gzip(b"no catalog");
        ] {
            fs::write(map.join("..2026_11_22").join(name), bytes).unwrap();
            symlink(format!("..data/{name}"), map.join(name)).unwrap();
        }
        // Two streams in one file are concatenated.
        let both = [gzip(b"schema: x\n"), gzip(b"name: e\n")].concat();
        fs::write(dir.path().join("e.yml.gz"), both).unwrap();
        let expected = "e.yml.gz e, part-0/a.yaml.gz a1, part-0/a.yaml.gz a2, part-0/b.json.gz b, part-0/c.yaml c";
        assert_eq!(names(dir.path()).join(", "), expected);
    }

    #[test]
    fn damaged_or_oversized_gzip_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a.yaml.gz");
        let bomb = gzip("x".repeat(1 << 20).as_bytes());
        assert!(bomb.len() < 1 << 14, "{}", bomb.len());
        let limits = with!(Limits, total: 1 << 16);
        for (bytes, problem) in ::tests::rows![
            &bomb[..] => "the catalog has more than 65536 bytes";
            &bomb[..bomb.len() / 2] => "the catalog has more than 65536 bytes";
            &gzip(b"schema: x")[..12] => "failed to decompress";
            b"schema: x" => "failed to decompress";
            b"" => "failed to decompress";
        ] {
            fs::write(&place, bytes).unwrap();
            has(MountedDir::open(dir.path(), &limits).unwrap_err(), problem);
        }
        let missing = MountedDir::open(&dir.path().join("x"), &limits);
        has(missing.unwrap_err(), "check that it exists");
    }

    #[test]
    fn file_that_grew_after_the_scan_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a.yaml.gz");
        let counted = "schema: x\nname: a";
        fs::write(&place, gzip(counted.as_bytes())).unwrap();
        let mounted = MountedDir::open(dir.path(), &Limits::default()).unwrap();
        let read = || {
            let mut text = String::new();
            let read = mounted.open("a.yaml.gz").unwrap().read_to_string(&mut text);
            (text, read.map_err(|error| error.to_string()))
        };
        assert_eq!(read(), (counted.to_owned(), Ok(counted.len())));
        // A text that ended there would be a valid catalog.
        for grown in [format!("{counted}b"), "y".repeat(1 << 20)] {
            fs::write(&place, gzip(grown.as_bytes())).unwrap();
            let (text, result) = read();
            has(result.unwrap_err(), "has grown");
            assert!(text.len() <= counted.len());
            let loaded = crate::load(Source::Files(&mounted), &Limits::default());
            assert!(!loaded.unwrap().is_valid());
        }
        // A shorter text is complete.
        fs::write(&place, gzip(b"schema: x")).unwrap();
        assert_eq!(read(), ("schema: x".to_owned(), Ok(9)));
        assert_rows!(mounted.open("b").err().map(|error| error.kind()) => Some(io::ErrorKind::NotFound));
    }
}
