//! A catalog's content in a file: its lines, then the index, then where both end.
//!
//! ```text
//!  {"schema":"olm.package",…}\n  …  │  lengths of line, schema, package and name; these three; …  │  32 bytes
//! ```

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write},
    ops::{ControlFlow, Range},
    os::unix::fs::FileExt as _,
    path::Path,
};

use sha2::{Digest as _, Sha256};

use super::Error;
use crate::{Fault, Limits, Meta, Source, walk};

/// What begins the last bytes of a file that is whole.
const MAGIC: &[u8; 8] = b"rkpkcat1";
const FOOTER: usize = 32;
/// How many documents that cannot be read are told of.
const FAULTS: usize = 100;
/// How much of the index is read at once.
const BUFFER: usize = 64 << 10;
/// How many ranges of lines are kept for an answer.
const RANGES: usize = 4096;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Blobs.
    pub blobs: u64,
    /// Bytes of their lines.
    pub bytes: u64,
    /// Documents that cannot be read and are left out, the first hundred of them.
    pub faults: Vec<Fault>,
}

/// What a request wants of a catalog. What is empty does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) schema: String,
    pub(super) package: String,
    pub(super) name: String,
}

/// Lines that a request gets. Of very many ranges the first are kept, and the others found when it is their turn.
#[derive(Debug)]
pub(super) struct Found {
    length: u64,
    ranges: VecDeque<Range<u64>>,
    /// For what the rest of the index is to be read, and from where on.
    rest: Option<(Filter, Place)>,
}

/// A place between two lines: in the index, and in the lines.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    index: u64,
    line: u64,
}

/// A file that is whole.
#[derive(Debug)]
pub(super) struct Content {
    file: File,
    lines: u64,
    index: u64,
}

/// Writes a catalog's blobs, and tells the SHA-256 of their lines.
pub(super) fn write(
    source: Source<'_>,
    limits: &Limits,
    file: &File,
    folder: &Path,
) -> Result<(Written, [u8; 32]), Error> {
    let failed = || Error::disk("write a catalog to", folder);
    // Of the largest catalogs the index alone would fill memory.
    let index = tempfile::tempfile_in(folder).map_err(failed())?;
    let mut writer = Writer {
        lines: BufWriter::with_capacity(BUFFER, file),
        index: BufWriter::with_capacity(BUFFER, &index),
        hasher: Sha256::new(),
        line: Vec::new(),
        written: Written {
            blobs: 0,
            bytes: 0,
            faults: Vec::new(),
        },
    };
    let flow = walk(source, limits, |meta| match meta {
        Ok(meta) => match writer.add(&meta) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        },
        Err(fault) => {
            if writer.written.faults.len() < FAULTS {
                writer.written.faults.push(fault);
            }
            ControlFlow::Continue(())
        }
    })?;
    if let ControlFlow::Break(error) = flow {
        return Err(failed()(error));
    }
    writer.finish(&index).map_err(failed())
}

struct Writer<'f> {
    lines: BufWriter<&'f File>,
    index: BufWriter<&'f File>,
    hasher: Sha256,
    line: Vec<u8>,
    written: Written,
}

impl Writer<'_> {
    fn add(&mut self, meta: &Meta<'_>) -> io::Result<()> {
        self.line.clear();
        meta.root.sorted(&mut self.line);
        self.line.push(b'\n');
        self.hasher.update(&self.line);
        self.lines.write_all(&self.line)?;
        let texts = [&*meta.schema, &*meta.package, &*meta.name];
        let lengths = [
            self.line.len(),
            texts[0].len(),
            texts[1].len(),
            texts[2].len(),
        ];
        for length in lengths {
            let length = u32::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
            self.index.write_all(&length.to_le_bytes())?;
        }
        for text in texts {
            self.index.write_all(text.as_bytes())?;
        }
        self.written.blobs += 1;
        self.written.bytes += self.line.len() as u64;
        // What an enormous blob needed is not kept for small ones.
        self.line.shrink_to(1 << 20);
        Ok(())
    }

    fn finish(self, mut index: &File) -> io::Result<(Written, [u8; 32])> {
        let Self {
            mut lines,
            index: mut indexed,
            hasher,
            written,
            ..
        } = self;
        indexed.flush()?;
        drop(indexed);
        let length = index.seek(SeekFrom::End(0))?;
        index.seek(SeekFrom::Start(0))?;
        io::copy(&mut index, &mut lines)?;
        let hash: [u8; 32] = hasher.finalize().into();
        lines.write_all(MAGIC)?;
        for number in [written.bytes, length, written.blobs] {
            lines.write_all(&number.to_le_bytes())?;
        }
        lines.flush()?;
        lines.get_ref().sync_all()?;
        Ok((written, hash))
    }
}

// === impl Content ===

