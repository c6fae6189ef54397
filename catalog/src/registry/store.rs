//! Store: a catalog on disk that is ready to be served. Opening a store reads only its index.
//!
//! ```text
//! magic │ manifests │ list fields of bundles │ index: names, edges, file ranges │ footer: digests
//! ```
//!
//! Most of a catalog consists of manifests of bundles, which are rarely requested. They stay in the file and are read
//! for each response, usually from the kernel's page cache. The fields of a bundle that are the same in every channel
//! are stored once, encoded for the message. An entry of a channel appends its own fields. Protobuf allows this
//! concatenation.
//!
//! The footer contains the digest of the catalog, which is also the name of the file, and a digest of the index. The
//! index contains a checksum of each file range. Files are written under another name, synced and renamed. A file with
//! the name of a store is therefore complete; later damage is detected when it is opened or read.

mod writer;

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use prost::{Message, encoding};
use sha2::{Digest as _, Sha256};

use super::{
    index::{Entry, FileRange, Index},
    proto::Deprecation,
};

pub(super) use writer::{Writer, is_unfinished, sweep};

/// Magic number and version of the format. Change it whenever the same catalog would produce a different file.
const MAGIC: &[u8; 8] = b"rkregis\x02";
const FOOTER: usize = 8 + 32 + 32 + 8;
/// Maximum size of an index in bytes. A million bundles need less.
const MAX_INDEX_SIZE: u64 = 1 << 30;
/// Bytes of a list that are read at once.
const BATCH: u64 = 256 << 10;
/// Maximum gap in bytes that is read instead of skipped.
const MAX_GAP: u64 = 4 << 10;
/// Maximum size of ranges that are read together, in bytes.
const MAX_RUN: u64 = 1 << 20;

/// SHA-256 digest of a catalog's files.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub(super) [u8; 32]);

/// Reasons why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or its directory cannot be read or written.
    #[error("failed to {action} {}; check the free space and the permissions", path.display())]
    File {
        /// Action that failed.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The store would exceed the size limit.
    #[error(
        "the store of the catalog would exceed {most} bytes; split the catalog, or raise the limit"
    )]
    TooLarge {
        /// Size limit in bytes.
        most: u64,
    },
    /// The file is not a store, is incomplete, or was changed.
    #[error("{} is not a usable store: {problem}; remove it, and it is built again from the catalog", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Defect of the file.
        problem: &'static str,
    },
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

/// A catalog that can be served. The file may be removed while it is open.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    digest: Digest,
    pub(super) index: Index,
    /// Positions of packages and their channels, in the order of ListBundles.
    order: Vec<(u32, u32)>,
}

/// Position at which ListBundles continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ListCursor {
    channel: usize,
    entry: usize,
}

// === impl Digest ===

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({self})")
    }
}

// === impl Store ===

