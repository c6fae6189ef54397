//! Content of a catalog in a file: lines, index, and a footer with their lengths.
//!
//! ```text
//! {"schema":"olm.package",…}\n  …  │  lengths of line, schema, package and name; these three; …  │  32 bytes
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
use crate::{Limits, Meta, ReadError, Source, walk};

/// Start of the footer of a complete file.
const MAGIC: &[u8; 8] = b"rkpkcat1";
const FOOTER: usize = 32;
/// Maximum number of reported documents that cannot be read.
const MAX_FAULTS: usize = 100;
/// Number of bytes of the index that are read at once.
const BUFFER_SIZE: usize = 64 << 10;
/// Maximum number of line ranges in memory per response.
const MAX_RANGES: usize = 4096;

/// Summary of a written catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteSummary {
    /// Number of blobs.
    pub blobs: u64,
    /// Size of their lines in bytes.
    pub bytes: u64,
    /// Skipped documents that cannot be read; at most one hundred.
    pub faults: Vec<ReadError>,
}

/// Filter of a request. Empty fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) schema: String,
    pub(super) package: String,
    pub(super) name: String,
}

/// Lines that match a request. At most [`MAX_RANGES`] ranges are in memory; further ones are found when they are
/// needed.
#[derive(Debug)]
pub(super) struct MatchedLines {
    length: u64,
    ranges: VecDeque<Range<u64>>,
    /// Filter and position for the remaining part of the index; `None` if all ranges were found.
    remaining: Option<(Filter, LinePosition)>,
}

/// Position between two lines, as offsets in the index and in the lines.
#[derive(Debug, Clone, Copy, Default)]
struct LinePosition {
    index: u64,
    line: u64,
}

/// A complete file.
#[derive(Debug)]
pub(super) struct Content {
    file: File,
    lines: u64,
    index: u64,
}

