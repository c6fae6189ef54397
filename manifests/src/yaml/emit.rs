//! YAML emitter, in the style of `kubectl get -o yaml`: sorted keys, lists at the column of their key, literal blocks for
//! multi-line text. This crate and Go parse the output to the same value.

use std::{fmt::Write, io};

use serde_json::{Map, Value};

use super::{scalar::Scalar, tagged};
use crate::object::is_mark;

/// Maximum length of a key without `?`, in bytes: YAML searches for the colon only within 1024 characters.
const MAX_KEY_LEN: usize = 1000;

/// Target of a document: a string, or a small buffer in front of a writer.
pub(super) trait Sink {
    /// Returns the string to append to.
    fn text(&mut self) -> &mut String;

    /// Called after each entry of a collection.
    fn flush(&mut self) {}
}

impl Sink for String {
    fn text(&mut self) -> &mut String {
        self
    }
}

/// A buffer in front of a writer: indentation can make a document a thousand times as long as its values.
pub(super) struct Stream<'a> {
    text: String,
    writer: &'a mut dyn io::Write,
    outcome: io::Result<()>,
}

impl<'a> Stream<'a> {
    const CAPACITY: usize = 64 << 10;

    pub(super) fn new(writer: &'a mut dyn io::Write) -> Self {
        Self {
            text: String::with_capacity(Self::CAPACITY),
            writer,
            outcome: Ok(()),
        }
    }

    /// Writes the remaining text.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write();
        self.outcome
    }

    fn write(&mut self) {
        if self.outcome.is_ok() {
            self.outcome = self.writer.write_all(self.text.as_bytes());
        }
        self.text.clear();
    }
}

impl Sink for Stream<'_> {
    fn text(&mut self) -> &mut String {
        &mut self.text
    }

    fn flush(&mut self) {
        if self.text.len() >= Self::CAPACITY {
            self.write();
        }
    }
}

/// Appends one document without a separator.
pub(super) fn document(sink: &mut impl Sink, value: &Value) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(sink, map, 0, false),
        Value::Array(items) if !items.is_empty() => sequence(sink, items, 0, false),
        // A block could contain lines that start with a separator.
        Value::String(text) if text.contains('\n') => {
            let out = sink.text();
            quoted(out, text);
            out.push('\n');
        }
        value => scalar(sink.text(), value, 0),
    }
}

/// Appends a mapping. With `inline`, the first entry continues the current line.
fn mapping(sink: &mut impl Sink, map: &Map<String, Value>, column: usize, mut inline: bool) {
    for (name, value) in map {
        let out = sink.text();
        if !inline {
            spaces(out, column);
        }
        inline = false;
        key(out, name, column);
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push_str(":\n");
                mapping(sink, map, column + 2, false);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push_str(":\n");
                sequence(sink, items, column, false);
            }
            value => {
                out.push_str(": ");
                scalar(out, value, column);
            }
        }
        sink.flush();
    }
}

fn sequence(sink: &mut impl Sink, items: &[Value], column: usize, mut inline: bool) {
    for item in items {
        let out = sink.text();
        if !inline {
            spaces(out, column);
        }
        inline = false;
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => mapping(sink, map, column + 2, true),
            Value::Array(items) if !items.is_empty() => sequence(sink, items, column + 2, true),
            item => scalar(out, item, column),
        }
        sink.flush();
    }
}

fn key(out: &mut String, name: &str, column: usize) {
    let start = out.len();
    if is_plain(name) {
        out.push_str(name);
    } else {
        quoted(out, name);
    }
    if out.len() - start > MAX_KEY_LEN {
        out.insert_str(start, "? ");
        out.push('\n');
        spaces(out, column);
    }
}

/// Appends a scalar or an empty collection, and the line end. `column` is that of the enclosing collection.
fn scalar(out: &mut String, value: &Value, column: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{number}");
        }
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::String(text) if is_plain(text) => out.push_str(text),
        Value::String(text) if is_literal(text) => return literal(out, text, column),
        Value::String(text) => quoted(out, text),
    }
    out.push('\n');
}

fn spaces(out: &mut String, mut count: usize) {
    const SPACES: &str = "                                                                ";
    while let Some(rest) = count.checked_sub(SPACES.len()) {
        out.push_str(SPACES);
        count = rest;
    }
    out.push_str(SPACES.get(..count).unwrap_or_default());
}