impl Content {
    /// Opens a file; `None` if it is torn, or something else.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let Some(end) = length.checked_sub(FOOTER as u64) else {
            return Ok(None);
        };
        let mut footer = [0; FOOTER];
        file.read_exact_at(&mut footer, end)?;
        let (magic, numbers) = footer.split_at(MAGIC.len());
        let mut numbers = numbers
            .chunks_exact(8)
            .filter_map(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes);
        let (Some(lines), Some(index)) = (numbers.next(), numbers.next()) else {
            return Ok(None);
        };
        let is_whole = magic == MAGIC && lines.checked_add(index) == Some(end);
        Ok(is_whole.then_some(Self { file, lines, index }))
    }

    /// The bytes of all lines.
    pub(super) fn length(&self) -> u64 {
        self.lines
    }

    /// Fills a part of a buffer with what stands there.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// All lines.
    pub(super) fn all(&self) -> Found {
        Found::from(0..self.lines)
    }

    /// The lines that a filter lets through: how many bytes they are, and where the first of them are.
    pub(super) fn find(&self, filter: Filter) -> io::Result<Found> {
        if filter == Filter::default() {
            return Ok(self.all());
        }
        let (ranges, mut rest) = self.scan(&filter, Place::default())?;
        let first = rest;
        let mut length: u64 = ranges.iter().map(|it| it.end - it.start).sum();
        while let Some(place) = rest {
            let (more, next) = self.scan(&filter, place)?;
            length += more.iter().map(|it| it.end - it.start).sum::<u64>();
            rest = next;
        }
        let rest = first.map(|place| (filter, place));
        Ok(Found {
            length,
            ranges,
            rest,
        })
    }

    /// Goes on behind a place: where the next lines are, those beside each other in one range, and whether there may be
    /// more of them.
    fn scan(
        &self,
        filter: &Filter,
        place: Place,
    ) -> io::Result<(VecDeque<Range<u64>>, Option<Place>)> {
        let part = Part {
            file: &self.file,
            at: self.lines + place.index,
            left: self.index.saturating_sub(place.index),
        };
        let mut index = BufReader::with_capacity(BUFFER, part);
        let wanted = [&filter.schema, &filter.package, &filter.name];
        let mut found: VecDeque<Range<u64>> = VecDeque::new();
        let Place {
            index: mut read,
            line: mut line_start,
        } = place;
        let mut text = Vec::new();
        while read < self.index {
            if found.len() >= RANGES {
                let place = Place {
                    index: read,
                    line: line_start,
                };
                return Ok((found, Some(place)));
            }
            let [line, schema, package, name] = lengths(&mut index)?;
            let all = u64::from(schema) + u64::from(package) + u64::from(name);
            read += 16 + all;
            if read > self.index {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // A text of another length is another one, and may be too long for memory.
            let mut is_wanted = true;
            for (wanted, length) in wanted.iter().zip([schema, package, name]) {
                let may_be = wanted.len() == length as usize;
                is_wanted &= wanted.is_empty() || may_be;
                if is_wanted && may_be {
                    text.resize(wanted.len(), 0);
                    index.read_exact(&mut text)?;
                    is_wanted = text == wanted.as_bytes();
                } else {
                    skip(&mut index, length)?;
                }
            }
            let line_end = line_start + u64::from(line);
            if is_wanted {
                match found.back_mut() {
                    Some(last) if last.end == line_start => last.end = line_end,
                    _ => found.push_back(line_start..line_end),
                }
            }
            line_start = line_end;
        }
        // Then nothing behind the lines was taken for one.
        if line_start != self.lines {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((found, None))
    }
}

// === impl Found ===

impl From<Range<u64>> for Found {
    fn from(range: Range<u64>) -> Self {
        Self {
            length: range.end - range.start,
            ranges: [range].into(),
            rest: None,
        }
    }
}

impl Found {
    /// How many bytes there are in all.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The range that is being read; it goes when it is empty.
    pub(super) fn next(&mut self, content: &Content) -> io::Result<Option<&mut Range<u64>>> {
        while self.ranges.front().is_some_and(|it| it.start >= it.end) {
            self.ranges.pop_front();
        }
        if self.ranges.is_empty()
            && let Some((filter, place)) = self.rest.take()
        {
            let (ranges, rest) = content.scan(&filter, place)?;
            self.ranges = ranges;
            self.rest = rest.map(|place| (filter, place));
        }
        Ok(self.ranges.front_mut())
    }
}

/// Passes over a text, however long it is.
fn skip(index: &mut BufReader<Part<'_>>, length: u32) -> io::Result<()> {
    let length = u64::from(length);
    let buffered = index.buffer().len() as u64;
    if length <= buffered {
        index.consume(usize::try_from(length).unwrap_or(0));
        return Ok(());
    }
    index.consume(index.buffer().len());
    let part = index.get_mut();
    let left = length - buffered;
    part.left = part
        .left
        .checked_sub(left)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    part.at += left;
    Ok(())
}

fn lengths(index: &mut impl Read) -> io::Result<[u32; 4]> {
    let mut bytes = [0; 16];
    index.read_exact(&mut bytes)?;
    let mut lengths = [0; 4];
    for (length, bytes) in lengths.iter_mut().zip(bytes.chunks_exact(4)) {
        *length = bytes.try_into().map_or(0, u32::from_le_bytes);
    }
    Ok(lengths)
}

/// A part of a file that others read at the same time.
struct Part<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self
            .file
            .read_at(buffer.get_mut(..most).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}
