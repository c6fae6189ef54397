//! A catalog on disk, ready to be served: one file, of which only the index is read when it is opened.
//!
//! ```text
//!  magic │ manifests │ what bundles say in lists │ index: names, edges, where all that is │ footer: digests
//! ```
//!
//! Most of a catalog is the manifests of bundles, which are seldom asked for; so they stay in the file and are read for
//! each answer, where the kernel has them in its cache. What a bundle says in every channel is there once, as fields of
//! the message that is sent; an entry of a channel adds its own fields behind them, which is how the fields of a
//! protobuf message may be put together.
//!
//! The footer has the digest of the catalog that the file was made from, which is also its name, and one of the index,
//! which has a checksum of each piece. Files are written under another name, synced and renamed: what has the name of a
//! store is whole, or was damaged later, and then it is noticed when it is opened or read.

mod writing;

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
    index::{Entry, Index, Piece},
    wire::Deprecation,
};

pub(super) use writing::{Writer, is_unfinished, sweep};

/// Also the version of the format: to be changed whenever the same catalog would give another file.
const MAGIC: &[u8; 8] = b"rkregis\x01";
const FOOTER: usize = 8 + 32 + 32 + 8;
/// A million bundles need less.
const LARGEST_INDEX: u64 = 1 << 30;
/// What is read at once of a list.
const BATCH: u64 = 256 << 10;
/// Bytes between two pieces that are rather read than left out.
const GAP: u64 = 4 << 10;
/// Bytes of pieces that are read together.
const RUN: u64 = 1 << 20;

/// The SHA-256 of a catalog's files.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub(super) [u8; 32]);

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file, or its folder, cannot be read or written.
    #[error("failed to {action} {}; is there space, and are you allowed to?", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It would have more bytes than there is room for.
    #[error(
        "the catalog would take more than {most} bytes to be served; split it, or have the limit raised"
    )]
    TooLarge {
        /// How many there may be.
        most: u64,
    },
    /// The file is none of ours, is not whole, or was changed.
    #[error("{} is no usable store: {problem}; remove it, it is built again from the catalog", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

/// A catalog that can be served. It may be removed while it is open.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    digest: Digest,
    pub(super) index: Index,
    /// Positions of packages and their channels, in the order of ListBundles.
    order: Vec<(u32, u32)>,
}

