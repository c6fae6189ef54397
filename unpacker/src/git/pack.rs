//! A received pack: finds and reconstructs its objects.
//!
//! A pack does not contain the names of its objects; they are computed. The names of full objects are computed while
//! the pack arrives. Delta objects are reconstructed only when an object is requested, with few objects in memory at
//! a time. All decompressed bytes count against one budget, so that no combination of deltas costs more. Sizes are
//! checked against limits before they are used.

use std::{
    collections::{HashMap, HashSet},
    io::{BufReader, Seek as _, SeekFrom},
};

use tempfile::SpooledTempFile;

use super::{
    delta,
    error::{Problem, Result},
    inflate::Inflater,
    object_id::{Kind, ObjectId},
};

/// Temporary storage for packed bytes: in memory, and in an unnamed file above a certain size.
pub(super) type Spool = SpooledTempFile;

/// The limits of a repository.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Maximum number of transferred bytes.
    pub(super) received: u64,
    /// Number of bytes that are held in memory before a file is used.
    pub(super) memory: usize,
    /// Maximum number of objects.
    pub(super) objects: u64,
    /// Maximum size of an object that is held in memory, in bytes: trees, selected files and bases of deltas.
    pub(super) object: u64,
    /// Maximum total size of decompressed and reconstructed data, in bytes.
    pub(super) work: u64,
    /// Maximum length of a chain of deltas. It is the maximum that git writes.
    pub(super) depth: usize,
}

impl Bounds {
    /// Creates limits that are generous for repositories with bundles. A file must not exceed the limit of the
    /// caller.
    pub(super) fn new(file: u64) -> Self {
        Self {
            received: 512 << 20,
            memory: 4 << 20,
            objects: 500_000,
            object: file.max(16 << 20),
            work: 8 << 30,
            depth: 4095,
        }
    }
}

/// The position of an object in the pack.
pub(super) struct Entry {
    /// Offset of the object. Deltas refer to their bases by this offset.
    pub(super) start: u64,
    /// Offset of its compressed data.
    pub(super) data: u64,
    /// Decompressed size of the object or of its delta.
    pub(super) size: u64,
    pub(super) encoding: Encoding,
    /// Name of the object; `None` for deltas that are not reconstructed yet.
    pub(super) id: Option<ObjectId>,
}

/// The encoding of an object in the pack.
#[derive(Clone, Copy)]
pub(super) enum Encoding {
    Full(Kind),
    /// A delta whose base is an earlier entry of the pack.
    OffsetDelta(usize),
    /// A delta whose base has this name and may be anywhere in the pack.
    RefDelta(ObjectId),
}

/// A received pack.
pub(super) struct Pack {
    bounds: Bounds,
    spool: Spool,
    inflater: Inflater,
    entries: Vec<Entry>,
    ids: HashMap<ObjectId, usize>,
    /// Pairs of base and delta, sorted by base.
    offset_deltas: Vec<(usize, usize)>,
    ref_deltas: Vec<(ObjectId, usize)>,
    work: u64,
    /// Whether an object was skipped because it exceeds the size limit.
    has_oversized: bool,
}

/// An object whose dependent deltas are being reconstructed.
struct Base {
    index: usize,
    /// Content; `None` if it was released to limit memory. It is then reconstructed again.
    bytes: Option<Vec<u8>>,
    waiting: Vec<usize>,
    /// Number of deltas below this object.
    depth: usize,
}

