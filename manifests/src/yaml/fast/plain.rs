//! Plain scalars, and keys without quotes.

use std::borrow::Cow;

use super::Reader;

/// Result of parsing a scalar at the start of a node.
pub(super) enum Plain<'a> {
    /// A key; the parser is after its colon.
    Key(&'a str),
    Scalar(Cow<'a, str>),
}

impl<'a> Reader<'a> {
    /// Parses a plain scalar, or a key. A scalar continues on lines that are indented by `indent` or more.
    pub(super) fn plain(&mut self, indent: usize) -> Option<Plain<'a>> {
        if !starts_plain(self.byte(), self.byte_at(1)) {
            return None;
        }
        let first = self.plain_line()?;
        if self.byte() == b':' {
            self.pos += 1;
            return (first.len() <= 1000).then_some(Plain::Key(first));
        }
        let mut text = Cow::Borrowed(first);
        let comment = self.byte() == b'#';
        loop {
            // Count line ends up to the next line with content.
            let mut breaks = 0;
            if comment {
                self.skip_to_token()?;
            } else {
                while self.byte() == b'\n' {
                    self.pos += 1;
                    self.line = self.pos;
                    breaks += 1;
                    self.skip_spaces();
                }
                if self.byte() == b'\t' {
                    return None;
                }
            }
            if comment || self.at_end() || self.column() < indent || self.byte() == b'#' {
                self.skip_to_token()?;
                return Some(Plain::Scalar(text));
            }
            let line = self.plain_line()?;
            // A key cannot start on an earlier line. The complete parser handles comments.
            if self.byte() != b'\n' {
                return None;
            }
            let text = text.to_mut();
            match breaks {
                1 => text.push(' '),
                breaks => text.extend(std::iter::repeat_n('\n', breaks - 1)),
            }
            text.push_str(line);
        }
    }

    /// Parses one line of a plain scalar, up to its end, a colon or a comment, without the preceding space.
    fn plain_line(&mut self) -> Option<&'a str> {
        let start = self.pos;
        loop {
            self.pos += memchr::memchr3(b'\n', b':', b'#', self.remaining())?;
            match self.byte() {
                b'\n' => break,
                b':' if matches!(self.byte_at(1), b' ' | b'\n') => break,
                // A `#` after a space ends the scalar; after a tab, the complete parser decides.
                b'#' if matches!(self.bytes.get(self.pos - 1), Some(b' ')) => break,
                b':' if self.byte_at(1) == b'\t' => return None,
                _ => self.pos += 1,
            }
        }
        let line = self.text.get(start..self.pos)?.trim_end_matches(' ');
        // Tabs are space in some positions and text in others.
        (!line.as_bytes().contains(&b'\t')).then_some(line)
    }
}

/// Reports whether a plain scalar of a block may start with these bytes.
pub(super) fn starts_plain(byte: u8, next: u8) -> bool {
    match byte {
        b'-' => !matches!(next, b' ' | b'\n' | b'\t'),
        b'?' | b':' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|'
        | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' | b' ' | b'\n' | b'\t' | 0 => false,
        _ => true,
    }
}