/// Where ListBundles goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cursor {
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
    /// When it cannot be read, or is not what [`build`](super::build) writes.
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
        let foreign = "it has not the form of one";
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
        let pieces = match at.checked_sub(length) {
            Some(end) if end >= start && length <= LARGEST_INDEX => start..end,
            _ => return Err(damaged("its index lies outside of it")),
        };
        let mut index = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut index, pieces.end).map_err(failed)?;
        let digest = Digest(digest.try_into().unwrap_or_default());
        if checked != checksum(&digest, &index) {
            return Err(damaged("its index was changed"));
        }
        let index = Index::decode(index.as_slice()).map_err(|_| damaged("its index is none"))?;
        index.check(&pieces).map_err(damaged)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            digest,
            order: index.by_channel(),
            index,
        })
    }

    /// The digest of the catalog that it was made from.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What of the catalog is not served, and why.
    pub fn left_out(&self) -> &[String] {
        &self.index.left_out
    }

    /// How many packages there are.
    pub fn packages(&self) -> usize {
        self.index.packages.len()
    }

    /// Reads everything that can be asked for and compares it with its checksums.
    ///
    /// # Errors
    /// When something was changed or cannot be read.
    pub fn verify(&self) -> Result<()> {
        let mut pieces: Vec<&Piece> = self.index.pieces().collect();
        pieces.sort_unstable_by_key(|it| it.offset);
        let runs = Runs { pieces: &pieces };
        runs.into_iter()
            .try_for_each(|run| self.read_run(run, |_, _| ()))
    }

    /// One bundle with its manifests: a message `Bundle` without what it replaces and skips.
    pub(super) fn whole(&self, entry: &Entry) -> Result<Bytes> {
        let mut message = self.read(&entry.bundle.light)?;
        self.manifests(entry, &mut message)?;
        place(entry, &mut message);
        Ok(message.into())
    }

    /// The next messages of ListBundles, and where to go on.
    pub(super) fn list(&self, from: Cursor) -> Result<(Vec<Bytes>, Option<Cursor>)> {
        let (entries, next) = self.batch(from);
        let mut pieces: Vec<&Piece> = entries.iter().map(|it| &it.bundle.light).collect();
        pieces.sort_unstable_by_key(|it| it.offset);
        pieces.dedup();
        let mut read = HashMap::with_capacity(pieces.len());
        for run in (Runs { pieces: &pieces }) {
            self.read_run(run, |piece, bytes| {
                read.insert(piece.offset, bytes);
            })?;
        }
        let message = |entry: &Entry| {
            let light = read.get(&entry.bundle.light.offset);
            let mut message = Vec::with_capacity(light.map_or(0, Bytes::len) + 256);
            message.extend_from_slice(light.map(|it| &**it).unwrap_or_default());
            if !entry.bundle.has_image {
                self.manifests(entry, &mut message)?;
            }
            place(entry, &mut message);
            edges(entry, &mut message);
            Ok(message.into())
        };
        Ok((entries.iter().map(message).collect::<Result<_>>()?, next))
    }

    /// As many entries as are read at once.
    fn batch(&self, from: Cursor) -> (Vec<Entry<'_>>, Option<Cursor>) {
        let (mut entries, mut size, mut at) = (Vec::new(), 0, from);
        while let Some((package, channel)) = self.order.get(at.channel) {
            let package = self.index.packages.get(*package as usize);
            let joined = package.and_then(|package| {
                let channel = package.channels.get(*channel as usize)?;
                package.join(channel, channel.entries.get(at.entry)?)
            });
            let Some(entry) = joined else {
                at = Cursor {
                    channel: at.channel + 1,
                    entry: 0,
                };
                continue;
            };
            if size >= BATCH {
                return (entries, Some(at));
            }
            size += u64::from(entry.bundle.light.length);
            if !entry.bundle.has_image {
                // The second time as objects.
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
            if bundle.is_made {
                text.append(&mut self.read(&entry.package.icon)?);
                if bundle.wants_description {
                    text.append(&mut self.read(&entry.package.description)?);
                }
                text.extend_from_slice(b"}}");
            }
            field(4, &text, message);
            if bundle.is_alone {
                field(5, &text, message);
            }
        }
        message.append(&mut self.read(&bundle.objects)?);
        Ok(())
    }

    pub(super) fn read(&self, piece: &Piece) -> Result<Vec<u8>> {
        let mut bytes = vec![0; piece.length as usize];
        self.fill(&mut bytes, piece.offset)?;
        self.compare(piece, &bytes)?;
        Ok(bytes)
    }

    /// Reads pieces that lie beside each other at once.
    fn read_run<'a>(
        &self,
        run: &[&'a Piece],
        mut take: impl FnMut(&'a Piece, Bytes),
    ) -> Result<()> {
        let start = run.first().map_or(0, |it| it.offset);
        let end = run.iter().map(|it| it.end()).max().unwrap_or(start);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
        self.fill(&mut bytes, start)?;
        let bytes = Bytes::from(bytes);
        for piece in run {
            // Both fit: the run is what was read.
            let at = usize::try_from(piece.offset - start).unwrap_or_default();
            let slice = bytes.slice(at..at + piece.length as usize);
            self.compare(piece, &slice)?;
            take(piece, slice);
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

    fn compare(&self, piece: &Piece, bytes: &[u8]) -> Result<()> {
        if crc32fast::hash(bytes) == piece.checksum {
            return Ok(());
        }
        Err(Error::Damaged {
            path: self.path.clone(),
            problem: "a part of it was changed",
        })
    }
}

/// Pieces in the order of the file, cut where they are far from each other or too many to be read at once.
struct Runs<'p, 'a> {
    pieces: &'p [&'a Piece],
}

// === impl Runs ===

impl<'p, 'a> Iterator for Runs<'p, 'a> {
    type Item = &'p [&'a Piece];

    fn next(&mut self) -> Option<Self::Item> {
        let (start, mut end) = self.pieces.first().map(|it| (it.offset, it.end()))?;
        let is_far = |it: &&Piece| {
            let is_far = it.offset > end.saturating_add(GAP) || it.end() > start + RUN;
            end = end.max(it.end());
            is_far
        };
        let rest = self.pieces.get(1..).unwrap_or_default();
        let length = 1 + rest.iter().position(is_far).unwrap_or(rest.len());
        let (run, rest) = self.pieces.split_at_checked(length)?;
        self.pieces = rest;
        Some(run)
    }
}

/// The fields that tell of which package and channel an entry is.
fn place(entry: &Entry, message: &mut Vec<u8>) {
    field(3, entry.channel.name.as_bytes(), message);
    field(10, entry.row.skip_range.as_bytes(), message);
    if let Some(text) = &entry.bundle.deprecation {
        let deprecation = Deprecation {
            message: text.clone(),
        };
        encoding::message::encode(15, &deprecation, message);
    }
}

/// The fields that tell what an entry follows.
fn edges(entry: &Entry, message: &mut Vec<u8>) {
    field(13, entry.row.replaces.as_bytes(), message);
    for name in &entry.row.skips {
        encoding::string::encode(14, name, message);
    }
}

/// A field of a string that is left out when it is empty.
pub(super) fn field(tag: u32, text: &[u8], message: &mut Vec<u8>) {
    if !text.is_empty() {
        encoding::encode_key(tag, encoding::WireType::LengthDelimited, message);
        encoding::encode_varint(text.len() as u64, message);
        message.extend_from_slice(text);
    }
}

/// Of the index and the catalog's digest before it.
fn checksum(digest: &Digest, index: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(digest.0)
        .chain_update(index)
        .finalize()
        .into()
}
