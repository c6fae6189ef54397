//! Cuts a file into documents while it is read, so that only one of them is in memory at a time.

#[cfg(test)]
mod tests;

use std::{
    io::{self, Read},
    ops::Range,
};

use memchr::{memchr, memchr_iter, memchr2, memmem};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// Where Go looks for the first character to tell JSON from YAML.
const SNIFF: usize = 4096;

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Why the rest of a file cannot be read.
#[derive(Debug)]
pub(crate) enum Stop {
    Read(io::Error),
    /// A document is larger than this.
    TooLarge(usize),
    /// More than a comment behind `---`.
    Separator(String),
}

/// A file on its way.
#[derive(Debug)]
pub(crate) struct Stream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// What has been handed over ends here.
    from: usize,
    is_complete: bool,
    format: Option<Format>,
    /// Lines before `from`.
    lines: usize,
    limit: usize,
}

/// A document in the buffer.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) format: Format,
    range: Range<usize>,
    /// Its first line, from 1.
    pub(crate) line: usize,
}

// === impl Stream ===

impl<R: Read> Stream<R> {
    /// Documents are at most `limit` bytes long.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            from: 0,
            is_complete: false,
            format: None,
            lines: 0,
            limit,
        }
    }

    /// The text of a document that was cut last.
    pub(crate) fn text(&self, cut: &Cut) -> &[u8] {
        self.buffer.get(cut.range.clone()).unwrap_or_default()
    }

    /// Reads on as YAML, from a document that is no JSON after all.
    pub(crate) fn reread_as_yaml(&mut self, cut: &Cut) {
        self.format = Some(Format::Yaml);
        self.from = cut.range.start;
        self.lines = cut.line - 1;
    }

    /// The next document.
    pub(crate) fn next(&mut self) -> Result<Option<Cut>, Stop> {
        let format = match self.format {
            Some(format) => format,
            None => self.sniff()?,
        };
        match format {
            Format::Json => self.next_json(),
            Format::Yaml => self.next_yaml(),
        }
    }

    fn sniff(&mut self) -> Result<Format, Stop> {
        while self.buffer.len() < SNIFF && self.fill()? {}
        let start = self.buffer.get(..SNIFF).unwrap_or(&self.buffer);
        let format = if start.trim_ascii_start().starts_with(b"{") {
            Format::Json
        } else {
            Format::Yaml
        };
        self.format = Some(format);
        Ok(format)
    }

    fn next_json(&mut self) -> Result<Option<Cut>, Stop> {
        loop {
            let rest = self.buffer.get(self.from..).unwrap_or_default();
            let space = rest.len() - rest.trim_ascii_start().len();
            self.pass(self.from + space);
            if self.from < self.buffer.len() {
                break;
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
        let mut scan = Scan::default();
        let mut at = self.from;
        loop {
            match scan.end(self.buffer.get(at..).unwrap_or_default()) {
                Some(end) => {
                    let end = at + end;
                    return Ok(Some(self.cut(Format::Json, self.from..end, end)));
                }
                None => at = self.buffer.len(),
            }
            let gone = self.from;
            if !self.fill()? {
                let end = self.buffer.len();
                return Ok(Some(self.cut(Format::Json, self.from..end, end)));
            }
            at -= gone - self.from;
        }
    }

    /// Documents end at lines that start with `---`; one of no lines is none.
    fn next_yaml(&mut self) -> Result<Option<Cut>, Stop> {
        loop {
            // A separator with nothing before it belongs to the document behind it.
            while self.buffer.len() - self.from < 4 && self.fill()? {}
            let rest = self.buffer.get(self.from..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(None);
            }
            if !rest.starts_with(b"---") {
                break;
            }
            let end = self.separator(0)?;
            self.pass(self.from + end);
        }
        let mut searched = 0;
        loop {
            let rest = self.buffer.get(self.from..).unwrap_or_default();
            let unseen = rest.get(searched..).unwrap_or_default();
            if let Some(found) = memmem::find(unseen, b"\n---") {
                let end = searched + found + 1;
                let behind = self.separator(end)?;
                let from = self.from;
                return Ok(Some(self.cut(
                    Format::Yaml,
                    from..from + end,
                    from + behind,
                )));
            }
            searched = rest.len().saturating_sub(3);
            if !self.fill()? {
                let end = self.buffer.len();
                return Ok(Some(self.cut(Format::Yaml, self.from..end, end)));
            }
        }
    }

    /// Checks the separator that starts so many bytes behind `from`, and returns where the line behind it starts.
    fn separator(&mut self, at: usize) -> Result<usize, Stop> {
        let mut length = 0;
        loop {
            let line = self.buffer.get(self.from + at..).unwrap_or_default();
            let unseen = line.get(length..).unwrap_or_default();
            if let Some(end) = memchr(b'\n', unseen) {
                length += end + 1;
                break;
            }
            length = line.len();
            if !self.fill()? {
                break;
            }
        }
        let line = self.buffer.get(self.from + at..).unwrap_or_default();
        let behind = line.get(3..length).unwrap_or_default();
        // Go trims Unicode space; what is not even UTF-8 is junk.
        match std::str::from_utf8(behind).map(str::trim) {
            Ok(text) if text.is_empty() || text.starts_with('#') => Ok(at + length),
            _ => {
                let text = String::from_utf8_lossy(behind);
                let text = text.trim().chars().take(100).collect();
                self.pass(self.from + at);
                Err(Stop::Separator(text))
            }
        }
    }

    fn cut(&mut self, format: Format, range: Range<usize>, behind: usize) -> Cut {
        let line = self.lines + 1;
        self.pass(behind);
        Cut {
            format,
            range,
            line,
        }
    }

    /// Moves on, and counts lines.
    fn pass(&mut self, to: usize) {
        let passed = self.buffer.get(self.from..to).unwrap_or_default();
        self.lines += memchr_iter(b'\n', passed).count();
        self.from = to;
    }

    /// The line that is read, from 1.
    pub(crate) fn line(&self) -> usize {
        self.lines + 1
    }

    /// Reads more; what was handed over goes. `false` at the end.
    fn fill(&mut self) -> Result<bool, Stop> {
        if self.is_complete {
            return Ok(false);
        }
        self.buffer.drain(..self.from);
        self.from = 0;
        if self.buffer.len() > self.limit {
            return Err(Stop::TooLarge(self.limit));
        }
        let before = self.buffer.len();
        // A large document in large steps, or reading it would take the square of its length.
        let step = CHUNK.max(before / 2) as u64;
        let read = (&mut self.reader).take(step).read_to_end(&mut self.buffer);
        match read.map_err(Stop::Read)? {
            0 => self.is_complete = true,
            _ => return Ok(true),
        }
        Ok(before < self.buffer.len())
    }
}

/// Looks for the end of a JSON value; what is in it is checked later.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// A value that is no object, array or string goes up to the next space or structure.
    is_plain: bool,
}

// === impl Scan ===

impl Scan {
    /// Where the value ends within these bytes, if it does.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.in_string {
                if std::mem::take(&mut self.is_escaped) {
                    at += 1;
                    continue;
                }
                at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
                if bytes.get(at) == Some(&b'\\') {
                    self.is_escaped = true;
                    at += 1;
                    continue;
                }
                self.in_string = false;
                at += 1;
                if self.depth == 0 {
                    return Some(at);
                }
                continue;
            }
            match byte {
                b'"' | b'{' | b'[' if self.is_plain => return Some(at),
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => return Some(at),
                _ if self.depth == 0 => self.is_plain = true,
                _ => {}
            }
            at += 1;
        }
        None
    }
}
