//! Messages of bounded length, for conditions.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::{Display, Write as _},
};

use manifests::object::shortened;

/// The longest first line, in bytes: some hundred names.
pub(super) const FIRST: usize = 12 << 10;
/// The longest message, in bytes; conditions take 32 KiB.
const ALL: usize = 30 << 10;
/// How many lines follow the first one.
const LINES: usize = 20;
/// How much of what others have written is repeated, in characters.
const REPEATED: usize = 200;

/// A first line, and others as far as there is room beside the last ones.
pub(super) struct Message {
    text: String,
    lines: usize,
    more: usize,
    last: String,
}

impl Message {
    /// Begins a message with its first line and its last lines, both bounded by the caller.
    pub(super) fn new(first: String, last: String) -> Self {
        Self {
            text: first,
            lines: 0,
            more: 0,
            last,
        }
    }

    /// Adds a line, or counts it.
    pub(super) fn line(&mut self, line: &str) {
        let length = self.text.len() + line.len() + self.last.len() + 2;
        if self.lines >= LINES || length > ALL {
            self.more += 1;
            return;
        }
        self.lines += 1;
        self.text.push('\n');
        self.text.push_str(line);
    }

    pub(super) fn finish(mut self) -> String {
        if self.more > 0 {
            let _ = write!(self.text, "\nand {} more", self.more); // a String takes everything
        }
        if !self.last.is_empty() {
            self.text.push('\n');
            self.text.push_str(&self.last);
        }
        self.text
    }
}

/// Sorted names, as many as fit into the first line.
pub(super) fn names(names: &BTreeSet<String>) -> String {
    let names: Vec<&String> = names.iter().collect();
    joined(&names, ", ", FIRST)
}

/// A list, as far as it fits into so many bytes, and at least its first part.
pub(super) fn joined(parts: &[impl Display], separator: &str, longest: usize) -> String {
    let mut text = String::new();
    for (at, part) in parts.iter().enumerate() {
        let part = part.to_string();
        if !text.is_empty() && text.len() + part.len() > longest {
            let _ = write!(text, "{separator}and {} more", parts.len() - at);
            break;
        }
        if at > 0 {
            text.push_str(separator);
        }
        text.push_str(&part);
    }
    text
}

/// What somebody else has written, as a part of a line: without line breaks and control characters, and not all of it.
pub(super) fn one_line(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() && !is_mark(c);
    if text.len() <= REPEATED && text.chars().all(is_plain) && text.trim() == text {
        return Cow::Borrowed(text);
    }
    let clean: String = text
        .chars()
        .take(REPEATED * 4)
        .map(|c| if is_plain(c) { c } else { ' ' })
        .collect();
    let words: Vec<&str> = clean.split_whitespace().collect();
    Cow::Owned(shortened(&words.join(" "), REPEATED))
}

/// Marks that turn the direction of letters, and line breaks of Unicode's.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
