//! Parser of a pack, while it arrives. Every object is decompressed and hashed once. Only the packed bytes
//! and the offsets of the objects are stored.

use std::io::{self, BufRead, BufReader, Read, Write as _};

use super::{
    error::{Problem, Result},
    inflate::Inflater,
    object_id::{Hasher, Kind, ObjectId},
    pack::{Bounds, Encoding, Entry, Pack, Spool},
};

/// Reads a complete pack.
pub(super) fn receive(from: impl Read, bounds: Bounds) -> Result<Pack> {
    let mut spool_reader = HashingSpool {
        from: BufReader::with_capacity(64 << 10, from),
        spool: tempfile::spooled_tempfile(bounds.memory),
        hasher: Hasher::plain(),
        at: 0,
        limit: bounds.received,
        failed: None,
    };
    let head: [u8; 12] = spool_reader.exact()?;
    let [b'P', b'A', b'C', b'K', 0, 0, 0, 2 | 3, count @ ..] = head else {
        return Err(Problem::Protocol {
            problem: "the response is not a pack",
        });
    };
    let count = u32::from_be_bytes(count);
    if u64::from(count) > bounds.objects {
        return Err(Problem::TooLarge {
            resource: "its objects",
            limit: bounds.objects,
        });
    }
    let mut pack = Pack::new(bounds);
    let mut inflater = Inflater::new();
    for _ in 0..count {
        entry(&mut spool_reader, &mut inflater, &mut pack)?;
    }
    let checksum = {
        spool_reader.check()?;
        std::mem::replace(&mut spool_reader.hasher, Hasher::plain()).finish()?
    };
    let trailer: [u8; ObjectId::LEN] = spool_reader.exact()?;
    if ObjectId::from_bytes(&trailer) != Some(checksum) {
        return Err(Problem::Damaged {
            problem: "pack checksum mismatch",
        });
    }
    if !spool_reader.fill_buf().map_err(interrupted)?.is_empty() {
        return Err(Problem::Protocol {
            problem: "bytes follow the end of the pack",
        });
    }
    spool_reader.check()?;
    Ok(pack.received(spool_reader.spool))
}

fn entry(
    spool_reader: &mut HashingSpool<impl Read>,
    inflater: &mut Inflater,
    pack: &mut Pack,
) -> Result<()> {
    let start = spool_reader.at;
    let (kind, size) = head(spool_reader)?;
    let encoding = match kind {
        1 => Encoding::Full(Kind::Commit),
        2 => Encoding::Full(Kind::Tree),
        3 => Encoding::Full(Kind::Blob),
        4 => Encoding::Full(Kind::Tag),
        6 => {
            let base = start.checked_sub(distance(spool_reader)?);
            let base = base.and_then(|base| pack.starting_at(base));
            Encoding::OffsetDelta(base.ok_or(Problem::Damaged {
                problem: "the base of a delta is missing",
            })?)
        }
        7 => Encoding::RefDelta(
            spool_reader
                .exact()
                .map(|bytes: [u8; ObjectId::LEN]| ObjectId::from_bytes(&bytes))?
                .ok_or(Problem::Damaged {
                    problem: "the base of a delta is missing",
                })?,
        ),
        _ => {
            return Err(Problem::Damaged {
                problem: "an object is of an unknown kind",
            });
        }
    };
    pack.spend(size)?;
    let data = spool_reader.at;
    let mut hasher = match encoding {
        Encoding::Full(kind) => Some(Hasher::object(kind, size)),
        Encoding::OffsetDelta(_) | Encoding::RefDelta(_) => None,
    };
    let run = inflater.run(spool_reader, size, |chunk| {
        if let Some(hasher) = &mut hasher {
            hasher.update(chunk);
        }
    });
    // The data may have ended early because of the limit.
    spool_reader.check()?;
    run?;
    let id = hasher.map(Hasher::finish).transpose()?;
    let entry = Entry {
        start,
        data,
        size,
        encoding,
        id,
    };
    pack.add(entry);
    Ok(())
}

/// Reads the kind and size of an object.
fn head(spool_reader: &mut HashingSpool<impl Read>) -> Result<(u8, u64)> {
    let [first] = spool_reader.exact()?;
    let (kind, mut size) = (first >> 4 & 7, u64::from(first & 15));
    let (mut more, mut shift) = (first & 0x80 != 0, 4);
    while more {
        let [next] = spool_reader.exact()?;
        if shift > 56 {
            return Err(Problem::Damaged {
                problem: "the size of an object is invalid",
            });
        }
        size |= u64::from(next & 0x7f) << shift;
        (more, shift) = (next & 0x80 != 0, shift + 7);
    }
    Ok((kind, size))
}

/// Reads the distance between a delta and its base.
fn distance(spool_reader: &mut HashingSpool<impl Read>) -> Result<u64> {
    let [mut next] = spool_reader.exact()?;
    let mut distance = u64::from(next & 0x7f);
    while next & 0x80 != 0 {
        [next] = spool_reader.exact()?;
        if distance > 1 << 48 {
            return Err(Problem::Damaged {
                problem: "the base of a delta is missing",
            });
        }
        distance = (distance + 1) << 7 | u64::from(next & 0x7f);
    }
    Ok(distance)
}

/// A reader that stores and hashes the bytes that pass through it.
struct HashingSpool<R> {
    from: BufReader<R>,
    spool: Spool,
    hasher: Hasher,
    at: u64,
    limit: u64,
    /// Write error of the spool. `consume` cannot fail, so `check` reports it later.
    failed: Option<io::Error>,
}

impl<R: Read> HashingSpool<R> {
    fn exact<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let read = self.read_exact(&mut bytes).map_err(interrupted);
        self.check()?;
        read.map(|()| bytes)
    }

    fn check(&mut self) -> Result<()> {
        if let Some(source) = self.failed.take() {
            return Err(Problem::Spool { source });
        }
        if self.at > self.limit {
            return Err(Problem::TooLarge {
                resource: "the bytes to transfer",
                limit: self.limit,
            });
        }
        Ok(())
    }
}

impl<R: Read> Read for HashingSpool<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        let (to, from) = (buffer.get_mut(..count), available.get(..count));
        if let (Some(to), Some(from)) = (to, from) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        Ok(count)
    }
}

impl<R: Read> BufRead for HashingSpool<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // The limit is also checked here, because nothing else checks it within one object.
        if self.failed.is_some() || self.at > self.limit {
            return Ok(&[]);
        }
        self.from.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        let bytes = self.from.buffer().get(..count).unwrap_or_default();
        self.hasher.update(bytes);
        if let Err(error) = self.spool.write_all(bytes) {
            self.failed.get_or_insert(error);
        }
        self.at += count as u64;
        self.from.consume(count);
    }
}

fn interrupted(_: io::Error) -> Problem {
    Problem::Disconnected {
        during: "within the pack",
    }
}
