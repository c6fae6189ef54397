//! JSON output of Go: values of manifests, and the indentation of `json.Encoder`.

use serde_json::{Number, Value};

use crate::json::write_text;

/// Appends a value as Go encodes an unstructured object: compact, with sorted keys and without HTML escapes.
pub(super) fn value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(value) => number(value, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                self::value(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (at, (key, item)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                self::value(item, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends a number. 64-bit integers are exact; all other numbers are Go's `float64`.
fn number(number: &Number, out: &mut Vec<u8>) {
    let float = match (number.as_i64(), number.as_f64()) {
        (Some(int), _) => {
            out.extend_from_slice(int.to_string().as_bytes());
            return;
        }
        (None, float) => float.unwrap_or_default(),
    };
    let size = float.abs();
    let text = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                format!("{digits}e+{exponent}")
            }
            _ => text,
        }
    } else {
        float.to_string()
    };
    out.extend_from_slice(text.as_bytes());
}

/// Escapes `<`, `>` and `&`, as `json.Marshal` does. These characters occur only in strings.
pub(super) fn escape_html(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for &byte in json {
        match byte {
            b'<' => out.extend_from_slice(br"\u003c"),
            b'>' => out.extend_from_slice(br"\u003e"),
            b'&' => out.extend_from_slice(br"\u0026"),
            _ => out.push(byte),
        }
    }
    out
}

/// Maximum depth of indented JSON. Indentation grows with the square of the depth: 10,000 levels, which Go allows,
/// would turn 20 KB into 400 MB.
pub(super) const MAX_DEPTH: usize = 1000;

/// Returns the nesting depth of compact JSON.
pub(super) fn depth(json: &[u8]) -> usize {
    let (mut level, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                at = end_of_text(json, at);
                continue;
            }
            b'{' | b'[' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' => level = level.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Appends compact JSON, indented by four spaces per level, and a line break. Empty objects and lists remain on one
/// line. Returns `false` if the JSON is nested deeper than [`MAX_DEPTH`]; the output is then incomplete.
pub(super) fn indent(json: &[u8], out: &mut Vec<u8>) -> bool {
    let mut level = 0_usize;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                let end = end_of_text(json, at);
                out.extend_from_slice(json.get(at..end).unwrap_or_default());
                at = end;
                continue;
            }
            b'{' | b'[' => {
                out.push(byte);
                if let Some(close @ (b'}' | b']')) = json.get(at + 1) {
                    out.push(*close);
                    at += 1;
                } else {
                    level += 1;
                    if level > MAX_DEPTH {
                        return false;
                    }
                    line(level, out);
                }
            }
            b'}' | b']' => {
                level = level.saturating_sub(1);
                line(level, out);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(level, out);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
        at += 1;
    }
    out.push(b'\n');
    true
}

/// Returns the end of the string that starts at the given quote, including the closing quote.
fn end_of_text(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        let rest = json.get(at..).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(offset) if rest.get(offset) == Some(&b'\\') => at += offset + 2,
            Some(offset) => return at + offset + 1,
            None => return json.len(),
        }
    }
}

fn line(level: usize, out: &mut Vec<u8>) {
    const SPACES: [u8; 64] = [b' '; 64];
    out.push(b'\n');
    let mut remaining = level * 4;
    while remaining > 0 {
        let count = remaining.min(SPACES.len());
        out.extend_from_slice(SPACES.get(..count).unwrap_or_default());
        remaining -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_objects_and_lists() {
        assert_each!(|json, expected| depth(json.as_bytes()) => expected;
            r#"{"a":"{[","b":[[],{"c":-1.5e3}]}"# => 3;
            "[]" => 1;
            r#""[\"[""# => 0;
            "12" => 0;
        );
    }
}
