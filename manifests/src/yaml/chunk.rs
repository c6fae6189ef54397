//! One document's text to its value, and faults in it to errors with a place in the file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Limits, decode,
    error::{Error, Fault},
    fast, node,
    split::Chunk,
};

/// The value of a document; takes the text that its aliases repeat off the limits, even when it fails.
pub(super) fn value(text: &[u8], limits: &mut Limits) -> Result<Value, Fault> {
    let text = utf8(text)?;
    match fast::value(text, limits)? {
        Some(value) => Ok(value),
        None => decode::value(&node::read(text, limits)?, limits),
    }
}

/// The value of a document, by the reader that knows all of YAML.
#[cfg(test)]
pub(super) fn complete(text: &str, limits: &Limits) -> Result<Value, Fault> {
    decode::value(&node::read(text, limits)?, &mut { *limits })
}

/// The text of a document, without a byte order mark; all positions count from there.
pub(super) fn utf8(text: &[u8]) -> Result<&str, Fault> {
    let text = unmarked(text);
    str::from_utf8(text).map_err(|error| Fault::new(error.valid_up_to(), "not UTF-8"))
}

fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// A fault in a document as an error in the file; `document` counts from 0.
pub(super) fn error(chunk: &Chunk, document: usize, fault: Fault) -> Error {
    let place = fault
        .at
        .and_then(|at| places(chunk, BTreeSet::from([at])).pop_first())
        .map(|(_, place)| place);
    Error::from_fault(document, place, fault)
}

/// Lines and columns (in characters) in the file, from 1, of bytes of a document, from 0.
///
/// Counted here and not taken from libyaml, which also ends lines at U+0085, U+2028 and U+2029; editors do not.
pub(super) fn places(chunk: &Chunk, bytes: BTreeSet<usize>) -> BTreeMap<usize, (usize, usize)> {
    let mut wanted = bytes.into_iter().peekable();
    let mut places = BTreeMap::new();
    let mut start = 0;
    let mut number = chunk.line;
    for line in unmarked(&chunk.text).split_inclusive(|&b| b == b'\n') {
        let end = start + line.len();
        number += 1;
        let (mut counted, mut column) = (start, 1);
        while let Some(at) = wanted.next_if(|at| *at < end) {
            let between = line.get(counted - start..at - start).unwrap_or_default();
            column += String::from_utf8_lossy(between).chars().count();
            counted = at;
            places.insert(at, (number, column));
        }
        start = end;
    }
    // The end of the document.
    places.extend(wanted.map(|at| (at, (number + 1, 1))));
    places
}
