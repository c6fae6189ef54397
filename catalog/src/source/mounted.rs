//! A catalog's folder in a pod, whose parts may be ConfigMaps.
//!
//! A ConfigMap holds a megabyte, so larger catalogs are cut into compressed parts, one ConfigMap each, and mounted side by
//! side. Where a kubelet mounts one, each file is a link to one of the same name below `..data`, which is a link itself:
//! names that begin with two dots are the kubelet's own.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;

use super::{Error, Files, Limits, on_disk};

/// How the names of compressed parts end.
const ZIPPED: [&str; 3] = [".json.gz", ".yaml.gz", ".yml.gz"];
/// How the names of what a kubelet keeps for itself begin.
const KUBELET: &str = "..";

/// A folder, read as any other but for what a kubelet adds to it; parts in gzip are read as what they contain.
#[derive(Debug)]
pub struct Mounted {
    files: BTreeMap<String, Part>,
}

#[derive(Debug)]
struct Part {
    place: PathBuf,
    /// What a compressed part contains, in bytes.
    unzipped: Option<u64>,
}

// === impl Mounted ===

impl Mounted {
    /// Finds the files, and counts what is in the compressed ones, so that nothing larger is ever read.
    ///
    /// # Errors
    /// When a folder cannot be read, a compressed part is damaged, or a limit is exceeded.
    pub fn open(root: &Path, limits: &Limits) -> Result<Self, Error> {
        let (mut files, mut total) = (BTreeMap::new(), 0u64);
        for (path, place) in on_disk(root, limits, |name| !name.starts_with(KUBELET))? {
            let unzipped = if ZIPPED.iter().any(|end| path.ends_with(end)) {
                let most = limits.total.saturating_sub(total);
                let count = count(&place, most).map_err(|source| Error::Zipped {
                    path: place.clone(),
                    source,
                })?;
                if count > most {
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
            files.insert(path, Part { place, unzipped });
        }
        Ok(Self { files })
    }
}

impl Files for Mounted {
    fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let part = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let file = regular(&part.place)?;
        Ok(match part.unzipped {
            Some(count) => Box::new(Counted {
                reader: MultiGzDecoder::new(file),
                left: count,
            }),
            None => Box::new(file),
        })
    }
}

/// What was counted, and not more: whoever changes a part meanwhile does not get it read in half.
struct Counted<R> {
    reader: R,
    /// Bytes that were counted and not read yet.
    left: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !out.is_empty() {
            return match self.reader.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other(
                    "it has grown while the catalog was read; read the catalog again",
                )),
            };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = out.len().min(most);
        let count = self.reader.read(out.get_mut(..most).unwrap_or_default())?;
        self.left -= count as u64;
        Ok(count)
    }
}

/// What a compressed part contains; one more than `most` if it is more than that.
fn count(place: &Path, most: u64) -> io::Result<u64> {
    let unzipped = MultiGzDecoder::new(regular(place)?);
    io::copy(&mut unzipped.take(most.saturating_add(1)), &mut io::sink())
}

/// A pipe would be waited for, and a device may never end.
fn regular(place: &Path) -> io::Result<File> {
    if !std::fs::metadata(place)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(place)
}

#[cfg(test)]
mod tests {
    use std::{fs, ops::ControlFlow, os::unix::fs::symlink};

    use ::tests::gzip;

    use super::*;
    use crate::{Source, testing::has};

    fn names(root: &Path) -> Vec<String> {
        let (mounted, mut names) = (Mounted::open(root, &Limits::default()).unwrap(), Vec::new());
        let walked = crate::walk(Source::Files(&mounted), &Limits::default(), |meta| {
            let name = meta.map(|meta| format!("{} {}", meta.file, meta.name));
            names.push(name.unwrap_or_else(|fault| fault.to_string()));
            ControlFlow::<()>::Continue(())
        });
        assert!(walked.unwrap().is_continue());
        names
    }

    #[test]
    fn config_maps_are_read_as_a_kubelet_mounts_them() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("part-0");
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
        // Two streams in one file are its concatenation.
        let both = [gzip(b"schema: x\n"), gzip(b"name: e\n")].concat();
        fs::write(folder.path().join("e.yml.gz"), both).unwrap();
        let expected = "e.yml.gz e, part-0/a.yaml.gz a1, part-0/a.yaml.gz a2, part-0/b.json.gz b, part-0/c.yaml c";
        assert_eq!(names(folder.path()).join(", "), expected);
    }

    #[test]
    fn what_is_damaged_or_unpacks_to_too_much_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a.yaml.gz");
        let bomb = gzip("x".repeat(1 << 20).as_bytes());
        assert!(bomb.len() < 1 << 14, "{}", bomb.len());
        let limits = with!(Limits, total: 1 << 16);
        for (bytes, problem) in ::tests::rows![
            &bomb[..] => "the catalog has more than 65536 bytes";
            &bomb[..bomb.len() / 2] => "the catalog has more than 65536 bytes";
            &gzip(b"schema: x")[..12] => "cannot be unzipped";
            b"schema: x" => "cannot be unzipped";
            b"" => "cannot be unzipped";
        ] {
            fs::write(&place, bytes).unwrap();
            has(Mounted::open(folder.path(), &limits).unwrap_err(), problem);
        }
        let missing = Mounted::open(&folder.path().join("x"), &limits).unwrap_err();
        assert!(missing.to_string().contains("is it there"), "{missing}");
    }

    #[test]
    fn what_has_grown_since_it_was_counted_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a.yaml.gz");
        let counted = "schema: x\nname: a";
        fs::write(&place, gzip(counted.as_bytes())).unwrap();
        let mounted = Mounted::open(folder.path(), &Limits::default()).unwrap();
        let read = |text: &mut String| mounted.open("a.yaml.gz").unwrap().read_to_string(text);
        let mut text = String::new();
        read(&mut text).unwrap();
        assert_eq!(text, counted);
        // A text that ends there would be a catalog, too.
        for grown in [format!("{counted}b"), "y".repeat(1 << 20)] {
            fs::write(&place, gzip(grown.as_bytes())).unwrap();
            let mut text = String::new();
            let error = read(&mut text).unwrap_err();
            assert!(error.to_string().contains("has grown"), "{error}");
            assert!(text.len() <= counted.len());
            let limits = Limits::default();
            let loaded = crate::load(Source::Files(&mounted), &limits).unwrap();
            assert!(!loaded.is_valid(), "{:?}", loaded.findings);
        }
        // What is less is all there is.
        fs::write(&place, gzip(b"schema: x")).unwrap();
        let mut text = String::new();
        read(&mut text).unwrap();
        assert_eq!(text, "schema: x");
        let absent = mounted.open("b").err().map(|it| it.kind());
        assert_eq!(absent, Some(io::ErrorKind::NotFound));
    }
}
