//! Conversion of a document's text to its value. Errors get a position in the file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Limits, decode,
    error::{DocumentError, Error},
    fast, node,
    split::DocumentText,
};

/// Returns the value of a document. Deducts the text that its aliases repeat from the limits, even on failure.
pub(super) fn value(text: &[u8], limits: &mut Limits) -> Result<Value, DocumentError> {
    let text = utf8(text)?;
    match fast::value(text, limits)? {
        Some(value) => Ok(value),
        None => decode::value(&node::read(text, limits)?, limits),
    }
}

/// Returns the value of a document, using only the complete parser.
#[cfg(test)]
pub(super) fn complete(text: &str, limits: &Limits) -> Result<Value, DocumentError> {
    decode::value(&node::read(text, limits)?, &mut { *limits })
}

/// Returns the text of a document without a byte order mark. All positions are relative to this text.
pub(super) fn utf8(text: &[u8]) -> Result<&str, DocumentError> {
    let text = unmarked(text);
    str::from_utf8(text).map_err(|error| DocumentError::new(error.valid_up_to(), "not UTF-8"))
}

fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// Converts an error in a document to an error in the file; `document` is the index from 0.
pub(super) fn error(chunk: &DocumentText, document: usize, fault: DocumentError) -> Error {
    let place = fault
        .at
        .and_then(|at| places(chunk, BTreeSet::from([at])).pop_first())
        .map(|(_, place)| place);
    Error::from_fault(document, place, fault)
}

/// Returns lines and columns (in characters) in the file, from 1, for byte offsets in a document, from 0.
///
/// Not computed by libyaml, because libyaml also ends lines at U+0085, U+2028 and U+2029, but editors do not.
pub(super) fn places(
    chunk: &DocumentText,
    bytes: BTreeSet<usize>,
) -> BTreeMap<usize, (usize, usize)> {
    let mut offsets = bytes.into_iter().peekable();
    let mut places = BTreeMap::new();
    let mut start = 0;
    let mut number = chunk.line;
    for line in unmarked(&chunk.text).split_inclusive(|&b| b == b'\n') {
        let end = start + line.len();
        number += 1;
        let (mut counted, mut column) = (start, 1);
        while let Some(at) = offsets.next_if(|at| *at < end) {
            let between = line.get(counted - start..at - start).unwrap_or_default();
            column += String::from_utf8_lossy(between).chars().count();
            counted = at;
            places.insert(at, (number, column));
        }
        start = end;
    }
    // Offsets at the end of the document.
    places.extend(offsets.map(|at| (at, (number + 1, 1))));
    places
}
