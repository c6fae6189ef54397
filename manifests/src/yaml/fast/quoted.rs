//! Scalars in single or double quotes.

use std::borrow::Cow;

use super::Reader;

impl<'a> Reader<'a> {
    /// Parses a scalar in single or double quotes, from the first quote to after the last one.
    pub(super) fn quoted(&mut self, quote: u8) -> Option<Cow<'a, str>> {
        self.pos += 1;
        let start = self.pos;
        let first = self.run(quote)?;
        if self.byte() == quote && !(quote == b'\'' && self.byte_at(1) == quote) {
            self.pos += 1;
            return Some(Cow::Borrowed(first));
        }
        self.pos = start;
        let mut text = String::new();
        loop {
            let run = self.run(quote)?;
            match self.byte() {
                b'\n' => {
                    text.push_str(run.trim_end_matches([' ', '\t']));
                    match self.fold() {
                        1 => text.push(' '),
                        breaks => text.extend(std::iter::repeat_n('\n', breaks - 1)),
                    }
                }
                b'\\' => {
                    text.push_str(run);
                    self.pos += 1;
                    self.escape(&mut text)?;
                }
                _ => {
                    text.push_str(run);
                    self.pos += 1;
                    if quote == b'"' || self.byte() != quote {
                        return Some(Cow::Owned(text));
                    }
                    text.push('\'');
                    self.pos += 1;
                }
            }
        }
    }

    /// Returns the text up to the next quote, line end or, in double quotes, escape.
    fn run(&mut self, quote: u8) -> Option<&'a str> {
        let start = self.pos;
        let escape = if quote == b'"' { b'\\' } else { quote };
        self.pos += memchr::memchr3(quote, escape, b'\n', self.remaining())?;
        self.text.get(start..self.pos)
    }

    /// Skips line ends and the surrounding space, and returns the number of line ends.
    fn fold(&mut self) -> usize {
        let mut breaks = 0;
        loop {
            match self.byte() {
                b'\n' => {
                    breaks += 1;
                    self.pos += 1;
                    self.line = self.pos;
                }
                b' ' | b'\t' => self.pos += 1,
                _ => return breaks,
            }
        }
    }

    /// Parses an escape of a double-quoted scalar, from after its backslash.
    fn escape(&mut self, text: &mut String) -> Option<()> {
        let code = self.byte();
        let digits = match code {
            // An escaped line end joins the lines; empty lines after it count.
            b'\n' => {
                let breaks = self.fold() - 1;
                text.extend(std::iter::repeat_n('\n', breaks));
                return Some(());
            }
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => 0,
        };
        self.pos += 1;
        if digits > 0 {
            let hex = self.text.get(self.pos..self.pos + digits)?;
            if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            text.push(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?);
            self.pos += digits;
            return Some(());
        }
        text.push(match code {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\x0b',
            b'f' => '\x0c',
            b'r' => '\r',
            b'e' => '\x1b',
            b' ' | b'"' | b'\\' => char::from(code),
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            _ => return None,
        });
        Some(())
    }
}
