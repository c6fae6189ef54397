//! Single values: validity for Go, and the form that Go prints.

use serde_json::{Number, Value};

use super::{Type, quantity};
use crate::{object::truncate, version};

/// Maximum length of an excerpt, in characters.
const MAX_EXCERPT_LEN: usize = 60;

/// Result of a value in Go.
pub(super) enum Scalar {
    /// Go accepts the value, and prints it unchanged.
    Valid,
    /// Go accepts the value, and prints this one.
    Normalized(Value),
    /// Go fails, because it requires this type.
    Mismatch(&'static str),
}

/// Converts a value like `runtime.DefaultUnstructuredConverter`, with one difference: Go silently wraps an integer that is
/// too large for its field, but this function rejects it.
pub(super) fn read(value: &Value, ty: Type) -> Scalar {
    match (ty, value) {
        (Type::Any, _)
        | (Type::Bool, Value::Bool(_))
        | (Type::Float, Value::Number(_))
        | (Type::String | Type::IntOrString, Value::String(_)) => Scalar::Valid,
        (Type::Int32 | Type::Int64 | Type::IntOrString, Value::Number(number)) => {
            integer(number, ty)
        }
        (Type::Quantity, Value::Number(number)) => quantity::of_number(number),
        (Type::Quantity, Value::String(text)) => quantity::of_text(text),
        // Go's zero time.
        (Type::Time, Value::String(text)) if text == "0001-01-01T00:00:00Z" => {
            Scalar::Normalized(Value::Null)
        }
        (Type::Time, Value::String(text)) => fits(is_time(text), expected(ty)),
        (Type::Bytes, Value::String(text)) => bytes(text),
        (Type::Version, Value::String(text)) => version(text),
        (Type::Release, Value::String(text)) => fits(is_release(text), expected(ty)),
        _ => Scalar::Mismatch(expected(ty)),
    }
}

fn fits(fits: bool, expected: &'static str) -> Scalar {
    if fits {
        Scalar::Valid
    } else {
        Scalar::Mismatch(expected)
    }
}

/// Describes the required type.
pub(super) fn expected(ty: Type) -> &'static str {
    match ty {
        Type::Any => "anything",
        Type::Bool => "a boolean",
        Type::Int32 | Type::Int64 => "an integer",
        Type::Float => "a number",
        Type::String => "a string",
        Type::Bytes => "a base64 string",
        Type::Time => "a time such as 2006-01-02T15:04:05Z",
        Type::Quantity => "a quantity such as 500m or 2Gi",
        Type::IntOrString => "an integer or a string",
        Type::Version => "a semantic version",
        Type::Release => "a release such as 1 or 2.rc1",
        Type::SchemaOrBool(_) => "a schema or a boolean",
        Type::SchemaOrList(_) => "a schema or a list of schemas",
        Type::SchemaOrStrings(_) => "a schema or a list of strings",
        Type::List(_) => "a list",
        Type::Map(_) | Type::Struct(_) => "a mapping",
    }
}

/// Describes the type of a value.
pub(super) fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Truncates a key for a path. The path is repeated for each problem below it, so a long key must not be part of all of
/// them.
pub(super) fn short(key: &str) -> String {
    const MAX_KEY_LEN: usize = 256;
    truncate(key, MAX_KEY_LEN)
}

/// Returns the value as JSON, truncated.
pub(super) fn excerpt(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "{}".into(),
        Value::Object(_) => "{…}".into(),
        Value::Array(list) if list.is_empty() => "[]".into(),
        Value::Array(_) => "[…]".into(),
        Value::String(text) => Value::from(truncate(text, MAX_EXCERPT_LEN)).to_string(),
        scalar => scalar.to_string(),
    }
}

/// Returns the value to which Go converts a `null` that it cannot omit.
pub(super) fn zero(ty: Type) -> Value {
    match ty {
        Type::Bool => Value::Bool(false),
        Type::Int32 | Type::Int64 | Type::Float | Type::IntOrString => Value::from(0),
        Type::String => Value::from(""),
        Type::Quantity => Value::from("0"),
        Type::Struct(_) => Value::Object(serde_json::Map::new()),
        _ => Value::Null,
    }
}

