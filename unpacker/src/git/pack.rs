//! A pack, and the objects in it.
//!
//! A pack does not tell the names of its objects: they are computed. Whole objects get theirs while the pack
//! arrives; those that are written as changes to others only when something is looked for, each time with no more
//! in memory than a few objects. Every inflated byte counts against one account, so that no arrangement of deltas
//! costs more than that, and no size is believed before it is compared with its bound.

use std::{
    collections::{HashMap, HashSet},
    io::{BufReader, Seek as _, SeekFrom},
};

use tempfile::SpooledTempFile;

use super::{
    delta,
    error::{Problem, Result},
    id::{Id, Kind},
    inflate::Inflater,
};

/// Where packed bytes wait: in memory, and from some size on in a file without a name.
pub(super) type Spool = SpooledTempFile;

/// How much a repository may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes to transfer.
    pub(super) received: u64,
    /// How many of them stay in memory.
    pub(super) memory: usize,
    /// Objects.
    pub(super) objects: u64,
    /// Bytes of an object that is held in memory: folders, files that are wanted, and bases of deltas.
    pub(super) object: u64,
    /// Bytes that are inflated or made from deltas, all together.
    pub(super) work: u64,
    /// Deltas upon deltas. No git writes more.
    pub(super) depth: usize,
}

impl Bounds {
    /// Generous for any repository that holds bundles; a file has to fit the caller's own limit.
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

/// Where an object stands.
pub(super) struct Entry {
    /// Where it begins; deltas name their bases by that.
    pub(super) start: u64,
    /// Where its compressed bytes begin.
    pub(super) data: u64,
    /// Of its bytes, or of its delta.
    pub(super) size: u64,
    pub(super) form: Form,
    /// Known at once for what is whole.
    pub(super) id: Option<Id>,
}

/// How an object is written.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Whole(Kind),
    /// As a change to another entry, which stands before it.
    On(usize),
    /// As a change to an object of this name, which may stand anywhere.
    OnId(Id),
}

/// Everything that a server has sent.
pub(super) struct Pack {
    bounds: Bounds,
    spool: Spool,
    inflater: Inflater,
    entries: Vec<Entry>,
    ids: HashMap<Id, usize>,
    /// Base and delta, ordered.
    on: Vec<(usize, usize)>,
    on_id: Vec<(Id, usize)>,
    work: u64,
    /// Whether something was left out since it is larger than what may be held.
    has_oversized: bool,
}

