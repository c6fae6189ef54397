//! Parser for the common subset of YAML, in one pass from text to value: block mappings and sequences, all scalar styles,
//! and simple flow collections. Generated manifests use nothing else.
//!
//! The parser returns a value only if it is certain to equal that of the complete parser ([`super::node`],
//! [`super::decode`]). It bails out at all other input: anchors, tags, merges, directives, complex keys, unusual line
//! breaks, and every error. Tests compare both parsers on vectors, mutations and a corpus. It is several times as fast.

mod block;
mod flow;
mod plain;
mod quoted;

use std::borrow::Cow;

use serde_json::{Map, Value};

use self::plain::Plain;
use super::{Limits, cost, error::DocumentError, scalar::Scalar};

/// Returns the value of a document, or `None` if the complete parser must decide.
///
/// # Errors
/// Returns an error if the values exceed the limits of number or memory. The complete parser, which requires more
/// memory, would only allocate all of that again.
pub(super) fn value(text: &str, limits: &Limits) -> Result<Option<Value>, DocumentError> {
    if !is_simple(text.as_bytes()) {
        return Ok(None);
    }
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        pos: 0,
        line: 0,
        depth: limits.depth.min(128),
        values: limits.values,
        memory: limits.memory,
        exceeded: None,
    };
    let value = reader.document();
    match reader.exceeded {
        None => Ok(value),
        Some(fault) => Err(fault(Some(reader.pos), limits)),
    }
}

/// Reports whether all characters are allowed and have no special meaning: no control characters, no line breaks except
/// `\n`, no byte order marks, no document end markers. The text must end with a line break.
fn is_simple(bytes: &[u8]) -> bool {
    let special = |byte: u8| (byte < b' ' && byte != b'\n') || byte >= 0x7f;
    let (chunks, rest) = bytes.as_chunks::<64>();
    // Without a branch, so that the compiler can vectorize the loop.
    let any_special = |chunk: &[u8]| chunk.iter().fold(false, |any, byte| any | special(*byte));
    let is_simple_at = |at: usize, chunk: &[u8]| {
        !any_special(chunk)
            || (at..at + chunk.len()).all(|at| match bytes.get(at..).unwrap_or_default() {
                [0xc2, 0x80..=0x9f, ..]
                | [0xe2, 0x80, 0xa8 | 0xa9, ..]
                | [0xef, 0xbb, 0xbf, ..]
                | [0xef, 0xbf, 0xbe | 0xbf, ..]
                | [0x7f, ..] => false,
                [byte, ..] => *byte >= b' ' || matches!(byte, b'\n' | b'\t'),
                [] => true,
            })
    };
    bytes.ends_with(b"\n")
        && chunks
            .iter()
            .enumerate()
            .all(|(at, chunk)| is_simple_at(at * 64, chunk))
        && is_simple_at(chunks.len() * 64, rest)
        && !bytes.starts_with(b"...")
        && memchr::memmem::find(bytes, b"\n...").is_none()
}

