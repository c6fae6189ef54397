//! JSON as Go's `encoding/json` reads and writes it, based on the original bytes.
//!
//! A document is validated once. Each of its values gets a slot of twelve bytes: start and end of its text, and the
//! position of its next sibling. Values are decoded or copied only on request. Of a bundle of 15 KB, a catalog needs a
//! dozen short texts; the rest costs a single pass.
//!
//! ```
//! use catalog::json::Tape;
//!
//! let mut tape = Tape::default();
//! let root = tape.read(br#"{"Name": "etcd", "value": 4.10}"#, 100).unwrap();
//! assert_eq!(root.field("name").unwrap().text().unwrap(), "etcd"); // Go folds cases
//! assert_eq!(root.field("value").unwrap().source(), b"4.10"); // as it was written
//! ```

mod compact;
mod strings;
mod tape;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::tape::TapeEntry;
pub use self::{
    strings::write_text,
    tape::{Error, Tape},
};

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`.
    Object,
    /// `[…]`.
    Array,
    /// `"…"`.
    String,
    /// `1`.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

impl Kind {
    /// Returns the name of the type in Go's errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Number => "number",
            Self::Bool => "bool",
            Self::Null => "null",
        }
    }
}

/// A value of a document.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    bytes: &'a [u8],
    slots: &'a [TapeEntry],
    at: usize,
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.source()))
    }
}

// === impl Node ===

impl<'a> Node<'a> {
    /// Returns the type of the value.
    pub fn kind(self) -> Kind {
        match self.source().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// Reports whether the value is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Returns the original text without surrounding white space.
    pub fn source(self) -> &'a [u8] {
        let slot = self.slot();
        let range = slot.start as usize..slot.end as usize;
        self.bytes.get(range).unwrap_or_default()
    }

    /// Returns the byte range of the text in the document.
    pub fn range(self) -> std::ops::Range<usize> {
        let slot = self.slot();
        slot.start as usize..slot.end as usize
    }

    /// Returns the content of a string with resolved escapes, or `None` for other types. As in Go, invalid UTF-8
    /// becomes U+FFFD.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self.source() {
            [b'"', inner @ .., b'"'] => Some(strings::decode(inner)),
            _ => None,
        }
    }

    /// Returns the values of an array; other types yield none.
    pub fn items(self) -> Items<'a> {
        let (at, end) = self.inner(Kind::Array);
        let next = Node { at, ..self };
        Items { next, end }
    }

    /// Returns the keys and values of an object in their original order, including duplicates.
    pub fn entries(self) -> Entries<'a> {
        let (at, end) = self.inner(Kind::Object);
        let next = Node { at, ..self };
        Entries { next, end }
    }

    /// Returns the value that a field of a Go struct would get, or `None` if it is absent or `null`. Names are compared
    /// with case folding, and the last of several equal keys is used. Of different keys that fold to the same name, the
    /// last in sort order is used, because blobs are stored with sorted keys (A.2).
    pub fn field(self, name: &str) -> Option<Node<'a>> {
        let mut best: Option<(Node<'a>, Node<'a>)> = None;
        for (key, value) in self.entries() {
            if !key.equals_fold(name) {
                continue;
            }
            let later = best.is_none_or(|(other, _)| other.text() <= key.text());
            if later {
                best = Some((key, value));
            }
        }
        best.map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    /// Returns the value of a key in a Go map: the last of equal keys.
    pub fn get(self, name: &str) -> Option<Node<'a>> {
        let mut result = None;
        for (key, value) in self.entries() {
            if key.is(name) {
                result = Some(value);
            }
        }
        result
    }

    /// Reports whether the value is a string with this content.
    pub fn is(self, text: &str) -> bool {
        match self.source() {
            [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => inner == text.as_bytes(),
            _ => self.text().is_some_and(|decoded| decoded == text),
        }
    }

    /// Reports whether a key denotes the field of this ASCII name.
    pub(crate) fn equals_fold(self, name: &str) -> bool {
        match self.source() {
            [b'"', inner @ .., b'"'] if inner.is_ascii() && !inner.contains(&b'\\') => {
                inner.eq_ignore_ascii_case(name.as_bytes())
            }
            _ => self
                .text()
                .is_some_and(|key| strings::fold(&key) == name.to_ascii_lowercase()),
        }
    }

    /// Returns the number as Go's `float64`, or `None` if the value is not a number or is out of range.
    pub fn number(self) -> Option<f64> {
        if self.kind() != Kind::Number {
            return None;
        }
        let text = std::str::from_utf8(self.source()).ok()?;
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Appends the value without white space between its tokens, as `json.Compact` does.
    pub fn compact(self, out: &mut Vec<u8>) {
        compact::compact(self.source(), out);
    }

    /// Appends the value as Go writes it after decoding into a generic map (A.2). The output is compact and has sorted
    /// keys, only the last of equal keys, numbers as `float64`, and no HTML escapes.
    pub fn sorted(self, out: &mut Vec<u8>) {
        compact::sorted(self, out);
    }

    fn slot(self) -> TapeEntry {
        self.slots.get(self.at).copied().unwrap_or_default()
    }

    /// Returns the slots of the content; empty for other types.
    fn inner(self, kind: Kind) -> (usize, usize) {
        if self.kind() == kind {
            (self.at + 1, self.slot().next as usize)
        } else {
            (0, 0)
        }
    }

    /// Returns the slot after this value, which is always greater than its own.
    fn next(self, end: usize) -> usize {
        match self.slot().next as usize {
            next if next > self.at => next,
            _ => end,
        }
    }
}

/// Iterator over the values of an array.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    next: Node<'a>,
    /// Slot after the last value.
    end: usize,
}

// === impl Items ===

impl<'a> Iterator for Items<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        let node = (self.next.at < self.end).then_some(self.next)?;
        self.next.at = node.next(self.end);
        Some(node)
    }
}

/// Iterator over the keys and values of an object.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    next: Node<'a>,
    /// Slot after the last value.
    end: usize,
}

// === impl Entries ===

impl<'a> Iterator for Entries<'a> {
    type Item = (Node<'a>, Node<'a>);

    fn next(&mut self) -> Option<(Node<'a>, Node<'a>)> {
        let key = (self.next.at < self.end).then_some(self.next)?;
        let value = Node {
            at: key.next(self.end),
            ..key
        };
        self.next.at = value.next(self.end);
        Some((key, value))
    }
}

/// Folds the case of a key as Go does when it compares the keys of blobs.
pub(crate) fn folded(key: &str) -> String {
    strings::fold(key)
}
