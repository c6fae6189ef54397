//! Order of keys: letters last, numbers within a name by value.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// Returns the entries of a mapping in go-yaml's order.
///
/// This order is not transitive for some keys: `a1e` is before `a9`, `a9` before `a10`, and `a10` before `a1e`. Rust's sort
/// may panic for such an order, but a manual merge sort does not. The result is one of the orders that go-yaml may print.
pub(super) fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    let mut width = 1;
    while width < entries.len() {
        let mut merged = Vec::with_capacity(entries.len());
        for pair in entries.chunks(width * 2) {
            let (left, right) = pair.split_at_checked(width).unwrap_or((pair, &[]));
            let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
            while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                let first = if compare(b.0, a.0).is_lt() {
                    &mut right
                } else {
                    &mut left
                };
                merged.extend(first.next());
            }
            merged.extend(left.chain(right));
        }
        entries = merged;
        width *= 2;
    }
    entries
}

/// Compares string keys like go-yaml.
fn compare(a: &str, b: &str) -> Ordering {
    let same = a
        .char_indices()
        .zip(b.chars())
        .find(|((_, a), b)| a != b)
        .map(|((at, _), _)| at);
    let Some(at) = same else {
        return a.len().cmp(&b.len());
    };
    let (before, tail_a) = a.split_at(at);
    let tail_b = b.get(at..).unwrap_or_default();
    let first = |tail: &str| tail.chars().next().unwrap_or_default();
    let (c, d) = (first(tail_a), first(tail_b));
    match (c.is_alphabetic(), d.is_alphabetic()) {
        (true, true) => return c.cmp(&d),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero counts as a digit of the preceding number, if that has started.
    let begun = (c == '0' || d == '0')
        && before
            .bytes()
            .rev()
            .take_while(u8::is_ascii_digit)
            .any(|digit| digit != b'0');
    let number = |tail: &str| {
        tail.bytes().take_while(u8::is_ascii_digit).fold(
            (i64::from(begun), 0_usize),
            |(number, digits), digit| {
                let number = number.wrapping_mul(10);
                (number.wrapping_add(i64::from(digit - b'0')), digits + 1)
            },
        )
    };
    number(tail_a).cmp(&number(tail_b)).then(c.cmp(&d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted_keys<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let map = keys.into_iter().map(|key| (key.to_owned(), Value::Null));
        let map: Map<String, Value> = map.collect();
        let sorted = sorted(&map).into_iter();
        sorted.map(|(key, _)| key.clone()).collect()
    }

    #[test]
    fn numbers_in_keys_count() {
        let keys = "b a10 a9 a A 10 9 a-1 a.b aa a01 a1 100 1000".split(' ');
        assert_rows!(sorted_keys(keys).join(" ") => "9 10 100 1000 A a a-1 a.b a1 a01 a9 a10 aa b");
    }

    #[test]
    fn incomparable_keys_have_a_fixed_order() {
        let parts = ["a", "1", "9", "0", "e", ".", "é"];
        let mut keys = Vec::new();
        for one in parts {
            for two in parts {
                for three in parts {
                    keys.extend([format!("{one}{two}{three}"), format!("a{one}{three}{two}")]);
                }
            }
        }
        let count = keys.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(sorted_keys(keys.iter().map(String::as_str)).len(), count);
    }
}