/// Reports whether text without quotes is parsed as the same text, by Go and by other parsers.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    let starts = match first {
        b'-' | b'.' | b'+' | b'0'..=b'9' => !is_ambiguous(text),
        b'?' | b':' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|'
        | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' | b' ' => false,
        // `<<` is the merge key, and `=` the default value of YAML 1.1.
        b'<' | b'=' => bytes.len() > 2,
        _ => true,
    };
    starts
        && !matches!(last, b' ' | b':')
        && is_printable(text)
        && !memchr::memchr2_iter(b':', b'#', bytes).any(|at| match bytes.get(at) {
            Some(b':') => bytes.get(at + 1) == Some(&b' '),
            _ => at.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b' '),
        })
        && matches!(Scalar::plain(text), Scalar::Text(_))
}

/// Reports whether text could be a separator or an item, or, for parsers other than Go's, a date, time or base-60 number.
fn is_ambiguous(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(
        bytes,
        [b'-'] | [b'-', b' ', ..] | [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..]
    ) || bytes
        .iter()
        .all(|byte| byte.is_ascii_digit() || b"+-.:_".contains(byte))
        && bytes.contains(&b':')
        || tagged::is_timestamp(text)
}

/// Reports whether text is a single line without characters to escape.
fn is_printable(text: &str) -> bool {
    // Without a branch, so that the compiler can vectorize the loop.
    let special = |byte: u8| !(b' '..0x7f).contains(&byte);
    let any_special = text.bytes().fold(false, |any, byte| any | special(byte));
    !any_special || text.chars().all(is_verbatim)
}

/// Reports whether a literal block can contain text: it has several lines, and the first one determines the indentation.
fn is_literal(text: &str) -> bool {
    let lines =
        memchr::memchr(b'\n', text.as_bytes()).is_some() && !text.starts_with(['\n', ' ', '\t']);
    let special = |byte: u8| !(b' '..0x7f).contains(&byte) && byte != b'\n';
    let any_special = text.bytes().fold(false, |any, byte| any | special(byte));
    lines
        && (!any_special
            || text
                .chars()
                .all(|c| is_verbatim(c) || matches!(c, '\n' | '\t')))
}

/// Reports whether a character can be written without an escape: it is printable, is neither a tab nor a line break, and
/// does not change the direction of adjacent text.
fn is_verbatim(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        && !is_mark(c)
}

fn literal(out: &mut String, text: &str, column: usize) {
    let (text, header) = match text.strip_suffix('\n') {
        None => (text, "|-\n"),
        Some(rest) if rest.ends_with('\n') => (rest, "|+\n"),
        Some(rest) => (rest, "|\n"),
    };
    out.push_str(header);
    for line in text.split('\n') {
        if !line.is_empty() {
            spaces(out, column + 2);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    let mut done = 0;
    for (at, c) in text.char_indices() {
        if is_verbatim(c) && !matches!(c, '"' | '\\') {
            continue;
        }
        out.push_str(text.get(done..at).unwrap_or_default());
        done = at + c.len_utf8();
        // Writing to a String cannot fail.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(c)),
            _ => write!(out, "\\u{:04x}", u32::from(c)),
        };
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(value: &Value) -> String {
        let mut text = String::new();
        document(&mut text, value);
        text
    }

    #[test]
    fn ambiguous_strings_are_quoted() {
        for text in "--all a#b http://x:80 1.2.3 v1 0x".split(' ') {
            assert_eq!(written(&json!([text])), format!("- {text}\n"));
        }
        let ambiguous = "-1|a: b|yes|*|x #y||~|1.10|2020-01-02|1:30|10:20:30|-|--- x|0x1|key:";
        for text in ambiguous.split('|') {
            assert_eq!(written(&json!([text])), format!("- {text:?}\n"));
        }
    }

    #[test]
    fn values_are_formatted_like_kubectl() {
        let value = json!({
            "args": [[], [["x"], {"a": {}}]],
            "block": "one\n\n  two\n", "strip": "one\ntwo", "keep": ["one\n\n"], "late": " one\ntwo",
            "map": {"on": true, "1": 1.5, "z": null, "a b": "é", "<<": "\u{feff}"},
        });
        let expected = "\
args:
- []
- - - x
  - a: {}
block: |
  one

    two
keep:
- |+
  one

late: \" one\\ntwo\"
map:
  \"1\": 1.5
  \"<<\": \"\\ufeff\"
  a b: é
  \"on\": true
  z: null
strip: |-
  one
  two
";
        assert_eq!(written(&value), expected);
    }

    #[test]
    fn long_keys_can_be_read_back() {
        let value = json!({"k".repeat(1100): {"k".repeat(1100): [1]}});
        assert_rows!(crate::yaml::documents(written(&value).as_bytes()).map(Result::unwrap).collect::<Vec<_>>() => [value]);
    }
}