impl Pack {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            spool: tempfile::spooled_tempfile(bounds.memory),
            inflater: Inflater::new(),
            entries: Vec::new(),
            ids: HashMap::new(),
            offset_deltas: Vec::new(),
            ref_deltas: Vec::new(),
            work: bounds.work,
            has_oversized: false,
        }
    }

    /// Returns the entry with this offset.
    pub(super) fn starting_at(&self, start: u64) -> Option<usize> {
        self.entries
            .binary_search_by_key(&start, |entry| entry.start)
            .ok()
    }

    /// Deducts bytes from the budget before they are produced.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<()> {
        self.work = self.work.checked_sub(bytes).ok_or(Problem::TooLarge {
            resource: "its unpacked bytes",
            limit: self.bounds.work,
        })?;
        Ok(())
    }

    /// Adds the next entry.
    pub(super) fn add(&mut self, entry: Entry) {
        let index = self.entries.len();
        match entry.encoding {
            Encoding::OffsetDelta(base) => self.offset_deltas.push((base, index)),
            Encoding::RefDelta(base) => self.ref_deltas.push((base, index)),
            Encoding::Full(_) => {}
        }
        if let Some(id) = entry.id {
            // The first of two equal objects is used, so that a name depends only on earlier entries.
            self.ids.entry(id).or_insert(index);
        }
        self.entries.push(entry);
    }

    /// Finishes the pack and provides the storage that its objects are read from.
    pub(super) fn received(mut self, spool: Spool) -> Self {
        self.spool = spool;
        self.offset_deltas.sort_unstable();
        self.ref_deltas.sort_unstable();
        self
    }

    /// Reads the object with this name, if it exists and is of this kind.
    pub(super) fn read(&mut self, id: ObjectId, kind: Kind) -> Result<Vec<u8>> {
        let missing = || Problem::Missing { id: id.to_string() };
        let index = *self.ids.get(&id).ok_or_else(missing)?;
        let (actual, bytes) = self.read_entry(index)?;
        if actual == kind {
            Ok(bytes)
        } else {
            Err(missing())
        }
    }

    /// Returns the kind of an object, if its name is known.
    pub(super) fn kind(&self, id: ObjectId) -> Option<Kind> {
        let mut index = *self.ids.get(&id)?;
        for _ in 0..=self.bounds.depth {
            index = match self.entries.get(index)?.encoding {
                Encoding::Full(kind) => return Some(kind),
                Encoding::OffsetDelta(base) => base,
                Encoding::RefDelta(base) => *self.ids.get(&base)?,
            };
        }
        None
    }

    /// Reports whether an object was too large to compute its name. A missing object may be this one.
    pub(super) fn has_oversized(&self) -> bool {
        self.has_oversized
    }

    /// Computes the names of the delta objects of some kinds. Stops early when all `requested` objects are found.
    pub(super) fn resolve(
        &mut self,
        kinds: &[Kind],
        requested: Option<&HashSet<ObjectId>>,
    ) -> Result<()> {
        let mut missing: Option<HashSet<ObjectId>> = requested.map(|requested| {
            let unknown = |id: &&ObjectId| !self.ids.contains_key(*id);
            requested.iter().filter(unknown).copied().collect()
        });
        for index in 0..self.entries.len() {
            if missing.as_ref().is_some_and(HashSet::is_empty) {
                return Ok(());
            }
            let Some(Encoding::Full(kind)) = self.entries.get(index).map(|entry| entry.encoding)
            else {
                continue;
            };
            if kinds.contains(&kind) {
                self.resolve_from(index, kind, &mut missing)?;
            }
        }
        Ok(())
    }

    /// Computes the names of all objects that are directly or indirectly based on one object.
    fn resolve_from(
        &mut self,
        root: usize,
        kind: Kind,
        missing: &mut Option<HashSet<ObjectId>>,
    ) -> Result<()> {
        let id = self.entries.get(root).and_then(|entry| entry.id);
        let id = id.filter(|id| self.ids.get(id) == Some(&root));
        let waiting = self.dependents(root, id);
        if waiting.is_empty() || self.is_oversized(root) {
            return Ok(());
        }
        let bytes = Some(self.inflate(root)?);
        let mut bases = vec![Base {
            index: root,
            bytes,
            waiting,
            depth: 0,
        }];
        while let Some(base) = bases.last_mut() {
            let (index, depth) = (base.index, base.depth + 1);
            let Some(next) = base.waiting.pop() else {
                bases.pop();
                continue;
            };
            if depth > self.bounds.depth {
                return Err(TOO_DEEP);
            }
            let is_last = base.waiting.is_empty();
            let bytes = match base.bytes.take() {
                Some(bytes) => bytes,
                None => self.read_entry(index)?.1,
            };
            let object = self.apply_delta(&bytes, next)?;
            if is_last {
                bases.pop();
            } else if let Some(base) = bases.last_mut() {
                base.bytes = Some(bytes);
            }
            let Some(object) = object else { continue };
            let id = ObjectId::compute(kind, &object)?;
            let is_new = !self.ids.contains_key(&id);
            if is_new {
                self.ids.insert(id, next);
            }
            if let Some(missing) = missing {
                missing.remove(&id);
                if missing.is_empty() {
                    return Ok(());
                }
            }
            let waiting = self.dependents(next, is_new.then_some(id));
            if waiting.is_empty() {
                continue;
            }
            bases.push(Base {
                index: next,
                bytes: Some(object),
                waiting,
                depth,
            });
            self.release_bases(&mut bases);
        }
        Ok(())
    }

    /// Limits the memory of all bases to four objects of the maximum size. The lowest base is released first, because
    /// it is needed last.
    fn release_bases(&self, bases: &mut [Base]) {
        let held_bytes = |base: &Base| base.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let mut sum: u64 = bases.iter().map(held_bytes).sum();
        let limit = self.bounds.object.saturating_mul(4);
        for base in bases {
            if sum <= limit {
                break;
            }
            sum -= held_bytes(base);
            base.bytes = None;
        }
    }

    /// Returns the deltas whose base is this object.
    fn dependents(&self, index: usize, id: Option<ObjectId>) -> Vec<usize> {
        let from = self
            .offset_deltas
            .partition_point(|(base, _)| *base < index);
        let deltas = self.offset_deltas.iter().skip(from);
        let deltas = deltas
            .take_while(|(base, _)| *base == index)
            .map(|(_, at)| *at);
        let mut all: Vec<usize> = deltas.collect();
        if let Some(id) = id {
            let from = self.ref_deltas.partition_point(|(base, _)| *base < id);
            let deltas = self.ref_deltas.iter().skip(from);
            all.extend(
                deltas
                    .take_while(|(base, _)| *base == id)
                    .map(|(_, at)| *at),
            );
        }
        all
    }

    /// Reads an object: decompresses its base and applies its chain of deltas.
    fn read_entry(&mut self, index: usize) -> Result<(Kind, Vec<u8>)> {
        let mut deltas = Vec::new();
        let mut at = index;
        let kind = loop {
            let encoding = self.entries.get(at).map(|entry| entry.encoding);
            let base = match encoding.ok_or(MISSING_BASE)? {
                Encoding::Full(kind) => break kind,
                Encoding::OffsetDelta(base) => base,
                Encoding::RefDelta(id) => *self.ids.get(&id).ok_or(MISSING_BASE)?,
            };
            deltas.push(at);
            at = base;
            if deltas.len() > self.bounds.depth {
                return Err(TOO_DEEP);
            }
        };
        let mut bytes = self.inflate(at)?;
        while let Some(delta) = deltas.pop() {
            bytes = self.apply_delta(&bytes, delta)?.ok_or(Problem::TooLarge {
                resource: ONE_OBJECT,
                limit: self.bounds.object,
            })?;
        }
        Ok((kind, bytes))
    }

    /// Applies one delta to its base. Returns `None` if the result exceeds the size limit.
    fn apply_delta(&mut self, base: &[u8], delta: usize) -> Result<Option<Vec<u8>>> {
        if self.is_oversized(delta) {
            return Ok(None);
        }
        let delta = self.inflate(delta)?;
        let header = delta::DeltaHeader::read(&delta)?;
        if header.result > self.bounds.object {
            self.has_oversized = true;
            return Ok(None);
        }
        self.spend(header.result)?;
        header.apply(base).map(Some)
    }

    fn is_oversized(&mut self, index: usize) -> bool {
        let size = self.entries.get(index).map_or(0, |entry| entry.size);
        let is_oversized = size > self.bounds.object;
        self.has_oversized |= is_oversized;
        is_oversized
    }

    /// Decompresses an entry. It was decompressed before, while the pack arrived, and had the declared size.
    fn inflate(&mut self, index: usize) -> Result<Vec<u8>> {
        let entry = self.entries.get(index).ok_or(MISSING_BASE)?;
        let (data, size) = (entry.data, entry.size);
        if size > self.bounds.object {
            return Err(Problem::TooLarge {
                resource: ONE_OBJECT,
                limit: self.bounds.object,
            });
        }
        self.spend(size)?;
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        self.spool
            .seek(SeekFrom::Start(data))
            .map_err(|source| Problem::Spool { source })?;
        self.inflater
            .run(&mut BufReader::new(&mut self.spool), size, |chunk| {
                bytes.extend_from_slice(chunk);
            })?;
        Ok(bytes)
    }
}

const TOO_DEEP: Problem = Problem::Damaged {
    problem: "deltas are nested too deeply",
};

const MISSING_BASE: Problem = Problem::Damaged {
    problem: "the base of a delta is missing",
};

/// Subject of the error for an object that exceeds the size limit.
pub(super) const ONE_OBJECT: &str = "the bytes of one object";
