//! One document's text to its value, and faults in it to errors with a place in the file.

use serde_json::Value;

use super::{
    Limits,
    error::{Error, Fault},
    node,
    split::{self, Chunk},
};

/// The value of a document.
pub(super) fn value(text: &[u8], limits: &Limits) -> Result<Value, Fault> {
    super::decode::value(&node::read(utf8(text)?, limits)?, limits)
}

/// The text of a document.
pub(super) fn utf8(text: &[u8]) -> Result<&str, Fault> {
    str::from_utf8(text).map_err(|error| {
        let valid = text.get(..error.valid_up_to()).unwrap_or_default();
        let at = str::from_utf8(valid).map_or(0, |valid| valid.chars().count());
        Fault::new(at, "not UTF-8")
    })
}

/// A fault in a document as an error in the file; `document` counts from 0.
pub(super) fn error(chunk: &Chunk, document: usize, fault: Fault) -> Error {
    let place = fault.at.map(|at| place(chunk, at));
    Error::new(document, place, fault.message)
}

/// Line and column in the file, from 1, of a character of a document, from 0.
///
/// Counted here and not taken from libyaml, which also ends lines at U+0085, U+2028 and U+2029; editors do not.
pub(super) fn place(chunk: &Chunk, at: usize) -> (usize, usize) {
    let text = String::from_utf8_lossy(&chunk.text);
    let end = text
        .char_indices()
        .nth(at)
        .map_or(text.len(), |(end, _)| end);
    let before = text.get(..end).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    (
        chunk.line + split::lines(before.as_bytes()) + 1,
        line.chars().count() + 1,
    )
}
