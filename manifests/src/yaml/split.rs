//! Splits an input into documents like apimachinery's `YAMLReader`: by lines, before parsing any YAML.

use std::borrow::Cow;

use memchr::memmem;

/// Text of one document. Lines, including the last one, end with `\n`.
#[derive(Debug)]
pub(super) struct DocumentText<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// Number of lines in the input before the document.
    pub(super) line: usize,
}

/// A separator line with trailing text that is not a comment; contains the number of lines before it.
#[derive(Debug)]
pub(super) struct TrailingSeparatorText {
    pub(super) line: usize,
}

/// Iterator over the documents of the remaining input.
#[derive(Debug)]
pub(super) struct Splitter<'a> {
    rest: &'a [u8],
    /// Number of lines before `rest`.
    line: usize,
}

impl<'a> Splitter<'a> {
    /// Creates a splitter; `line` is the number of lines before `input`.
    pub(super) fn new(input: &'a [u8], line: usize) -> Self {
        Self { rest: input, line }
    }

    /// Returns the next document, and consumes the separator after it.
    pub(super) fn next(&mut self) -> Option<Result<DocumentText<'a>, TrailingSeparatorText>> {
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        // A separator without preceding text belongs to the document that it opens.
        let mut from = 0;
        if self.rest.starts_with(b"---") {
            from = match self.separator(0) {
                Ok(end) => end,
                Err(trailing) => return Some(Err(trailing)),
            };
        }
        // The search includes the preceding line break, so that a separator may follow immediately.
        let search = self.rest.get(from.saturating_sub(1)..).unwrap_or_default();
        let (text, next) = match memmem::find(search, b"\n---") {
            Some(at) => {
                let end = from.saturating_sub(1) + at + 1;
                match self.separator(end) {
                    Ok(next) => (self.rest.get(..end), next),
                    Err(trailing) => return Some(Err(trailing)),
                }
            }
            None => (Some(self.rest), self.rest.len()),
        };
        self.line += lines(self.rest.get(..next).unwrap_or_default());
        self.rest = self.rest.get(next..).unwrap_or_default();
        Some(Ok(DocumentText {
            text: plain_lines(text.unwrap_or_default()),
            line,
        }))
    }

    /// Checks the separator line that starts at `at`, and returns the offset of the next line.
    fn separator(&mut self, at: usize) -> Result<usize, TrailingSeparatorText> {
        let line = self.rest.get(at..).unwrap_or_default();
        let end = memchr::memchr(b'\n', line).map_or(line.len(), |end| end + 1);
        let trailing = line.get(3..end).unwrap_or_default();
        // Go trims Unicode space; bytes that are not UTF-8 are trailing text.
        match str::from_utf8(trailing).map(str::trim) {
            Ok(text) if text.is_empty() || text.starts_with('#') => Ok(at + end),
            _ => {
                let line = self.line + lines(self.rest.get(..at).unwrap_or_default());
                self.rest = &[];
                Err(TrailingSeparatorText { line })
            }
        }
    }
}

/// Returns the number of line breaks.
pub(super) fn lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// Replaces `\r\n` by `\n`, and completes the last line. Borrows if nothing changes.
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
    fn documents_are_split_as_in_apimachinery() {
        for (input, chunks, junk) in ::tests::rows![
            "", &[][..] => None;
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
        ] {
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
            let chunk = |&(text, line): &(&str, usize)| (text.to_owned(), line);
            let chunks: Vec<_> = chunks.iter().map(chunk).collect();
            assert_eq!((got, stopped), (chunks, junk), "{input:?}");
        }
    }
}
