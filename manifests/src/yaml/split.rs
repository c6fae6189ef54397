//! Cuts an input into documents the way apimachinery's `YAMLReader` does: on lines, before any YAML is parsed.

use std::borrow::Cow;

use memchr::memmem;

/// One document's text: lines end in `\n` alone, and so does the text.
#[derive(Debug)]
pub(super) struct Chunk<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// The number of lines of the input before it.
    pub(super) line: usize,
}

/// A separator line with more behind it than a comment; holds the number of lines before it.
#[derive(Debug)]
pub(super) struct Junk {
    pub(super) line: usize,
}

/// Splits what is left of an input.
#[derive(Debug)]
pub(super) struct Splitter<'a> {
    rest: &'a [u8],
    /// Lines before `rest`.
    line: usize,
}

impl<'a> Splitter<'a> {
    /// `line` is the number of lines that were read before `input`.
    pub(super) fn new(input: &'a [u8], line: usize) -> Self {
        Self { rest: input, line }
    }

    /// The next document, the separator after it being consumed.
    pub(super) fn next(&mut self) -> Option<Result<Chunk<'a>, Junk>> {
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        // A separator with nothing before it belongs to the document it opens.
        let mut from = 0;
        if self.rest.starts_with(b"---") {
            from = match self.separator(0) {
                Ok(end) => end,
                Err(junk) => return Some(Err(junk)),
            };
        }
        // The search includes the line break before, so that a separator may follow at once.
        let search = self.rest.get(from.saturating_sub(1)..).unwrap_or_default();
        let (text, next) = match memmem::find(search, b"\n---") {
            Some(at) => {
                let end = from.saturating_sub(1) + at + 1;
                match self.separator(end) {
                    Ok(next) => (self.rest.get(..end), next),
                    Err(junk) => return Some(Err(junk)),
                }
            }
            None => (Some(self.rest), self.rest.len()),
        };
        self.line += lines(self.rest.get(..next).unwrap_or_default());
        self.rest = self.rest.get(next..).unwrap_or_default();
        Some(Ok(Chunk {
            text: plain_lines(text.unwrap_or_default()),
            line,
        }))
    }

    /// Checks the separator line that starts at `at`, and returns where the next line starts.
    fn separator(&mut self, at: usize) -> Result<usize, Junk> {
        let line = self.rest.get(at..).unwrap_or_default();
        let end = memchr::memchr(b'\n', line).map_or(line.len(), |end| end + 1);
        let behind = line.get(3..end).unwrap_or_default();
        // Go trims Unicode space; what is not even UTF-8 is junk.
        match str::from_utf8(behind).map(str::trim) {
            Ok(text) if text.is_empty() || text.starts_with('#') => Ok(at + end),
            _ => {
                let line = self.line + lines(self.rest.get(..at).unwrap_or_default());
                self.rest = &[];
                Err(Junk { line })
            }
        }
    }
}

/// The number of line breaks.
pub(super) fn lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// `\r\n` becomes `\n`, and the last line gets its end. Borrows where that changes nothing.
fn plain_lines(text: &[u8]) -> Cow<'_, [u8]> {
    let complete = text.ends_with(b"\n");
    if complete && memmem::find(text, b"\r\n").is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len() + 1);
    for line in text.split_inclusive(|&b| b == b'\n') {
        match line {
            [line @ .., b'\r', b'\n'] | [line @ .., b'\n'] | line => plain.extend_from_slice(line),
        }
        plain.push(b'\n');
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: load-5
    #[test]
    fn documents_split_where_apimachinery_splits() {
        type Case = (
            &'static str,
            &'static [(&'static str, usize)],
            Option<usize>,
        );
        let cases: [Case; 14] = ::tests::rows![
            "", &[] => None;
            "a", &[("a\n", 0)] => None;
            "a\n---\nb\n", &[("a\n", 0), ("b\n", 2)] => None;
            "---\na\n---\n", &[("---\na\n", 0)] => None;
            "---\n---\na", &[("---\n", 0), ("a\n", 2)] => None;
            "---", &[("---\n", 0)] => None;
            "a\n---", &[("a\n", 0)] => None;
            "a\r\n--- \r\nb\rc\r\n\r\r\n", &[("a\n", 0), ("b\rc\n\r\n", 2)] => None;
            "a\n--- # x\n# y\n", &[("a\n", 0), ("# y\n", 2)] => None;
            "a\n\n--- b\nc\n", &[] => Some(2);
            "---a\n", &[] => Some(0);
            "a\n---\nb\n----\n", &[("a\n", 0)] => Some(3);
            "a\n ---\n", &[("a\n ---\n", 0)] => None;
            "\n", &[("\n", 0)] => None;
        ];
        for (input, chunks, junk) in cases {
            let mut splitter = Splitter::new(input.as_bytes(), 0);
            let (mut got, mut stopped) = (Vec::new(), None);
            while let Some(next) = splitter.next() {
                match next {
                    Ok(chunk) => {
                        got.push((String::from_utf8(chunk.text.to_vec()).unwrap(), chunk.line));
                    }
                    Err(junk) => stopped = Some(junk.line),
                }
            }
            let chunks = chunks.iter().map(|&(text, line)| (text.to_owned(), line));
            let chunks: Vec<_> = chunks.collect();
            assert_eq!((got, stopped), (chunks, junk), "{input:?}");
        }
    }
}
