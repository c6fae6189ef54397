//! Serialization of values.

use std::borrow::Cow;

use super::{
    Entries, Items, Kind, Node,
    strings::{write_string, write_text},
};

/// Removes white space between tokens. The syntax must have been checked.
pub(super) fn compact(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(quote) = memchr::memchr(b'"', text) {
        let (before, rest) = text.split_at_checked(quote).unwrap_or_default();
        out.extend(before.iter().filter(|b| !b.is_ascii_whitespace()));
        let mut end = 1;
        loop {
            let more = rest.get(end..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', more) {
                Some(at) if more.get(at) == Some(&b'\\') => end += at + 2,
                Some(at) => {
                    end += at + 1;
                    break;
                }
                None => {
                    end = rest.len();
                    break;
                }
            }
        }
        let (string, rest) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        out.extend_from_slice(string);
        text = rest;
    }
    out.extend(text.iter().filter(|b| !b.is_ascii_whitespace()));
}

/// Remaining content of an object or array that is being written.
enum OpenContainer<'a> {
    /// An object whose keys are plain and sorted.
    Ordered(Entries<'a>),
    /// An object whose keys had to be sorted.
    Sorted(std::vec::IntoIter<(Cow<'a, str>, Node<'a>)>),
    Array(Items<'a>),
}

/// Writes a value with sorted keys. It does not recurse, because Go allows 10,000 levels and a thread has a stack of
/// two megabytes.
pub(super) fn sorted<'a>(root: Node<'a>, out: &mut Vec<u8>) {
    let mut open: Vec<OpenContainer<'a>> = Vec::new();
    let mut next = Some(root);
    loop {
        if let Some(node) = next.take() {
            match node.kind() {
                Kind::Object => {
                    out.push(b'{');
                    open.push(OpenContainer::object(node));
                }
                Kind::Array => {
                    out.push(b'[');
                    open.push(OpenContainer::Array(node.items()));
                }
                Kind::String => write_string(node.source(), out),
                Kind::Number => number(node, out),
                Kind::Bool | Kind::Null => out.extend_from_slice(node.source()),
            }
        }
        let Some(last) = open.last_mut() else {
            return;
        };
        next = last.next(out);
        if next.is_none() {
            out.push(last.closing());
            open.pop();
        }
    }
}

// === impl OpenContainer ===

impl<'a> OpenContainer<'a> {
    fn object(node: Node<'a>) -> Self {
        if is_ordered(node) {
            Self::Ordered(node.entries())
        } else {
            Self::Sorted(entries(node).into_iter())
        }
    }

    /// Writes the comma and the key before the next value, and returns the value.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Node<'a>> {
        let is_first = matches!(out.last(), Some(b'{' | b'['));
        let comma: &[u8] = if is_first { b"" } else { b"," };
        match self {
            Self::Ordered(entries) => {
                let (key, value) = entries.next()?;
                out.extend_from_slice(comma);
                out.extend_from_slice(key.source());
                out.push(b':');
                Some(value)
            }
            Self::Sorted(entries) => {
                let (key, value) = entries.next()?;
                out.extend_from_slice(comma);
                write_text(&key, out);
                out.push(b':');
                Some(value)
            }
            Self::Array(items) => {
                let value = items.next()?;
                out.extend_from_slice(comma);
                Some(value)
            }
        }
    }

    fn closing(&self) -> u8 {
        match self {
            Self::Ordered(_) | Self::Sorted(_) => b'}',
            Self::Array(_) => b']',
        }
    }
}

/// Reports whether the keys of an object are ASCII without escapes and strictly increasing.
fn is_ordered(node: Node<'_>) -> bool {
    let mut previous = None;
    node.entries().all(|(key, _)| {
        let [b'"', key @ .., b'"'] = key.source() else {
            return false;
        };
        let is_later = previous < Some(key);
        previous = Some(key);
        is_later && key.is_ascii() && !key.contains(&b'\\')
    })
}

/// Returns the entries sorted by key; of equal keys, the last one is used.
fn entries(node: Node<'_>) -> Vec<(Cow<'_, str>, Node<'_>)> {
    let mut entries: Vec<_> = node
        .entries()
        .map(|(key, value)| (key.text().unwrap_or_default(), value))
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0)); // stable
    entries.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 = later.1;
        }
        same
    });
    entries
}

/// Number of digits up to which a `float64` represents every integer exactly.
const EXACT_DIGITS: usize = 15;

/// Writes the shortest decimal form as Go does, with an exponent for very large or small numbers.
fn number(node: Node<'_>, out: &mut Vec<u8>) {
    let raw = node.source();
    let digits = raw.strip_prefix(b"-").unwrap_or(raw);
    if digits.len() <= EXACT_DIGITS && digits.iter().all(u8::is_ascii_digit) {
        out.extend_from_slice(raw);
        return;
    }
    let number = node.number().unwrap_or_default();
    let size = number.abs();
    let text = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                format!("{digits}e+{exponent}")
            }
            _ => text,
        }
    } else {
        number.to_string()
    };
    out.extend_from_slice(text.as_bytes());
}
