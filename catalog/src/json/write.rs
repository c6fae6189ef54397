//! Values back to text.

use std::borrow::Cow;

use super::{Kind, Node, text::write_text};

/// Leaves out the space between tokens. The text was checked before.
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

/// What is left to write of an object or array.
enum Open<'a> {
    Object(std::vec::IntoIter<(Cow<'a, str>, Node<'a>)>),
    Array(std::vec::IntoIter<Node<'a>>),
}

/// Without recursion, for Go allows 10,000 levels and a thread has two megabytes.
pub(super) fn sorted<'a>(root: Node<'a>, out: &mut Vec<u8>) {
    let mut open: Vec<Open<'a>> = Vec::new();
    let mut next = Some(root);
    loop {
        if let Some(node) = next.take() {
            match node.kind() {
                Kind::Object => {
                    out.push(b'{');
                    open.push(Open::Object(entries(node).into_iter()));
                }
                Kind::Array => {
                    out.push(b'[');
                    let items: Vec<_> = node.items().collect();
                    open.push(Open::Array(items.into_iter()));
                }
                Kind::String => write_text(&node.text().unwrap_or_default(), out),
                Kind::Number => number(node, out),
                Kind::Bool | Kind::Null => out.extend_from_slice(node.raw()),
            }
        }
        let Some(last) = open.last_mut() else {
            return;
        };
        let first = matches!(out.last(), Some(b'{' | b'['));
        match last {
            Open::Object(entries) => {
                if let Some((key, value)) = entries.next() {
                    if !first {
                        out.push(b',');
                    }
                    write_text(&key, out);
                    out.push(b':');
                    next = Some(value);
                } else {
                    out.push(b'}');
                    open.pop();
                }
            }
            Open::Array(items) => {
                if let Some(value) = items.next() {
                    if !first {
                        out.push(b',');
                    }
                    next = Some(value);
                } else {
                    out.push(b']');
                    open.pop();
                }
            }
        }
    }
}

/// Sorted; of equal keys the last.
fn entries(node: Node<'_>) -> Vec<(Cow<'_, str>, Node<'_>)> {
    let mut entries: Vec<_> = node
        .entries()
        .map(|(key, value)| (key.text().unwrap_or_default(), value))
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0)); // stable
    entries.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = later.1;
        }
        same
    });
    entries
}

/// Go writes the shortest decimal form, with an exponent when that is long.
fn number(node: Node<'_>, out: &mut Vec<u8>) {
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
