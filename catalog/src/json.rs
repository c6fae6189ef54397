//! JSON as Go's `encoding/json` reads and writes it, over the bytes it was written in.
//!
//! A document is checked once, and each of its values gets a slot of twelve bytes: where its text begins and ends, and
//! where its next sibling is. Nothing is decoded or copied until somebody asks for it, so that of a bundle of 15 KB, of
//! which a catalog needs a dozen short texts, the rest costs one pass.
//!
//! ```
//! use catalog::json::Tape;
//!
//! let mut tape = Tape::default();
//! let root = tape.read(br#"{"Name": "etcd", "value": 4.10}"#, 100).unwrap();
//! assert_eq!(root.field("name").unwrap().text().unwrap(), "etcd"); // Go folds cases
//! assert_eq!(root.field("value").unwrap().raw(), b"4.10"); // as it was written
//! ```

mod tape;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::borrow::Cow;

use self::tape::Slot;
pub use self::{
    tape::{Error, Tape},
    text::write_text,
};

/// What a value is.
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
    /// As Go's errors name it.
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
    slots: &'a [Slot],
    at: usize,
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.raw()))
    }
}

// === impl Node ===

impl<'a> Node<'a> {
    /// What it is.
    pub fn kind(self) -> Kind {
        match self.raw().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Its text as it was written, without the space around it.
    pub fn raw(self) -> &'a [u8] {
        let slot = self.slot();
        let range = slot.start as usize..slot.end as usize;
        self.bytes.get(range).unwrap_or_default()
    }

    /// Where its text begins and ends in the document, in bytes.
    pub fn range(self) -> std::ops::Range<usize> {
        let slot = self.slot();
        slot.start as usize..slot.end as usize
    }

    /// What a string says: escapes are resolved, and what is not UTF-8 becomes U+FFFD, as in Go. `None` if it is no
    /// string.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self.raw() {
            [b'"', inner @ .., b'"'] => Some(text::decode(inner)),
            _ => None,
        }
    }

    /// The values of an array; of anything else none.
    pub fn items(self) -> Items<'a> {
        let (at, end) = self.inner(Kind::Array);
        let next = Node { at, ..self };
        Items { next, end }
    }

    /// The keys and values of an object, in the order they were written in, duplicates included.
    pub fn entries(self) -> Entries<'a> {
        let (at, end) = self.inner(Kind::Object);
        let next = Node { at, ..self };
        Entries { next, end }
    }

    /// The value that a field of a Go struct gets: names are folded; of equal keys the last counts, and of several that
    /// fold to the same name the one that is last when sorted, for that is how blobs are kept (A.2). A `null` leaves a
    /// field as it is, so a field that is `null` is no field.
    pub fn field(self, name: &str) -> Option<Node<'a>> {
        let mut found: Option<(Node<'a>, Node<'a>)> = None;
        for (key, value) in self.entries() {
            if !key.folds_to(name) {
                continue;
            }
            let later = found.is_none_or(|(other, _)| other.text() <= key.text());
            if later {
                found = Some((key, value));
            }
        }
        found.map(|(_, value)| value).filter(|it| !it.is_null())
    }

    /// The value of a key of a Go map: the last of equal ones.
    pub fn get(self, name: &str) -> Option<Node<'a>> {
        let mut found = None;
        for (key, value) in self.entries() {
            if key.is(name) {
                found = Some(value);
            }
        }
        found
    }

    /// Whether a string says just this.
    pub fn is(self, text: &str) -> bool {
        match self.raw() {
            [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => inner == text.as_bytes(),
            _ => self.text().is_some_and(|it| it == text),
        }
    }

    /// Whether a key means a field of this name, which is in ASCII.
    pub(crate) fn folds_to(self, name: &str) -> bool {
        match self.raw() {
            [b'"', inner @ .., b'"'] if inner.is_ascii() && !inner.contains(&b'\\') => {
                inner.eq_ignore_ascii_case(name.as_bytes())
            }
            _ => self
                .text()
                .is_some_and(|it| text::fold(&it) == name.to_ascii_lowercase()),
        }
    }

    /// The number, as Go's `float64`; `None` if it is no number or too large for one.
    pub fn number(self) -> Option<f64> {
        if self.kind() != Kind::Number {
            return None;
        }
        let text = std::str::from_utf8(self.raw()).ok()?;
        text.parse().ok().filter(|it: &f64| it.is_finite())
    }

    /// Appends the value without space between its tokens, as `json.Compact` does; nothing else changes.
    pub fn compact(self, out: &mut Vec<u8>) {
        write::compact(self.raw(), out);
    }

    /// Appends the value as Go writes it after it was read into a generic map (A.2): compact, keys sorted, of equal
    /// keys the last, numbers through `float64`, nothing escaped for HTML.
    pub fn sorted(self, out: &mut Vec<u8>) {
        write::sorted(self, out);
    }

    fn slot(self) -> Slot {
        self.slots.get(self.at).copied().unwrap_or_default()
    }

    /// The slots of what is inside; none if it is of another kind.
    fn inner(self, kind: Kind) -> (usize, usize) {
        if self.kind() == kind {
            (self.at + 1, self.slot().next as usize)
        } else {
            (0, 0)
        }
    }

    /// The slot behind this value; always later than its own.
    fn next(self, end: usize) -> usize {
        match self.slot().next as usize {
            next if next > self.at => next,
            _ => end,
        }
    }
}

/// The values of an array.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    next: Node<'a>,
    /// The slot behind the last value.
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

/// The keys and values of an object.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    next: Node<'a>,
    /// The slot behind the last value.
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

/// A key as Go compares those of blobs: cases folded.
pub(crate) fn folded(key: &str) -> String {
    text::fold(key)
}
