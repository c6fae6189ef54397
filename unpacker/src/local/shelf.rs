//! The files of a layout, wherever they are: in a folder, or at some offset of an archive.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use manifests::content::Kind;

use super::{Error, Summed};
use crate::{
    Digest, Error as Failure, Options, Result,
    archive::{self, EXTENDED},
    block::{Blocks, Meter, Wrapping, explain},
    inflate::Inflate,
    layers::Name,
    oci,
};

/// Every layer of Docker's older archives has four entries.
const ENTRIES: usize = 10_000;

/// Links from one layer to another of the same bytes, as older versions of Docker write them.
const LINKS: usize = 8;

/// Where the files are.
pub(super) enum Shelf {
    Folder(PathBuf),
    Archive {
        file: File,
        entries: BTreeMap<String, Place>,
    },
}

/// What is known of an entry of an archive.
pub(super) enum Place {
    File {
        at: u64,
        size: u64,
    },
    /// To a path from the root; nothing if it leaves that.
    Link(Option<String>),
}

impl Shelf {
    pub(super) fn folder(path: &Path) -> Result<Self> {
        let failed = |source| Failure::Open {
            path: path.to_owned(),
            source,
        };
        let is_folder = fs::metadata(path).map_err(failed)?.is_dir();
        if !is_folder {
            return Err(Error::NotThere {
                missing: "index.json",
                kind: "OCI layout",
                remedy: "write oci-archive: or docker-archive: before the path of a file",
            }
            .into());
        }
        Ok(Self::Folder(path.to_owned()))
    }

    /// Finds all entries by going through the archive once.
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
            return Err(Failure::Kind {
                path: path.to_owned(),
            });
        }
        let limit = options.image.bytes;
        let file = File::open(path).map_err(failed)?;
        let inflated = Inflate::new(Meter::new(&file, limit))
            .map_err(|error| explain(error, "at its start".to_owned()))?;
        let file = match inflated.wrapping() {
            Wrapping::Plain => File::open(path).map_err(failed)?,
            _ => options.room().file(&mut Meter::new(inflated, limit))?,
        };
        let entries = index(At { file: &file, at: 0 }, limit)?;
        Ok(Self::Archive { file, entries })
    }

    /// Opens a file and tells its size.
    pub(super) fn open(&self, path: &str) -> Result<Option<(Box<dyn Read + '_>, u64)>> {
        match self {
            Self::Folder(folder) => {
                let failed = |source| Failure::Read {
                    path: path.to_owned(),
                    source,
                };
                let at = folder.join(path);
                // A link is followed, as some build tools lay out blobs by links: what is behind it is only read,
                // and has the right digest or is of no use.
                let found = match fs::metadata(&at) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    found => found.map_err(failed)?,
                };
                if !found.is_file() {
                    let problem = "is no regular file";
                    let path = path.to_owned();
                    return Err(Error::Path { path, problem }.into());
                }
                let file = File::open(&at).map_err(failed)?;
                Ok(Some((Box::new(file), found.len())))
            }
            Self::Archive { file, entries } => {
                let mut path = path;
                for _ in 0..=LINKS {
                    match entries.get(path) {
                        None => return Ok(None),
                        Some(Place::File { at, size }) => {
                            let body = At { file, at: *at }.take(*size);
                            return Ok(Some((Box::new(body), *size)));
                        }
                        Some(Place::Link(Some(target))) => path = target,
                        Some(Place::Link(None)) => break,
                    }
                }
                let problem = "is a link that leads out of the archive or to itself";
                let path = oci::excerpt(path);
                Err(Error::Path { path, problem }.into())
            }
        }
    }

    /// A file that must be there.
    pub(super) fn need(&self, path: &str) -> Result<(Box<dyn Read + '_>, u64)> {
        let missing = || Error::Missing {
            path: oci::excerpt(path),
        };
        self.open(path)?.ok_or_else(|| missing().into())
    }

    /// All of a document, which is never large.
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

    /// All of a document with this digest.
    pub(super) fn verified(&self, path: &str, wanted: Digest) -> Result<Vec<u8>> {
        let missing = || Error::Missing {
            path: oci::excerpt(path),
        };
        let bytes = self.document(path)?.ok_or_else(missing)?;
        if bytes.len() as u64 > oci::DOCUMENT_LIMIT {
            return Err(oci::Error::TooLarge.into());
        }
        check(path, wanted, Digest::of(&bytes))?;
        Ok(bytes)
    }
}

/// Refuses bytes of another digest.
pub(super) fn check(path: &str, wanted: Digest, found: Digest) -> Result<()> {
    if wanted == found {
        return Ok(());
    }
    Err(Error::Lie {
        path: oci::excerpt(path),
        wanted: wanted.to_string(),
        found: format!("the digest {found}"),
    }
    .into())
}

/// The digest and the size of a reader that has been read, the rest included.
pub(super) fn sum<R: Read>(path: &str, summed: Summed<R>) -> Result<(Digest, u64)> {
    summed.finish().map_err(|source| Failure::Read {
        path: oci::excerpt(path),
        source,
    })
}

fn index(reader: impl Read, limit: u64) -> Result<BTreeMap<String, Place>> {
    let mut blocks = Blocks::new(Meter::new(reader, limit), Wrapping::Plain, limit);
    let mut entries = BTreeMap::new();
    let mut left = ENTRIES;
    archive::each(&mut blocks, EXTENDED, |blocks, entry| {
        left = left
            .checked_sub(1)
            .ok_or(Error::TooManyEntries { limit: ENTRIES })?;
        let bytes = entry.before.path(&entry.header)?;
        let name = Name::read(&bytes)?;
        let kind = entry.kind(&bytes);
        entry.check_size(&name.path, kind)?;
        let place = match kind {
            b'0' if !entry.is_sparse() => Place::File {
                at: blocks.count(),
                size: entry.size,
            },
            b'1' => {
                let target = Name::read(&entry.before.link(&entry.header)?)?;
                Place::Link(Some(target.path))
            }
            b'2' => {
                let target = entry.before.link(&entry.header)?;
                Place::Link(behind(&name.path, &String::from_utf8_lossy(&target)))
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
        blocks.pass(entry.size)?;
        if entries.insert(name.path.clone(), place).is_some() {
            let path = oci::excerpt(&name.path);
            let problem = "stands twice in the archive";
            return Err(Error::Path { path, problem }.into());
        }
        Ok(())
    })?;
    Ok(entries)
}

/// Where a symbolic link leads, if it stays in the archive.
fn behind(path: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
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

/// Reads a file from some offset, whoever else reads it.
struct At<'a> {
    file: &'a File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_another_entry_or_nowhere() {
        assert_each!(|path, target, found| behind(path, target).as_deref() => found;
            "a/layer.tar", "../b/layer.tar" => Some("b/layer.tar");
            "a/layer.tar", "other" => Some("a/other");
            "layer.tar", "./b" => Some("b");
            "a/layer.tar", "../../b" => None;
            "layer.tar", "../layer.tar" => None;
            "a/layer.tar", "/etc/passwd" => None;
        );
    }
}
