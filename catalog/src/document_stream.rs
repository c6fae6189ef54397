//! Splitter of files into documents. A file is split while it is read, so only one document is in memory at a time.

#[cfg(test)]
mod tests;

use std::{
    io::{self, Read},
    ops::Range,
};

use memchr::{memchr, memchr_iter, memchr2, memmem};

/// Number of bytes that are read at once.
const CHUNK_SIZE: usize = 256 << 10;
/// Number of bytes in which Go looks for the first character, to distinguish JSON from YAML.
const SNIFF_SIZE: usize = 4096;

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Reasons why the remaining file cannot be read.
#[derive(Debug)]
pub(crate) enum StreamError {
    Read(io::Error),
    /// A document exceeds this size in bytes.
    TooLarge(usize),
    /// More than a comment follows `---`.
    Separator(String),
}

/// A file that is being split.
#[derive(Debug)]
pub(crate) struct DocumentStream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// End of the last document in the buffer.
    from: usize,
    is_complete: bool,
    format: Option<Format>,
    /// Number of lines before `from`.
    lines: usize,
    limit: usize,
}

/// A document in the buffer.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) format: Format,
    range: Range<usize>,
    /// First line of the document, starting at 1.
    pub(crate) line: usize,
}

// === impl DocumentStream ===

impl<R: Read> DocumentStream<R> {
    /// Creates a stream whose documents have at most `limit` bytes.
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

    /// Returns the text of the last document.
    pub(crate) fn text(&self, document: &Document) -> &[u8] {
        self.buffer.get(document.range.clone()).unwrap_or_default()
    }

    /// Continues as YAML, starting at a document that is not valid JSON.
    pub(crate) fn reread_as_yaml(&mut self, document: &Document) {
        self.format = Some(Format::Yaml);
        self.from = document.range.start;
        self.lines = document.line - 1;
    }

    /// Returns the next document.
    pub(crate) fn next(&mut self) -> Result<Option<Document>, StreamError> {
        let format = match self.format {
            Some(format) => format,
            None => self.sniff()?,
        };
        match format {
            Format::Json => self.next_json(),
            Format::Yaml => self.next_yaml(),
        }
    }

    fn sniff(&mut self) -> Result<Format, StreamError> {
        while self.buffer.len() < SNIFF_SIZE && self.fill()? {}
        let start = self.buffer.get(..SNIFF_SIZE).unwrap_or(&self.buffer);
        let format = if start.trim_ascii_start().starts_with(b"{") {
            Format::Json
        } else {
            Format::Yaml
        };
        self.format = Some(format);
        Ok(format)
    }

    fn next_json(&mut self) -> Result<Option<Document>, StreamError> {
        loop {
            let rest = self.buffer.get(self.from..).unwrap_or_default();
            let space = rest.len() - rest.trim_ascii_start().len();
            self.skip(self.from + space);
            if self.from < self.buffer.len() {
                break;
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
        let mut scanner = JsonScanner::default();
        let mut at = self.from;
        loop {
            match scanner.end(self.buffer.get(at..).unwrap_or_default()) {
                Some(end) => {
                    let end = at + end;
                    return Ok(Some(self.take_document(Format::Json, self.from..end, end)));
                }
                None => at = self.buffer.len(),
            }
            let previous = self.from;
            if !self.fill()? {
                let end = self.buffer.len();
                return Ok(Some(self.take_document(Format::Json, self.from..end, end)));
            }
            at -= previous - self.from;
        }
    }

    /// Returns the next YAML document. Documents end at lines that start with `---`; empty documents are skipped.
    fn next_yaml(&mut self) -> Result<Option<Document>, StreamError> {
        loop {
            // A separator without preceding content belongs to the next document.
            while self.buffer.len() - self.from < 4 && self.fill()? {}
            let rest = self.buffer.get(self.from..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(None);
            }
            if !rest.starts_with(b"---") {
                break;
            }
            let end = self.separator(0)?;
            self.skip(self.from + end);
        }
        let mut searched = 0;
        loop {
            let rest = self.buffer.get(self.from..).unwrap_or_default();
            let unseen = rest.get(searched..).unwrap_or_default();
            if let Some(offset) = memmem::find(unseen, b"\n---") {
                let end = searched + offset + 1;
                let behind = self.separator(end)?;
                let from = self.from;
                return Ok(Some(self.take_document(
                    Format::Yaml,
                    from..from + end,
                    from + behind,
                )));
            }
            searched = rest.len().saturating_sub(3);
            if !self.fill()? {
                let end = self.buffer.len();
                return Ok(Some(self.take_document(Format::Yaml, self.from..end, end)));
            }
        }
    }

    /// Checks the separator at offset `at` from `from`. Returns the offset of the next line.
    fn separator(&mut self, at: usize) -> Result<usize, StreamError> {
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
        // Go trims Unicode white space. Invalid UTF-8 is an error.
        match std::str::from_utf8(behind).map(str::trim) {
            Ok(text) if text.is_empty() || text.starts_with('#') => Ok(at + length),
            _ => {
                let text = String::from_utf8_lossy(behind);
                let text = text.trim().chars().take(100).collect();
                self.skip(self.from + at);
                Err(StreamError::Separator(text))
            }
        }
    }

    fn take_document(&mut self, format: Format, range: Range<usize>, behind: usize) -> Document {
        let line = self.lines + 1;
        self.skip(behind);
        Document {
            format,
            range,
            line,
        }
    }

    /// Advances to an offset and counts the lines.
    fn skip(&mut self, to: usize) {
        let passed = self.buffer.get(self.from..to).unwrap_or_default();
        self.lines += memchr_iter(b'\n', passed).count();
        self.from = to;
    }

    /// Returns the current line, starting at 1.
    pub(crate) fn line(&self) -> usize {
        self.lines + 1
    }

    /// Reads more data and discards the documents before `from`. Returns `false` at the end.
    fn fill(&mut self) -> Result<bool, StreamError> {
        if self.is_complete {
            return Ok(false);
        }
        self.buffer.drain(..self.from);
        self.from = 0;
        if self.buffer.len() > self.limit {
            return Err(StreamError::TooLarge(self.limit));
        }
        let before = self.buffer.len();
        // Step sizes grow with the document; otherwise the run time would be quadratic.
        let step = CHUNK_SIZE.max(before / 2) as u64;
        let read = (&mut self.reader).take(step).read_to_end(&mut self.buffer);
        match read.map_err(StreamError::Read)? {
            0 => self.is_complete = true,
            _ => return Ok(true),
        }
        Ok(before < self.buffer.len())
    }
}

/// Scanner for the end of a JSON value. Its content is validated later.
#[derive(Debug, Default)]
struct JsonScanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// True within a number or literal, which extends to the next white space or structural character.
    is_plain: bool,
}

// === impl JsonScanner ===

impl JsonScanner {
    /// Returns the end of the value in these bytes, if they contain it.
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
