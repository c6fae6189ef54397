//! Condition messages of bounded length. Pure; no I/O.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::{Display, Write as _},
};

use manifests::object::truncate;

/// Maximum length of the first line, in bytes; enough for some hundred names.
pub(super) const MAX_FIRST_LINE_LEN: usize = 12 << 10;
/// Maximum length of a message, in bytes; conditions accept 32 KiB.
const MAX_LEN: usize = 30 << 10;
/// Maximum number of lines after the first one.
const MAX_LINES: usize = 20;
/// Maximum length of an untrusted text, in characters.
const MAX_TEXT_LEN: usize = 200;

/// A message with a first line, further lines within the limits, and last lines.
pub(super) struct Message {
    text: String,
    lines: usize,
    more: usize,
    last: String,
}

impl Message {
    /// Creates a message with its first line and its last lines, both bounded by the caller.
    pub(super) fn new(first: String, last: String) -> Self {
        Self {
            text: first,
            lines: 0,
            more: 0,
            last,
        }
    }

    /// Adds a line, or counts it if the limits are exceeded.
    pub(super) fn line(&mut self, line: &str) {
        let length = self.text.len() + line.len() + self.last.len() + 2;
        if self.lines >= MAX_LINES || length > MAX_LEN {
            self.more += 1;
            return;
        }
        self.lines += 1;
        self.text.push('\n');
        self.text.push_str(line);
    }

    pub(super) fn finish(mut self) -> String {
        if self.more > 0 {
            let _ = write!(self.text, "\nand {} more", self.more); // writing to a String does not fail
        }
        if !self.last.is_empty() {
            self.text.push('\n');
            self.text.push_str(&self.last);
        }
        self.text
    }
}

/// Joins sorted names that fit into the first line.
pub(super) fn names(names: &BTreeSet<String>) -> String {
    let names: Vec<&String> = names.iter().collect();
    joined(&names, ", ", MAX_FIRST_LINE_LEN)
}

/// Joins the parts that fit into `max_len` bytes, at least the first one.
pub(super) fn joined(parts: &[impl Display], separator: &str, max_len: usize) -> String {
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        let part = part.to_string();
        if !text.is_empty() && text.len() + part.len() > max_len {
            let _ = write!(text, "{separator}and {} more", parts.len() - index);
            break;
        }
        if index > 0 {
            text.push_str(separator);
        }
        text.push_str(&part);
    }
    text
}

/// Returns an untrusted text as a part of a line: truncated, and without line breaks and control characters.
pub(super) fn one_line(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() && !is_mark(c);
    if text.len() <= MAX_TEXT_LEN && text.chars().all(is_plain) && text.trim() == text {
        return Cow::Borrowed(text);
    }
    let clean: String = text
        .chars()
        .take(MAX_TEXT_LEN * 4)
        .map(|c| if is_plain(c) { c } else { ' ' })
        .collect();
    let parts: Vec<&str> = clean.split_whitespace().collect();
    Cow::Owned(truncate(&parts.join(" "), MAX_TEXT_LEN))
}

/// Reports whether a character changes the direction of text, or is a line break of Unicode.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
