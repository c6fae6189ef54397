//! Resolution of scalars: `resolve` of go-yaml v2, and Go's JSON output for the result.
//!
//! Source of the rules: `go.yaml.in/yaml/v2` `resolve.go`, `sigs.k8s.io/yaml` `convertToJSONableObject`.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// A scalar, resolved by Go's decoder.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Only values above `i64::MAX`.
    Uint(u64),
    Float(f64),
    /// All other text.
    Text(Cow<'a, str>),
}

impl Scalar<'_> {
    /// Resolves a plain scalar without a tag.
    #[inline]
    pub(super) fn plain(text: &str) -> Scalar<'_> {
        match text.as_bytes().first() {
            // All other first characters start text, so that the common case takes one comparison.
            Some(b'0'..=b'9' | b'+' | b'-' | b'.') => {
                number(text).unwrap_or(Scalar::Text(text.into()))
            }
            Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~')
                if text.len() <= 5 =>
            {
                keyword(text).unwrap_or(Scalar::Text(text.into()))
            }
            Some(_) => Scalar::Text(text.into()),
            None => Scalar::Null,
        }
    }

    /// Returns the name of the type in Go's messages.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Uint(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::Text(_) => "!!str",
        }
    }

    /// Returns the JSON value, or `None` for infinities and NaN, which JSON cannot represent.
    pub(super) fn value(self) -> Option<Value> {
        Some(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(i) => Value::Number(i.into()),
            Scalar::Uint(u) => Value::Number(u.into()),
            Scalar::Float(f) => Value::Number(json_number(f)?),
            Scalar::Text(text) => Value::String(text.into_owned()),
        })
    }

    /// Returns the mapping key, or `None` if Go has no string for it (null, integers above `i64::MAX`).
    pub(super) fn key(self) -> Option<String> {
        Some(match self {
            Scalar::Null | Scalar::Uint(_) => return None,
            Scalar::Bool(b) => b.to_string(),
            Scalar::Int(i) => i.to_string(),
            Scalar::Float(f) => float_key(f),
            Scalar::Text(text) => text.into_owned(),
        })
    }
}

/// Implements `resolveMap`: keywords with a meaning.
fn keyword(text: &str) -> Option<Scalar<'static>> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => return None,
    })
}

/// Parses text that starts like a number.
fn number(text: &str) -> Option<Scalar<'static>> {
    if let Some(digits) = short_decimal(text) {
        return Some(Scalar::Int(digits));
    }
    match text {
        ".nan" | ".NaN" | ".NAN" => return Some(Scalar::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Some(Scalar::Float(f64::INFINITY));
        }
        "-.inf" | "-.Inf" | "-.INF" => return Some(Scalar::Float(f64::NEG_INFINITY)),
        _ => {}
    }
    // Names such as `-x`, versions such as `1.2.3` and images return here without an allocation.
    if !text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_'))
    {
        return None;
    }
    // go-yaml removes all underscores, but passes text with a leading dot to strconv, which allows them only between
    // digits.
    if text.starts_with('.') && !text.split('_').all(ends_in_digits) {
        return None;
    }
    let joined;
    let text = if text.contains('_') {
        joined = text.replace('_', "");
        joined.as_str()
    } else {
        text
    };
    integer(text)
        .or_else(|| if is_float(text) { finite(text) } else { None })
        .or_else(|| binary(text))
}

/// Parses a decimal integer of up to 18 digits without sign, underscore or leading zero.
fn short_decimal(text: &str) -> Option<i64> {
    match text.as_bytes() {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < 18 => text.bytes().try_fold(0_i64, |n, b| {
            b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'))
        }),
        _ => None,
    }
}

/// Reports whether underscores are allowed on both sides, except at the start and end of the text.
fn ends_in_digits(part: &str) -> bool {
    let first = part
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_digit() || b == b'.');
    first && part.bytes().next_back().is_some_and(|b| b.is_ascii_digit())
}

/// Implements `strconv.ParseInt` and `ParseUint` with base 0: `0x`, `0b`, `0o` and a bare leading `0` for octal.
fn integer(text: &str) -> Option<Scalar<'static>> {
    let (negative, signed, digits) = match text.as_bytes().first()? {
        b'-' => (true, true, text.get(1..)?),
        b'+' => (false, true, text.get(1..)?),
        _ => (false, false, text),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // from_str_radix would accept a second sign.
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    match i64::try_from(magnitude) {
        Ok(n) => Some(Scalar::Int(n)),
        Err(_) if signed => None,
        Err(_) => Some(Scalar::Uint(magnitude)),
    }
}

/// Implements go-yaml's branch after `0b`: only numbers with an inner sign (`0b-1`) get here and parse.
fn binary(text: &str) -> Option<Scalar<'static>> {
    let digits = text.strip_prefix("0b")?;
    i64::from_str_radix(digits, 2).ok().map(Scalar::Int)
}

/// Matches `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`.
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let exponent = exponent.map(|e| e.strip_prefix(['-', '+']).unwrap_or(e));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && (fraction.is_empty() || !mantissa.contains('.')))
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

fn finite(text: &str) -> Option<Scalar<'static>> {
    let float: f64 = text.parse().ok()?;
    float.is_finite().then_some(Scalar::Float(float))
}

/// Converts a float like Go after a round trip through JSON: to an integer if it is printed as one.
pub(super) fn json_number(float: f64) -> Option<Number> {
    // encoding/json switches to an exponent at 1e21. -0 remains a float, because JSON integers have no negative zero.
    if float.fract() == 0.0 && float.abs() < 1e21 && !(float == 0.0 && float.is_sign_negative()) {
        // Uses the shortest digits, like Go: 2^63 prints as 9223372036854775808, 1e22/1e3 as zeros.
        let text = float.to_string();
        if let Ok(n) = text.parse::<i64>() {
            return Some(n.into());
        }
        if let Ok(n) = text.parse::<u64>() {
            return Some(n.into());
        }
    }
    Number::from_f64(float)
}

/// Implements `strconv.FormatFloat(f, 'g', -1, 32)`, with YAML's names for the special values.
#[allow(clippy::cast_possible_truncation)] // Go rounds keys to float32, too
fn float_key(float: f64) -> String {
    let float = float as f32;
    if float.is_nan() {
        return ".nan".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        e @ (..-4 | 6..) => format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs()),
        _ => float.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_numbers_that_go_reads_back() {
        assert_each!(|float, text| json_number(float).unwrap().to_string() => text;
            1.0 => "1";
            -3.0 => "-3";
            0.5 => "0.5";
            1e3 => "1000";
            9.3e18 => "9300000000000000000";
            1_234_567_890_123_456_789.0 => "1234567890123456800";
            -0.0 => "-0.0";
        );
        assert_eq!(json_number(f64::INFINITY), None);
    }

    #[test]
    fn scalars_are_resolved_as_in_go_yaml() {
        assert_each!(|text, scalar| Scalar::plain(text) => scalar;
            "0b-1" => Scalar::Int(-1);
            "0b+1" => Scalar::Int(1);
            "+18446744073709551615" => Scalar::Float(18_446_744_073_709_551_615.0);
            "0" => Scalar::Int(0);
            "-.5_0" => Scalar::Float(-0.5);
            "999999999999999999" => Scalar::Int(999_999_999_999_999_999);
            "9999999999999999999" => Scalar::Uint(9_999_999_999_999_999_999);
        );
        for text in "-0b-1 0x - + .e1 ._5".split(' ') {
            assert_eq!(Scalar::plain(text), Scalar::Text(text.into()));
        }
    }
}
