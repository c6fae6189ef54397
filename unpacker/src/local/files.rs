//! Files of an image layout, in a directory or in an archive.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use manifests::content::Kind;

use super::{Error, HashingReader};
use crate::{
    Digest, Error as Failure, Options, Result,
    archive::{self, EXTENDED},
    decompress::Decompressor,
    layers::LayerPath,
    oci,
    tar::blocks::{Compression, Meter, TarBlocks, explain},
};

/// Maximum number of entries. Every layer in older archives of Docker has four entries.
const MAX_ENTRIES: usize = 10_000;

/// Maximum length of a chain of links. Older versions of Docker write identical layers as links to each other.
const MAX_LINKS: usize = 8;

/// The files of an image layout.
pub(super) enum LayoutFiles {
    Directory(PathBuf),
    Archive {
        file: File,
        entries: BTreeMap<String, EntryLocation>,
    },
}

/// The location of an archive entry.
pub(super) enum EntryLocation {
    File {
        at: u64,
        size: u64,
    },
    /// A link to a path relative to the root; `None` if the path leaves the root.
    Link(Option<String>),
}

impl LayoutFiles {
    pub(super) fn dir(path: &Path) -> Result<Self> {
        let failed = |source| Failure::Open {
            path: path.to_owned(),
            source,
        };
        let is_folder = fs::metadata(path).map_err(failed)?.is_dir();
        if !is_folder {
            return Err(Error::FileMissing {
                missing: "index.json",
                kind: "OCI layout",
                remedy: "use oci-archive: or docker-archive: before the path of a file",
            }
            .into());
        }
        Ok(Self::Directory(path.to_owned()))
    }

    /// Indexes the entries of an archive in one pass.
    pub(super) fn archive(path: &Path, options: &Options) -> Result<Self> {
        let limit = options.image.bytes;
        Self::indexed(path, options).map_err(|error| match error {
            Failure::TooLong { .. } => Failure::ImageTooLarge {
                problem: "uncompressed bytes",
                limit,
            },
            error => error,
        })
    }

    fn indexed(path: &Path, options: &Options) -> Result<Self> {
        let failed = |source| Failure::Open {
            path: path.to_owned(),
            source,
        };
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(Failure::NotReadable {
                path: path.to_owned(),
            });
        }
        let limit = options.image.bytes;
        let file = File::open(path).map_err(failed)?;
        let inflated = Decompressor::new(Meter::new(&file, limit))
            .map_err(|error| explain(error, "at its start".to_owned()))?;
        let file = match inflated.wrapping() {
            Compression::Plain => File::open(path).map_err(failed)?,
            _ => options
                .storage()
                .to_file(&mut Meter::new(inflated, limit))?,
        };
        let entries = index(OffsetReader { file: &file, at: 0 }, limit)?;
        Ok(Self::Archive { file, entries })
    }

    /// Opens a file and returns its size.
    pub(super) fn open(&self, path: &str) -> Result<Option<(Box<dyn Read + '_>, u64)>> {
        match self {
            Self::Directory(directory) => {
                let failed = |source| Failure::Read {
                    path: path.to_owned(),
                    source,
                };
                let at = directory.join(path);
                // Links are followed, because some build tools create layouts with linked blobs. The target is only
                // read, and its digest is verified.
                let metadata = match fs::metadata(&at) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    metadata => metadata.map_err(failed)?,
                };
                if !metadata.is_file() {
                    let problem = "is not a regular file";
                    let path = path.to_owned();
                    return Err(Error::Path { path, problem }.into());
                }
                let file = File::open(&at).map_err(failed)?;
                Ok(Some((Box::new(file), metadata.len())))
            }
            Self::Archive { file, entries } => {
                let mut path = path;
                for _ in 0..=MAX_LINKS {
                    match entries.get(path) {
                        None => return Ok(None),
                        Some(EntryLocation::File { at, size }) => {
                            let body = OffsetReader { file, at: *at }.take(*size);
                            return Ok(Some((Box::new(body), *size)));
                        }
                        Some(EntryLocation::Link(Some(target))) => path = target,
                        Some(EntryLocation::Link(None)) => break,
                    }
                }
                let problem = "is a link to a path outside of the archive or to itself";
                let path = oci::excerpt(path);
                Err(Error::Path { path, problem }.into())
            }
        }
    }

    /// Opens a file that must exist.
    pub(super) fn require(&self, path: &str) -> Result<(Box<dyn Read + '_>, u64)> {
        let missing = || Error::Missing {
            path: oci::excerpt(path),
        };
        self.open(path)?.ok_or_else(|| missing().into())
    }

    /// Reads a complete document. Documents are small.
    pub(super) fn document(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let Some((reader, _)) = self.open(path)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        reader
            .take(oci::DOCUMENT_LIMIT + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| Failure::Read {
                path: oci::excerpt(path),
                source,
            })?;
        Ok(Some(bytes))
    }

    /// Reads a complete document and verifies its digest.
    pub(super) fn read_verified(&self, path: &str, expected: Digest) -> Result<Vec<u8>> {
        let missing = || Error::Missing {
            path: oci::excerpt(path),
        };
        let bytes = self.document(path)?.ok_or_else(missing)?;
        if bytes.len() as u64 > oci::DOCUMENT_LIMIT {
            return Err(oci::Error::TooLarge.into());
        }
        check(path, expected, Digest::sha256(&bytes))?;
        Ok(bytes)
    }
}

