//! The first pass over a pack, while it arrives: everything is inflated and hashed once, and nothing kept but the
//! packed bytes and where in them each object begins.

use std::io::{self, BufRead, BufReader, Read, Write as _};

use super::{
    error::{Problem, Result},
    id::{Hasher, Id, Kind},
    inflate::Inflater,
    pack::{Bounds, Entry, Form, Pack, Spool},
};

/// Reads a pack to its last byte.
pub(super) fn receive(from: impl Read, bounds: Bounds) -> Result<Pack> {
    let mut tap = Tap {
        from: BufReader::with_capacity(64 << 10, from),
        spool: tempfile::spooled_tempfile(bounds.memory),
        hasher: Hasher::plain(),
        at: 0,
        limit: bounds.received,
        failed: None,
    };
    let head: [u8; 12] = tap.exact()?;
    let [b'P', b'A', b'C', b'K', 0, 0, 0, 2 | 3, count @ ..] = head else {
        return Err(Problem::Protocol {
            problem: "what it sends is no pack",
        });
    };
    let count = u32::from_be_bytes(count);
    if u64::from(count) > bounds.objects {
        return Err(Problem::TooLarge {
            what: "its objects",
            limit: bounds.objects,
        });
    }
    let mut pack = Pack::new(bounds);
    let mut inflater = Inflater::new();
    for _ in 0..count {
        entry(&mut tap, &mut inflater, &mut pack)?;
    }
    let stated = {
        tap.check()?;
        std::mem::replace(&mut tap.hasher, Hasher::plain()).finish()?
    };
    let trailer: [u8; Id::LEN] = tap.exact()?;
    if Id::from_bytes(&trailer) != Some(stated) {
        return Err(Problem::Damaged {
            problem: "the checksum of the pack is wrong",
        });
    }
    if !tap.fill_buf().map_err(interrupted)?.is_empty() {
        return Err(Problem::Protocol {
            problem: "bytes follow the end of the pack",
        });
    }
    tap.check()?;
    Ok(pack.received(tap.spool))
}

fn entry(tap: &mut Tap<impl Read>, inflater: &mut Inflater, pack: &mut Pack) -> Result<()> {
    let start = tap.at;
    let (kind, size) = head(tap)?;
    let form = match kind {
        1 => Form::Whole(Kind::Commit),
        2 => Form::Whole(Kind::Tree),
        3 => Form::Whole(Kind::Blob),
        4 => Form::Whole(Kind::Tag),
        6 => {
            let base = start.checked_sub(distance(tap)?);
            let base = base.and_then(|base| pack.starting_at(base));
            Form::On(base.ok_or(Problem::Damaged {
                problem: "the base of a delta is nowhere",
            })?)
        }
        7 => Form::OnId(
            tap.exact()
                .map(|bytes: [u8; Id::LEN]| Id::from_bytes(&bytes))?
                .ok_or(Problem::Damaged {
                    problem: "the base of a delta is nowhere",
                })?,
        ),
        _ => {
            return Err(Problem::Damaged {
                problem: "an object is of an unknown kind",
            });
        }
    };
    pack.charge(size)?;
    let data = tap.at;
    let mut hasher = match form {
        Form::Whole(kind) => Some(Hasher::object(kind, size)),
        Form::On(_) | Form::OnId(_) => None,
    };
    let run = inflater.run(tap, size, |part| {
        if let Some(hasher) = &mut hasher {
            hasher.update(part);
        }
    });
    // What ended too early may have been ended by the limit.
    tap.check()?;
    run?;
    let id = hasher.map(Hasher::finish).transpose()?;
    let entry = Entry {
        start,
        data,
        size,
        form,
        id,
    };
    pack.add(entry);
    Ok(())
}

/// Kind and size of an object.
fn head(tap: &mut Tap<impl Read>) -> Result<(u8, u64)> {
    let [first] = tap.exact()?;
    let (kind, mut size) = (first >> 4 & 7, u64::from(first & 15));
    let (mut more, mut shift) = (first & 0x80 != 0, 4);
    while more {
        let [next] = tap.exact()?;
        if shift > 56 {
            return Err(Problem::Damaged {
                problem: "the size of an object is no number",
            });
        }
        size |= u64::from(next & 0x7f) << shift;
        (more, shift) = (next & 0x80 != 0, shift + 7);
    }
    Ok((kind, size))
}

/// How far before a delta its base begins.
fn distance(tap: &mut Tap<impl Read>) -> Result<u64> {
    let [mut next] = tap.exact()?;
    let mut distance = u64::from(next & 0x7f);
    while next & 0x80 != 0 {
        [next] = tap.exact()?;
        if distance > 1 << 48 {
            return Err(Problem::Damaged {
                problem: "the base of a delta is nowhere",
            });
        }
        distance = (distance + 1) << 7 | u64::from(next & 0x7f);
    }
    Ok(distance)
}

/// Keeps and hashes what is read through it.
struct Tap<R> {
    from: BufReader<R>,
    spool: Spool,
    hasher: Hasher,
    at: u64,
    limit: u64,
    /// `consume` cannot fail; what failed there is told at the next chance.
    failed: Option<io::Error>,
}

impl<R: Read> Tap<R> {
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
                what: "the bytes to transfer",
                limit: self.limit,
            });
        }
        Ok(())
    }
}

impl<R: Read> Read for Tap<R> {
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

impl<R: Read> BufRead for Tap<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // The limit ends endless streams here as well: within one object nobody else looks.
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
    Problem::CutShort {
        during: "within the pack",
    }
}