fn integer(number: &Number, ty: Type) -> Scalar {
    let (value, printed) = match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => (Some(integer), None),
        (None, Some(float)) if float.fract() == 0.0 => {
            let integer = whole(float);
            (integer, integer)
        }
        _ => return Scalar::Mismatch(expected(ty)),
    };
    let (range, expected) = match ty {
        Type::Int64 => (i64::MIN..=i64::MAX, "a 64-bit integer"),
        Type::IntOrString => (
            i64::from(i32::MIN)..=i64::from(i32::MAX),
            "a 32-bit integer or a string",
        ),
        _ => (
            i64::from(i32::MIN)..=i64::from(i32::MAX),
            "a 32-bit integer",
        ),
    };
    match (value, printed) {
        (Some(value), None) if range.contains(&value) => Scalar::Valid,
        (Some(value), Some(printed)) if range.contains(&value) => {
            Scalar::Normalized(Value::from(printed))
        }
        _ => Scalar::Mismatch(expected),
    }
}

/// Converts a float without a fraction to an integer, if it fits 64 bits.
pub(super) fn whole(float: f64) -> Option<i64> {
    // Formatting and parsing are exact, while a cast would saturate.
    format!("{float:.0}").parse().ok()
}

/// Implements Go's `time.Parse(time.RFC3339, text)`.
fn is_time(text: &str) -> bool {
    let Some((date, zone)) = text.split_at_checked(19) else {
        return false;
    };
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let digits = date.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        digits.parse().ok()
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let bytes = date.as_bytes();
    if separators.iter().any(|(at, b)| bytes.get(*at) != Some(b)) {
        return false;
    }
    let (Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)) = (
        number(0..4),
        number(5..7),
        number(8..10),
        number(11..13),
        number(14..16),
        number(17..19),
    ) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day) && hour < 24 && minute < 60 && second < 60 && is_zone(zone)
}

/// Reports whether text is an optional fraction of a second, and `Z` or an offset.
fn is_zone(text: &str) -> bool {
    let zone = match text.strip_prefix(['.', ',']) {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => text,
    };
    if zone == "Z" {
        return true;
    }
    match zone.as_bytes() {
        [b'+' | b'-', hours @ .., b':', tens, ones] => {
            let digits = |d: &[u8]| d.len() == 2 && d.iter().all(u8::is_ascii_digit);
            digits(hours)
                && hours <= b"24".as_slice()
                && digits(&[*tens, *ones])
                && [*tens, *ones] <= *b"60"
        }
        _ => false,
    }
}

/// Checks base64 with padding. Go ignores line breaks, and prints none.
fn bytes(text: &str) -> Scalar {
    let has_breaks = text.contains(['\r', '\n']);
    let joined = if has_breaks {
        &text.replace(['\r', '\n'], "")
    } else {
        text
    };
    let digits = joined
        .strip_suffix("==")
        .or_else(|| joined.strip_suffix('='))
        .unwrap_or(joined);
    let all = digits
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    if !all || !joined.len().is_multiple_of(4) {
        return Scalar::Mismatch(expected(Type::Bytes));
    }
    if has_breaks {
        Scalar::Normalized(Value::from(joined))
    } else {
        Scalar::Valid
    }
}

fn version(text: &str) -> Scalar {
    match version::parse_lenient(text) {
        Ok(version) => {
            let printed = version.to_string();
            if printed == text {
                Scalar::Valid
            } else {
                Scalar::Normalized(Value::from(printed))
            }
        }
        Err(_) => Scalar::Mismatch(expected(Type::Version)),
    }
}

/// Implements blang's `semver.NewPRVersion` for each part: no empty part, and no number with a leading zero.
fn is_release(text: &str) -> bool {
    text.split('.').all(|part| {
        let numeric = part.bytes().all(|b| b.is_ascii_digit());
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !(numeric && part.len() > 1 && part.starts_with('0'))
    })
}
