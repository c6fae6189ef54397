//! JSON inputs, with the semantics of apimachinery's `YAMLOrJSONDecoder`: consecutive values without separators.

use std::ops::Range;

use serde_json::{Deserializer, Value};

use super::{
    scalar,
    split::{self, DocumentText},
};

/// Reports whether the first character is `{`.
pub(super) fn may_start(input: &[u8]) -> bool {
    input.trim_ascii_start().starts_with(b"{")
}

/// Position (line and column, from 1) and message of an error.
type Failure = ((usize, usize), String);

/// Parses the next value after byte `from`, and returns its end; `None` if only space remains.
pub(super) fn next(input: &[u8], from: usize) -> Option<Result<(Value, usize), Failure>> {
    let (before, rest) = input.split_at_checked(from)?;
    let mut values = Deserializer::from_slice(rest).into_iter();
    Some(match values.next()? {
        Ok(mut value) => {
            normalize(&mut value);
            Ok((value, from + values.byte_offset()))
        }
        Err(error) => {
            let same_line = before.rsplit(|&b| b == b'\n').next().map_or(0, <[u8]>::len);
            let column = error.column() + if error.line() == 1 { same_line } else { 0 };
            let line = split::lines(before) + error.line();
            Err(((line, column.max(1)), "invalid JSON".into()))
        }
    })
}

/// Returns the offset at which YAML continues after JSON ended at `from`: after the space up to the end of the line.
pub(super) fn yaml_start(input: &[u8], from: usize) -> usize {
    let rest = input.get(from..).unwrap_or_default();
    let space = rest.len() - rest.trim_ascii_start().len();
    let line = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
    from + space.min(line)
}

/// Returns the text of a JSON value as a YAML document, at its original line and column.
pub(super) fn chunk(input: &[u8], range: Range<usize>) -> DocumentText<'static> {
    let (before, text) = input
        .split_at_checked(range.start)
        .map(|(before, rest)| (before, rest.get(..range.len()).unwrap_or_default()))
        .unwrap_or_default();
    let column = before.rsplit(|&b| b == b'\n').next().map_or(0, <[u8]>::len);
    let mut padded = vec![b' '; column];
    padded.extend_from_slice(text);
    padded.push(b'\n');
    DocumentText {
        text: padded.into(),
        line: split::lines(before),
    }
}

/// Converts numbers to their form in YAML documents: `2.0` is 2.
fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number
                .as_f64()
                .filter(|_| number.is_f64())
                .and_then(scalar::json_number)
            {
                *value = Value::Number(number);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(map) => map.values_mut().for_each(normalize),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