/// Writes the blobs of a catalog. Also returns the SHA-256 of their lines.
pub(super) fn write(
    source: Source<'_>,
    limits: &Limits,
    file: &File,
    directory: &Path,
) -> Result<(WriteSummary, [u8; 32]), Error> {
    let failed = || Error::disk("write a catalog to", directory);
    // The index of a very large catalog would fill the memory.
    let index = tempfile::tempfile_in(directory).map_err(failed())?;
    let mut writer = Writer {
        lines: BufWriter::with_capacity(BUFFER_SIZE, file),
        index: BufWriter::with_capacity(BUFFER_SIZE, &index),
        hasher: Sha256::new(),
        line: Vec::new(),
        written: WriteSummary {
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
            if writer.written.faults.len() < MAX_FAULTS {
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
    written: WriteSummary,
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
        // Release the memory of an enormous blob.
        self.line.shrink_to(1 << 20);
        Ok(())
    }

    fn finish(self, mut index: &File) -> io::Result<(WriteSummary, [u8; 32])> {
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
    /// Opens a file. Returns `None` if it is incomplete or not a content file.
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
        let is_complete = magic == MAGIC && lines.checked_add(index) == Some(end);
        Ok(is_complete.then_some(Self { file, lines, index }))
    }

    /// Returns the size of all lines in bytes.
    pub(super) fn length(&self) -> u64 {
        self.lines
    }

    /// Fills the buffer with the bytes at the offset.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Returns all lines.
    pub(super) fn all(&self) -> MatchedLines {
        MatchedLines::from(0..self.lines)
    }

    /// Returns the lines that match a filter: their total size, and the first ranges.
    pub(super) fn find(&self, filter: Filter) -> io::Result<MatchedLines> {
        if filter == Filter::default() {
            return Ok(self.all());
        }
        let (ranges, mut remaining) = self.scan(&filter, LinePosition::default())?;
        let first = remaining;
        let mut length: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        while let Some(position) = remaining {
            let (more, next) = self.scan(&filter, position)?;
            length += more
                .iter()
                .map(|range| range.end - range.start)
                .sum::<u64>();
            remaining = next;
        }
        let remaining = first.map(|position| (filter, position));
        Ok(MatchedLines {
            length,
            ranges,
            remaining,
        })
    }

    /// Scans the index from a position. Adjacent lines form one range. Also returns the position at which the scan
    /// continues, or `None` at the end.
    fn scan(
        &self,
        filter: &Filter,
        position: LinePosition,
    ) -> io::Result<(VecDeque<Range<u64>>, Option<LinePosition>)> {
        let section = FileSection {
            file: &self.file,
            at: self.lines + position.index,
            remaining: self.index.saturating_sub(position.index),
        };
        let mut index = BufReader::with_capacity(BUFFER_SIZE, section);
        let criteria = [&filter.schema, &filter.package, &filter.name];
        let mut ranges: VecDeque<Range<u64>> = VecDeque::new();
        let LinePosition {
            index: mut read,
            line: mut line_start,
        } = position;
        let mut text = Vec::new();
        while read < self.index {
            if ranges.len() >= MAX_RANGES {
                let position = LinePosition {
                    index: read,
                    line: line_start,
                };
                return Ok((ranges, Some(position)));
            }
            let [line, schema, package, name] = lengths(&mut index)?;
            let all = u64::from(schema) + u64::from(package) + u64::from(name);
            read += 16 + all;
            if read > self.index {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // Texts of different length differ and may be too long for memory.
            let mut is_match = true;
            for (criterion, length) in criteria.iter().zip([schema, package, name]) {
                let has_equal_length = criterion.len() == length as usize;
                is_match &= criterion.is_empty() || has_equal_length;
                if is_match && has_equal_length {
                    text.resize(criterion.len(), 0);
                    index.read_exact(&mut text)?;
                    is_match = text == criterion.as_bytes();
                } else {
                    skip(&mut index, length)?;
                }
            }
            let line_end = line_start + u64::from(line);
            if is_match {
                match ranges.back_mut() {
                    Some(last) if last.end == line_start => last.end = line_end,
                    _ => ranges.push_back(line_start..line_end),
                }
            }
            line_start = line_end;
        }
        // Otherwise, the index does not belong to the lines.
        if line_start != self.lines {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((ranges, None))
    }
}

// === impl MatchedLines ===

impl From<Range<u64>> for MatchedLines {
    fn from(range: Range<u64>) -> Self {
        Self {
            length: range.end - range.start,
            ranges: [range].into(),
            remaining: None,
        }
    }
}

impl MatchedLines {
    /// Returns the total size in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the range to read next. Empty ranges are removed.
    pub(super) fn next(&mut self, content: &Content) -> io::Result<Option<&mut Range<u64>>> {
        while self
            .ranges
            .front()
            .is_some_and(|range| range.start >= range.end)
        {
            self.ranges.pop_front();
        }
        if self.ranges.is_empty()
            && let Some((filter, position)) = self.remaining.take()
        {
            let (ranges, remaining) = content.scan(&filter, position)?;
            self.ranges = ranges;
            self.remaining = remaining.map(|position| (filter, position));
        }
        Ok(self.ranges.front_mut())
    }
}

/// Skips a text of any length.
fn skip(index: &mut BufReader<FileSection<'_>>, length: u32) -> io::Result<()> {
    let length = u64::from(length);
    let buffered = index.buffer().len() as u64;
    if length <= buffered {
        index.consume(usize::try_from(length).unwrap_or(0));
        return Ok(());
    }
    index.consume(index.buffer().len());
    let section = index.get_mut();
    let remaining = length - buffered;
    section.remaining = section
        .remaining
        .checked_sub(remaining)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    section.at += remaining;
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

/// Section of a file that is read concurrently.
struct FileSection<'f> {
    file: &'f File,
    at: u64,
    remaining: u64,
}

impl Read for FileSection<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = usize::try_from(self.remaining)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self
            .file
            .read_at(buffer.get_mut(..limit).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        self.remaining -= read as u64;
        Ok(read)
    }
}