/// An object that others are made from.
struct Base {
    index: usize,
    /// Absent when too much would be held; then it is made again.
    bytes: Option<Vec<u8>>,
    waiting: Vec<usize>,
    /// How many deltas it rests on itself.
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
            on: Vec::new(),
            on_id: Vec::new(),
            work: bounds.work,
            has_oversized: false,
        }
    }

    /// The entry that begins at this byte.
    pub(super) fn starting_at(&self, start: u64) -> Option<usize> {
        self.entries
            .binary_search_by_key(&start, |entry| entry.start)
            .ok()
    }

    /// Counts bytes before they are made.
    pub(super) fn charge(&mut self, bytes: u64) -> Result<()> {
        self.work = self.work.checked_sub(bytes).ok_or(Problem::TooLarge {
            what: "its unpacked bytes",
            limit: self.bounds.work,
        })?;
        Ok(())
    }

    /// Adds what was read next.
    pub(super) fn add(&mut self, entry: Entry) {
        let index = self.entries.len();
        match entry.form {
            Form::On(base) => self.on.push((base, index)),
            Form::OnId(base) => self.on_id.push((base, index)),
            Form::Whole(_) => {}
        }
        if let Some(id) = entry.id {
            // The first of two stays: what is known may only rest on what was known before it.
            self.ids.entry(id).or_insert(index);
        }
        self.entries.push(entry);
    }

    /// Nothing is added any more, and everything can be read from here.
    pub(super) fn received(mut self, spool: Spool) -> Self {
        self.spool = spool;
        self.on.sort_unstable();
        self.on_id.sort_unstable();
        self
    }

    /// The object of this name, if it is there and of this kind.
    pub(super) fn read(&mut self, id: Id, kind: Kind) -> Result<Vec<u8>> {
        let missing = || Problem::Missing { id: id.to_string() };
        let index = *self.ids.get(&id).ok_or_else(missing)?;
        let (found, bytes) = self.whole(index)?;
        if found == kind {
            Ok(bytes)
        } else {
            Err(missing())
        }
    }

    /// Of which kind an object is, if it is known.
    pub(super) fn kind(&self, id: Id) -> Option<Kind> {
        let mut index = *self.ids.get(&id)?;
        for _ in 0..=self.bounds.depth {
            index = match self.entries.get(index)?.form {
                Form::Whole(kind) => return Some(kind),
                Form::On(base) => base,
                Form::OnId(base) => *self.ids.get(&base)?,
            };
        }
        None
    }

    /// Whether an object was too large to be named, and might have been any.
    pub(super) fn has_oversized(&self) -> bool {
        self.has_oversized
    }

    /// Names the objects of some kinds that are written as deltas; ends early when all that are looked for are found.
    pub(super) fn resolve(&mut self, kinds: &[Kind], wanted: Option<&HashSet<Id>>) -> Result<()> {
        let mut missing: Option<HashSet<Id>> = wanted.map(|wanted| {
            let known = |id: &&Id| !self.ids.contains_key(*id);
            wanted.iter().filter(known).copied().collect()
        });
        for index in 0..self.entries.len() {
            if missing.as_ref().is_some_and(HashSet::is_empty) {
                return Ok(());
            }
            let Some(Form::Whole(kind)) = self.entries.get(index).map(|entry| entry.form) else {
                continue;
            };
            if kinds.contains(&kind) {
                self.resolve_from(index, kind, &mut missing)?;
            }
        }
        Ok(())
    }

    /// Names everything that rests on one object.
    fn resolve_from(
        &mut self,
        root: usize,
        kind: Kind,
        missing: &mut Option<HashSet<Id>>,
    ) -> Result<()> {
        let id = self.entries.get(root).and_then(|entry| entry.id);
        let id = id.filter(|id| self.ids.get(id) == Some(&root));
        let waiting = self.resting_on(root, id);
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
                None => self.whole(index)?.1,
            };
            let made = self.change(&bytes, next)?;
            if is_last {
                bases.pop();
            } else if let Some(base) = bases.last_mut() {
                base.bytes = Some(bytes);
            }
            let Some(made) = made else { continue };
            let id = Id::of(kind, &made)?;
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
            let waiting = self.resting_on(next, is_new.then_some(id));
            if waiting.is_empty() {
                continue;
            }
            bases.push(Base {
                index: next,
                bytes: Some(made),
                waiting,
                depth,
            });
            self.let_go(&mut bases);
        }
        Ok(())
    }

    /// Keeps what is held within four objects of the largest size; the lowest base is needed last.
    fn let_go(&self, bases: &mut [Base]) {
        let held = |base: &Base| base.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let mut sum: u64 = bases.iter().map(held).sum();
        let limit = self.bounds.object.saturating_mul(4);
        for base in bases {
            if sum <= limit {
                break;
            }
            sum -= held(base);
            base.bytes = None;
        }
    }

    /// The deltas that an object is the base of.
    fn resting_on(&self, index: usize, id: Option<Id>) -> Vec<usize> {
        let from = self.on.partition_point(|(base, _)| *base < index);
        let on = self.on.iter().skip(from);
        let on = on.take_while(|(base, _)| *base == index).map(|(_, at)| *at);
        let mut all: Vec<usize> = on.collect();
        if let Some(id) = id {
            let from = self.on_id.partition_point(|(base, _)| *base < id);
            let on = self.on_id.iter().skip(from);
            all.extend(on.take_while(|(base, _)| *base == id).map(|(_, at)| *at));
        }
        all
    }

    /// An object by its entry: its base, and all changes on the way to it.
    fn whole(&mut self, index: usize) -> Result<(Kind, Vec<u8>)> {
        let mut deltas = Vec::new();
        let mut at = index;
        let kind = loop {
            let form = self.entries.get(at).map(|entry| entry.form);
            let base = match form.ok_or(NOWHERE)? {
                Form::Whole(kind) => break kind,
                Form::On(base) => base,
                Form::OnId(id) => *self.ids.get(&id).ok_or(NOWHERE)?,
            };
            deltas.push(at);
            at = base;
            if deltas.len() > self.bounds.depth {
                return Err(TOO_DEEP);
            }
        };
        let mut bytes = self.inflate(at)?;
        while let Some(delta) = deltas.pop() {
            bytes = self.change(&bytes, delta)?.ok_or(Problem::TooLarge {
                what: ONE_OBJECT,
                limit: self.bounds.object,
            })?;
        }
        Ok((kind, bytes))
    }

    /// What one delta makes of its base, unless that is too large to be held.
    fn change(&mut self, base: &[u8], delta: usize) -> Result<Option<Vec<u8>>> {
        if self.is_oversized(delta) {
            return Ok(None);
        }
        let delta = self.inflate(delta)?;
        let head = delta::Head::read(&delta)?;
        if head.result > self.bounds.object {
            self.has_oversized = true;
            return Ok(None);
        }
        self.charge(head.result)?;
        head.apply(base).map(Some)
    }

    fn is_oversized(&mut self, index: usize) -> bool {
        let size = self.entries.get(index).map_or(0, |entry| entry.size);
        let is_oversized = size > self.bounds.object;
        self.has_oversized |= is_oversized;
        is_oversized
    }

    /// The bytes of an entry, which were inflated once before and had the stated size.
    fn inflate(&mut self, index: usize) -> Result<Vec<u8>> {
        let entry = self.entries.get(index).ok_or(NOWHERE)?;
        let (data, size) = (entry.data, entry.size);
        if size > self.bounds.object {
            return Err(Problem::TooLarge {
                what: ONE_OBJECT,
                limit: self.bounds.object,
            });
        }
        self.charge(size)?;
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        self.spool
            .seek(SeekFrom::Start(data))
            .map_err(|source| Problem::Spool { source })?;
        self.inflater
            .run(&mut BufReader::new(&mut self.spool), size, |part| {
                bytes.extend_from_slice(part);
            })?;
        Ok(bytes)
    }
}

const TOO_DEEP: Problem = Problem::Damaged {
    problem: "deltas rest upon each other too deeply",
};

const NOWHERE: Problem = Problem::Damaged {
    problem: "the base of a delta is nowhere",
};

/// What there is too much of when one object is larger than what may be held.
pub(super) const ONE_OBJECT: &str = "the bytes of one object";