impl Store {
    /// Opens a file and reads its index.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a valid store.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::File {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let damaged = |problem| Error::Damaged {
            path: path.to_owned(),
            problem,
        };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let size = metadata.len();
        let foreign = "it does not have the format of a store";
        let start = MAGIC.len() as u64;
        let Some(at) = size.checked_sub(FOOTER as u64).filter(|at| *at >= start) else {
            return Err(damaged(foreign));
        };
        if !metadata.is_file() {
            return Err(damaged(foreign));
        }
        let (mut magic, mut footer) = ([0; 8], [0; FOOTER]);
        file.read_exact_at(&mut magic, 0).map_err(failed)?;
        file.read_exact_at(&mut footer, at).map_err(failed)?;
        let (length, rest) = footer.split_at(8);
        let (digest, rest) = rest.split_at(32);
        let (checked, end) = rest.split_at(32);
        if magic != *MAGIC || end != MAGIC {
            return Err(damaged(foreign));
        }
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        let content = match at.checked_sub(length) {
            Some(end) if end >= start && length <= MAX_INDEX_SIZE => start..end,
            _ => return Err(damaged("its index lies outside the file")),
        };
        let mut index = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut index, content.end)
            .map_err(failed)?;
        let digest = Digest(digest.try_into().unwrap_or_default());
        if checked != checksum(&digest, &index) {
            return Err(damaged("its index was changed"));
        }
        let index = Index::decode(index.as_slice()).map_err(|_| damaged("its index is invalid"))?;
        index.check(&content).map_err(damaged)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            digest,
            order: index.by_channel(),
            index,
        })
    }

    /// Returns the digest of the catalog from which the store was built.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the skipped content of the catalog with the reasons.
    pub fn skipped(&self) -> &[String] {
        &self.index.left_out
    }

    /// Returns the number of packages.
    pub fn packages(&self) -> usize {
        self.index.packages.len()
    }

    /// Reads all content and compares it with its checksums.
    ///
    /// # Errors
    /// Returns an error if content was changed or cannot be read.
    pub fn verify(&self) -> Result<()> {
        let mut ranges: Vec<&FileRange> = self.index.ranges().collect();
        ranges.sort_unstable_by_key(|range| range.offset);
        let runs = ReadRuns { ranges: &ranges };
        runs.into_iter()
            .try_for_each(|run| self.read_run(run, |_, _| ()))
    }

    /// Reads a bundle with its manifests: a message `Bundle` without the bundles that it replaces and skips.
    pub(super) fn read_all(&self, entry: &Entry) -> Result<Bytes> {
        let mut message = self.read(&entry.bundle.list_fields)?;
        self.manifests(entry, &mut message)?;
        encode_location(entry, &mut message);
        Ok(message.into())
    }

    /// Reads the next messages of ListBundles. Also returns the position at which the list continues.
    pub(super) fn list(&self, from: ListCursor) -> Result<(Vec<Bytes>, Option<ListCursor>)> {
        let (entries, next) = self.batch(from);
        let mut ranges: Vec<&FileRange> = entries
            .iter()
            .map(|entry| &entry.bundle.list_fields)
            .collect();
        ranges.sort_unstable_by_key(|range| range.offset);
        ranges.dedup();
        let mut read = HashMap::with_capacity(ranges.len());
        for run in (ReadRuns { ranges: &ranges }) {
            self.read_run(run, |range, bytes| {
                read.insert(range.offset, bytes);
            })?;
        }
        let message = |entry: &Entry| {
            let list_fields = read.get(&entry.bundle.list_fields.offset);
            let mut message = Vec::with_capacity(list_fields.map_or(0, Bytes::len) + 256);
            message.extend_from_slice(list_fields.map(|bytes| &**bytes).unwrap_or_default());
            if !entry.bundle.has_image {
                self.manifests(entry, &mut message)?;
            }
            encode_location(entry, &mut message);
            encode_edges(entry, &mut message);
            Ok(message.into())
        };
        Ok((entries.iter().map(message).collect::<Result<_>>()?, next))
    }

    /// Returns the entries of one batch and the next position.
    fn batch(&self, from: ListCursor) -> (Vec<Entry<'_>>, Option<ListCursor>) {
        let (mut entries, mut size, mut at) = (Vec::new(), 0, from);
        while let Some((package, channel)) = self.order.get(at.channel) {
            let package = self.index.packages.get(*package as usize);
            let joined = package.and_then(|package| {
                let channel = package.channels.get(*channel as usize)?;
                package.joined_entry(channel, channel.entries.get(at.entry)?)
            });
            let Some(entry) = joined else {
                at = ListCursor {
                    channel: at.channel + 1,
                    entry: 0,
                };
                continue;
            };
            if size >= BATCH {
                return (entries, Some(at));
            }
            size += u64::from(entry.bundle.list_fields.length);
            if !entry.bundle.has_image {
                // The ClusterServiceVersion can appear a second time, as an object.
                size +=
                    2 * u64::from(entry.bundle.csv.length) + u64::from(entry.bundle.objects.length);
            }
            entries.push(entry);
            at.entry += 1;
        }
        (entries, None)
    }

    fn manifests(&self, entry: &Entry, message: &mut Vec<u8>) -> Result<()> {
        let bundle = entry.bundle;
        if bundle.csv.length > 0 {
            let mut text = self.read(&bundle.csv)?;
            if bundle.csv_is_synthetic {
                text.append(&mut self.read(&entry.package.icon)?);
                if bundle.needs_description {
                    text.append(&mut self.read(&entry.package.description)?);
                }
                text.extend_from_slice(b"}}");
            }
            encode_field(4, &text, message);
            if bundle.csv_is_only_object {
                encode_field(5, &text, message);
            }
        }
        message.append(&mut self.read(&bundle.objects)?);
        Ok(())
    }

    pub(super) fn read(&self, range: &FileRange) -> Result<Vec<u8>> {
        let mut bytes = vec![0; range.length as usize];
        self.fill(&mut bytes, range.offset)?;
        self.compare(range, &bytes)?;
        Ok(bytes)
    }

    /// Reads adjacent ranges with a single read.
    fn read_run<'a>(
        &self,
        run: &[&'a FileRange],
        mut take: impl FnMut(&'a FileRange, Bytes),
    ) -> Result<()> {
        let start = run.first().map_or(0, |range| range.offset);
        let end = run.iter().map(|range| range.end()).max().unwrap_or(start);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
        self.fill(&mut bytes, start)?;
        let bytes = Bytes::from(bytes);
        for range in run {
            // Both values fit, because the run was read into memory.
            let at = usize::try_from(range.offset - start).unwrap_or_default();
            let slice = bytes.slice(at..at + range.length as usize);
            self.compare(range, &slice)?;
            take(range, slice);
        }
        Ok(())
    }

    fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file
            .read_exact_at(bytes, offset)
            .map_err(|source| Error::File {
                action: "read",
                path: self.path.clone(),
                source,
            })
    }

    fn compare(&self, range: &FileRange, bytes: &[u8]) -> Result<()> {
        if crc32fast::hash(bytes) == range.checksum {
            return Ok(());
        }
        Err(Error::Damaged {
            path: self.path.clone(),
            problem: "a part of the file was changed",
        })
    }
}