/// Rejects data with another digest.
pub(super) fn check(path: &str, expected: Digest, actual: Digest) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::DigestMismatch {
        path: oci::excerpt(path),
        wanted: expected.to_string(),
        found: format!("the digest {actual}"),
    }
    .into())
}

/// Returns the digest and the size of a file, including the part that was not read yet.
pub(super) fn digest_of<R: Read>(path: &str, reader: HashingReader<R>) -> Result<(Digest, u64)> {
    reader.finish().map_err(|source| Failure::Read {
        path: oci::excerpt(path),
        source,
    })
}

fn index(reader: impl Read, limit: u64) -> Result<BTreeMap<String, EntryLocation>> {
    let mut blocks = TarBlocks::new(Meter::new(reader, limit), Compression::Plain, limit);
    let mut entries = BTreeMap::new();
    let mut remaining = MAX_ENTRIES;
    archive::each(&mut blocks, EXTENDED, |blocks, entry| {
        remaining = remaining
            .checked_sub(1)
            .ok_or(Error::TooManyEntries { limit: MAX_ENTRIES })?;
        let bytes = entry.before.path(&entry.header)?;
        let name = LayerPath::read(&bytes)?;
        let kind = entry.kind(&bytes);
        entry.check_size(&name.path, kind)?;
        let location = match kind {
            b'0' if !entry.is_sparse() => EntryLocation::File {
                at: blocks.count(),
                size: entry.size,
            },
            b'1' => {
                let target = LayerPath::read(&entry.before.link(&entry.header)?)?;
                EntryLocation::Link(Some(target.path))
            }
            b'2' => {
                let target = entry.before.link(&entry.header)?;
                EntryLocation::Link(resolve_link(&name.path, &String::from_utf8_lossy(&target)))
            }
            b'5' => return Ok(()),
            kind => {
                let kind = match entry.irregular(&name.path, kind)? {
                    Some(Kind::Sparse) => "a sparse file",
                    _ => "a device or FIFO",
                };
                let remedy = "write the image again with another program";
                return archive::refuse(&name.path, kind, remedy);
            }
        };
        blocks.skip(entry.size)?;
        if entries.insert(name.path.clone(), location).is_some() {
            let path = oci::excerpt(&name.path);
            let problem = "occurs twice in the archive";
            return Err(Error::Path { path, problem }.into());
        }
        Ok(())
    })?;
    Ok(entries)
}

/// Resolves a symbolic link. Returns `None` if the target is outside of the archive.
fn resolve_link(path: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A reader that starts at an offset and does not use the file position.
struct OffsetReader<'a> {
    file: &'a File,
    at: u64,
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