/// State of the parser: the text, the position, and what remains of the limits.
struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    /// Offset of the current line, to compute the column of a token that starts a collection. It is exact there, because
    /// only spaces and dashes can precede the token; it is not used after multi-line scalars.
    line: usize,
    /// Remaining nesting of collections.
    depth: usize,
    /// Remaining number of entries.
    values: usize,
    /// Remaining memory of the entries, in bytes.
    memory: usize,
    /// Creates the error for the first exceeded limit.
    exceeded: Option<fn(Option<usize>, &Limits) -> DocumentError>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Option<Value> {
        // The opening separator of the document is alone on its line.
        if self.text.starts_with("---") {
            self.pos = 3;
            if !matches!(self.byte(), b' ' | b'\n') {
                return None;
            }
            self.end_value()?;
        }
        self.skip_to_token()?;
        let value = if self.at_end() {
            Value::Null
        } else {
            self.node(0)?
        };
        self.at_end().then_some(value)
    }

    /// Returns the next byte, or 0 at the end; [`is_simple`] excludes 0 from the text.
    #[inline]
    fn byte(&self) -> u8 {
        self.byte_at(0)
    }

    #[inline]
    fn byte_at(&self, offset: usize) -> u8 {
        self.bytes.get(self.pos + offset).copied().unwrap_or(0)
    }

    #[inline]
    fn at_end(&self) -> bool {
        self.pos >= self.bytes.len()
    }

    fn remaining(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    fn column(&self) -> usize {
        self.pos - self.line
    }

    #[inline]
    fn skip_spaces(&mut self) {
        while self.byte() == b' ' {
            self.pos += 1;
        }
    }

    fn skip_line(&mut self) {
        self.pos += memchr::memchr(b'\n', self.remaining()).unwrap_or(self.remaining().len());
    }

    /// Skips spaces, line ends and comments.
    fn skip_to_token(&mut self) -> Option<()> {
        loop {
            self.skip_spaces();
            match self.byte() {
                b'\n' => {
                    self.pos += 1;
                    self.line = self.pos;
                }
                b'#' if self.pos == self.line || self.bytes.get(self.pos - 1) == Some(&b' ') => {
                    self.skip_line();
                }
                b'#' | b'\t' => return None,
                _ => return Some(()),
            }
        }
    }

    /// Skips the end of a complete value: only space and a comment may follow on the line.
    fn end_value(&mut self) -> Option<()> {
        let line = self.line;
        self.skip_to_token()?;
        (self.line != line || self.at_end()).then_some(())
    }

    /// Reports whether the current token is a `:` followed by space, which precedes a value.
    #[inline]
    fn at_colon(&self) -> bool {
        self.byte() == b':' && matches!(self.byte_at(1), b' ' | b'\n')
    }

    /// Reports whether the current token is a `-` followed by space, which precedes an item.
    #[inline]
    fn at_dash(&self) -> bool {
        self.byte() == b'-' && matches!(self.byte_at(1), b' ' | b'\n')
    }

    /// Parses the node at the current token, which may be a collection, and advances to the next token. `indent` is the
    /// minimum column of its content, one more than the column of the enclosing collection.
    fn node(&mut self, indent: usize) -> Option<Value> {
        let column = self.column();
        match self.byte() {
            b'-' if self.at_dash() => self.nested(|reader| reader.sequence(column)),
            quote @ (b'"' | b'\'') => {
                let start = self.pos;
                let text = self.quoted(quote)?;
                self.skip_spaces();
                if self.byte() == b':' {
                    let key = self.quoted_key(start, text)?;
                    return self.nested(|reader| reader.mapping(column, key));
                }
                self.end_value()?;
                Some(Value::String(text.into_owned()))
            }
            b'[' | b'{' | b'|' | b'>' => self.value(indent),
            _ => match self.plain(indent)? {
                Plain::Key(text) => {
                    let key = plain_key(text)?;
                    self.nested(|reader| reader.mapping(column, key))
                }
                // A document that is a single plain scalar is rare, and its folding rules differ.
                Plain::Scalar(_) if indent == 0 => None,
                Plain::Scalar(text) => resolved(text),
            },
        }
    }

    /// Parses the value at the current token, on the line of its key, where only a flow collection can start.
    fn value(&mut self, indent: usize) -> Option<Value> {
        match self.byte() {
            quote @ (b'"' | b'\'') => {
                let text = self.quoted(quote)?;
                self.end_value()?;
                Some(Value::String(text.into_owned()))
            }
            b'[' | b'{' => {
                let value = self.nested(Self::flow)?;
                self.end_value()?;
                Some(value)
            }
            b'|' | b'>' => {
                let text = self.block(indent)?;
                self.skip_to_token()?;
                Some(Value::String(text))
            }
            _ => match self.plain(indent)? {
                Plain::Key(_) => None,
                Plain::Scalar(text) => resolved(text),
            },
        }
    }

    /// Deducts an entry from the limits; `slot` is the memory of its slot and key.
    fn count_value(&mut self, slot: usize, value: &Value) -> Option<()> {
        let Some(values) = self.values.checked_sub(1) else {
            self.exceeded = Some(DocumentError::too_many);
            return None;
        };
        let Some(memory) = self.memory.checked_sub(slot + cost::scalar(value)) else {
            self.exceeded = Some(DocumentError::too_large);
            return None;
        };
        (self.values, self.memory) = (values, memory);
        Some(())
    }

    /// Parses a collection within the depth limit.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Value>) -> Option<Value> {
        self.depth = self.depth.checked_sub(1)?;
        let value = read(self);
        self.depth += 1;
        value
    }

    /// Parses a block mapping at `column`, from after the colon of its first key.
    fn mapping(&mut self, column: usize, first: String) -> Option<Value> {
        let mut map = Map::new();
        let mut key = first;
        loop {
            let line = self.line;
            self.skip_to_token()?;
            let value = if self.line == line && !self.at_end() {
                self.value(column + 1)?
            } else if self.at_end() || self.column() < column {
                Value::Null
            } else if self.column() > column {
                self.node(column + 1)?
            } else if self.at_dash() {
                // A sequence may start at the column of its key.
                self.nested(|reader| reader.sequence(column))?
            } else {
                Value::Null
            };
            self.count_value(cost::entry(map.len(), &key), &value)?;
            map.insert(key, value);
            if self.at_end() || self.column() < column {
                return Some(Value::Object(map));
            }
            if self.column() > column {
                return None;
            }
            key = self.key()?;
        }
    }

    /// Parses a block sequence at `column`, from its first dash.
    fn sequence(&mut self, column: usize) -> Option<Value> {
        let mut items = Vec::new();
        while self.column() == column && self.at_dash() {
            self.pos += 1;
            let line = self.line;
            self.skip_to_token()?;
            let filled = !self.at_end() && (self.line == line || self.column() > column);
            let item = if filled {
                self.node(column + 1)?
            } else {
                Value::Null
            };
            self.count_value(cost::item(items.len()), &item)?;
            items.push(item);
        }
        // A larger column is an error. The same column is a key, if the enclosing mapping starts there.
        (self.at_end() || self.column() <= column).then_some(Value::Array(items))
    }

    /// Parses the key at the current token, and advances past its colon.
    fn key(&mut self) -> Option<String> {
        match self.byte() {
            quote @ (b'"' | b'\'') => {
                let start = self.pos;
                let text = self.quoted(quote)?;
                self.skip_spaces();
                self.quoted_key(start, text)
            }
            _ => match self.plain(usize::MAX)? {
                Plain::Key(text) => plain_key(text),
                Plain::Scalar(_) => None,
            },
        }
    }

    fn quoted_key(&mut self, start: usize, text: Cow<str>) -> Option<String> {
        let source = self.bytes.get(start..self.pos)?;
        // Keys must fit on one line, within 1024 characters.
        if !self.at_colon() || source.len() > 1000 || source.contains(&b'\n') {
            return None;
        }
        self.pos += 1;
        Some(text.into_owned())
    }
}

/// Converts a plain scalar to a key. The complete parser handles merges and keys that Go rejects.
fn plain_key(text: &str) -> Option<String> {
    match Scalar::plain(text) {
        Scalar::Text(text) if text == "<<" => None,
        scalar @ (Scalar::Text(_) | Scalar::Bool(_) | Scalar::Int(_)) => scalar.key(),
        _ => None,
    }
}

fn resolved(text: Cow<str>) -> Option<Value> {
    match text {
        Cow::Borrowed(text) => Scalar::plain(text).value(),
        // Several lines contain a space or a line break, which no number or keyword does.
        Cow::Owned(text) => Some(Value::String(text)),
    }
}