/// Runs of ranges in file order. A run ends at a large gap or at the maximum size.
struct ReadRuns<'p, 'a> {
    ranges: &'p [&'a FileRange],
}

// === impl ReadRuns ===

impl<'p, 'a> Iterator for ReadRuns<'p, 'a> {
    type Item = &'p [&'a FileRange];

    fn next(&mut self) -> Option<Self::Item> {
        let (start, mut end) = self
            .ranges
            .first()
            .map(|range| (range.offset, range.end()))?;
        let is_far = |range: &&FileRange| {
            let is_far =
                range.offset > end.saturating_add(MAX_GAP) || range.end() > start + MAX_RUN;
            end = end.max(range.end());
            is_far
        };
        let remaining = self.ranges.get(1..).unwrap_or_default();
        let length = 1 + remaining.iter().position(is_far).unwrap_or(remaining.len());
        let (run, remaining) = self.ranges.split_at_checked(length)?;
        self.ranges = remaining;
        Some(run)
    }
}

/// Encodes the fields that depend on the package and the channel of an entry.
fn encode_location(entry: &Entry, message: &mut Vec<u8>) {
    encode_field(3, entry.channel.name.as_bytes(), message);
    encode_field(10, entry.row.skip_range.as_bytes(), message);
    if let Some(text) = &entry.bundle.deprecation {
        let deprecation = Deprecation {
            message: text.clone(),
        };
        encoding::message::encode(15, &deprecation, message);
    }
}

/// Encodes the upgrade edges of an entry.
fn encode_edges(entry: &Entry, message: &mut Vec<u8>) {
    encode_field(13, entry.row.replaces.as_bytes(), message);
    for name in &entry.row.skips {
        encoding::string::encode(14, name, message);
    }
}

/// Encodes a string field. Empty strings are omitted.
pub(super) fn encode_field(tag: u32, text: &[u8], message: &mut Vec<u8>) {
    if !text.is_empty() {
        encoding::encode_key(tag, encoding::WireType::LengthDelimited, message);
        encoding::encode_varint(text.len() as u64, message);
        message.extend_from_slice(text);
    }
}

/// Hashes the catalog's digest and the index.
fn checksum(digest: &Digest, index: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(digest.0)
        .chain_update(index)
        .finalize()
        .into()
}
