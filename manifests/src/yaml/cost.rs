//! Estimates of the memory of values, because small inputs can become large values.
//!
//! The constants are for `serde_json` and common allocators on 64-bit machines, rounded up. Pure; no I/O.

use serde_json::Value;

/// Memory of the first entry of a mapping: one B-tree node, which has space for eleven entries.
const NODE: usize = 640;
/// Number of entries in this node.
const NODE_ENTRIES: usize = 11;
/// Memory of each further entry: nodes that are filled in order are half full.
const ENTRY: usize = 128;
/// Memory of the first item of a sequence, which allocates space for four.
const FIRST_ITEM: usize = 128;
/// Memory of each further item, because the capacity doubles.
const ITEM: usize = 64;
/// Memory of a string, without its bytes.
const TEXT: usize = 16;

/// Returns the memory of an entry added to a mapping of this length, without its value.
pub(super) fn entry(length: usize, key: &str) -> usize {
    let slot = match length {
        0 => NODE,
        1..NODE_ENTRIES => 0,
        _ => ENTRY,
    };
    slot + text(key)
}

/// Returns the memory of an item added to a sequence of this length, without its value.
pub(super) fn item(length: usize) -> usize {
    if length == 0 { FIRST_ITEM } else { ITEM }
}

/// Returns the memory of a string.
pub(super) fn text(text: &str) -> usize {
    TEXT + text.len()
}

/// Returns the memory of a scalar, without its slot in a collection.
pub(super) fn scalar(value: &Value) -> usize {
    match value {
        Value::String(string) => text(string),
        _ => 0,
    }
}

/// Number and memory of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// Entries of all mappings and sequences.
    pub(super) values: usize,
    /// Bytes of memory.
    pub(super) memory: usize,
}

/// Counts the entries of a value, and estimates its memory.
pub(super) fn weigh(value: &Value) -> Weight {
    let mut weight = Weight::default();
    add(value, &mut weight);
    weight
}

fn add(value: &Value, weight: &mut Weight) {
    match value {
        Value::Array(items) => {
            weight.values += items.len();
            for (at, value) in items.iter().enumerate() {
                weight.memory += item(at);
                add(value, weight);
            }
        }
        Value::Object(map) => {
            weight.values += map.len();
            for (at, (key, value)) in map.iter().enumerate() {
                weight.memory += entry(at, key);
                add(value, weight);
            }
        }
        value => weight.memory += scalar(value),
    }
}

/// Counts the entries in JSON text, and estimates the maximum memory of its values, before any of them exists.
pub(super) fn weigh_json(input: &[u8]) -> Weight {
    let (mut entries, mut memory) = (0, input.len());
    let (mut quoted, mut escaped) = (false, false);
    let mut bytes = input.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => {
                quoted = !quoted;
                memory += TEXT / 2;
            }
            b',' if !quoted => {
                entries += 1;
                memory += ENTRY;
            }
            b'[' | b'{' if !quoted => {
                entries += 1;
                let next = bytes.as_slice().trim_ascii_start().first();
                memory += match byte {
                    _ if matches!(next, Some(b']' | b'}')) => 0,
                    b'[' => FIRST_ITEM,
                    _ => NODE,
                };
            }
            _ => {}
        }
    }
    Weight {
        values: entries,
        memory,
    }
}

/// Estimates the maximum memory for parsing a YAML or JSON input, without its bytes. The upper bound is several times too
/// high for ordinary manifests. Aliases, which repeat values, make it unlimited.
pub(super) fn estimate(input: &[u8]) -> usize {
    let mut memory = input.len().saturating_mul(2);
    let mut before = b'\n';
    for (at, &byte) in input.iter().enumerate() {
        // The complete parser also allocates nodes for key and value.
        memory += match byte {
            b':' | b'?' | b'-' | b'&' => {
                let next = input.get(at + 1).copied().unwrap_or(b'\n');
                match byte {
                    b'&' if is_anchor(before, next) => return usize::MAX,
                    b'-' if next.is_ascii_whitespace() => FIRST_ITEM + NODES / 2,
                    b':' if next.is_ascii_whitespace() || matches!(before, b'"' | b'\'') => {
                        NODE + NODES
                    }
                    b'?' if next.is_ascii_whitespace() => NODE + NODES,
                    _ => 0,
                }
            }
            b'{' => NODE + NODES,
            b'[' | b',' => ENTRY + NODES,
            _ => 0,
        };
        before = byte;
    }
    memory
}

/// Memory of two nodes of the complete parser.
const NODES: usize = 512;

/// Reports whether an `&` is at a valid position for an anchor, and a name follows.
fn is_anchor(before: u8, next: u8) -> bool {
    (before.is_ascii_whitespace() || b"[{,:".contains(&before)) && !next.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn weight_counts_entries_and_memory() {
        assert_each!(|value, weight| (weigh(&value).values, weigh(&value).memory) => weight;
            json!(null) => (0, 0);
            json!("abc") => (0, 19);
            json!([]) => (0, 0);
            json!({}) => (0, 0);
            json!([1]) => (1, 128);
            json!([1, [], {}]) => (3, 256);
            json!({"a": 1}) => (1, 657);
            json!({"a": {"b": "c"}}) => (2, 1331);
        );
    }

    #[test]
    fn weight_of_text_covers_the_weight_of_its_value() {
        let wide: Value = (0..40).map(|at| (at.to_string(), json!([at]))).collect();
        for value in [
            json!({"a": {"b": {"c": []}}, "d": [[[1]]]}),
            json!([{}, {"a": "b, c: [d]"}, [], ["\"\\"]]),
            wide,
        ] {
            let (weight, text) = (weigh(&value), value.to_string());
            let counted = weigh_json(text.as_bytes());
            assert_rows!(counted.values >= weight.values && counted.memory >= weight.memory => true, "{value}");
            assert!(estimate(text.as_bytes()) >= weight.memory, "{value}");
            let mut yaml = String::new();
            crate::yaml::write(&mut yaml, &value);
            assert!(estimate(yaml.as_bytes()) >= weight.memory, "{value}");
        }
    }

    #[test]
    fn aliases_have_no_estimate() {
        assert_each!(|input, is_bounded| estimate(input.as_bytes()) < usize::MAX => is_bounded;
            "a: &b [1]\nc: *b\n" => false;
            "[&b 1]" => false;
            "a: b & c, d&e=f, \"&g\"" => true;
        );
    }
}
