//! Parser of durations in Go's syntax.
//!
//! `kube::core::Duration` is not used: it panics if a duration overflows, and it does not have Go's errors, which OLM
//! reports.
//!
//! ```
//! assert_eq!(manifests::duration::nanoseconds("1m30s"), Ok(90_000_000_000));
//! ```

use std::fmt::Write as _;

/// A problem with a duration, with Go's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a duration.
    #[error("{0}")]
    Malformed(String),
    /// The duration exceeds 64 bits.
    #[error("time: invalid duration {}", quoted(.0))]
    TooLong(String),
}

/// Parses a duration like Go's `time.ParseDuration`, and returns its nanoseconds. Anything below a nanosecond is
/// truncated.
///
/// # Errors
/// Returns an error if the text is malformed, or the duration exceeds 64 bits.
pub fn nanoseconds(text: &str) -> Result<i64, Error> {
    let invalid = || Error::Malformed(format!("time: invalid duration {}", quoted(text)));
    let too_long = || Error::TooLong(text.to_owned());
    let is_negative = text.starts_with('-');
    let mut remaining = text.strip_prefix(['-', '+']).unwrap_or(text);
    if remaining == "0" {
        return Ok(0);
    }
    if remaining.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !remaining.is_empty() {
        let (whole, after) = digits(remaining);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        let whole = match whole {
            "" if fraction.is_empty() => return Err(invalid()),
            "" => 0,
            whole => {
                let whole = whole.parse::<u64>().ok();
                whole
                    .filter(|whole| *whole <= 1 << 63)
                    .ok_or_else(too_long)?
            }
        };
        let is_number = |c: char| c == '.' || c.is_ascii_digit();
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let unit = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => {
                let problem = format!("time: missing unit in duration {}", quoted(text));
                return Err(Error::Malformed(problem));
            }
            unit => {
                return Err(Error::Malformed(format!(
                    "time: unknown unit {} in duration {}",
                    quoted(unit),
                    quoted(text)
                )));
            }
        };
        total += i128::from(whole) * unit + fraction_nanos(fraction, unit);
        if total > 1 << 63 {
            return Err(too_long());
        }
        remaining = after;
    }
    let total = if is_negative { -total } else { total };
    i64::try_from(total).map_err(|_| too_long())
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the nanoseconds of the fractional digits of a number. `unit` is the length of its unit in nanoseconds.
fn fraction_nanos(fraction: &str, unit: i128) -> i128 {
    // Six more digits keep the truncations of single digits from adding up.
    let (mut nanos, mut unit) = (0, unit * 1_000_000);
    for digit in fraction.bytes() {
        unit /= 10;
        nanos += i128::from(digit - b'0') * unit;
    }
    nanos / 1_000_000
}

/// Quotes a text like Go's `time` package.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'\x7f' => quoted.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(quoted, "\\x{byte:02x}")),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: serve-20
    #[test]
    fn durations_are_parsed_as_by_go() {
        assert_each!(|text, expected| nanoseconds(text) => Ok(expected);
            "10m" => 600_000_000_000;
            "1h30m" => 5_400_000_000_000;
            "+45m" => 2_700_000_000_000;
            "-1.5h" => -5_400_000_000_000;
            ".5h" => 1_800_000_000_000;
            "90.s" => 90_000_000_000;
            ".5s1.25s" => 1_750_000_000;
            "1h1ms1us1\u{b5}s1\u{3bc}s1ns" => 3_600_001_003_001;
            "60.0009s" => 60_000_900_000;
            "1.5us" => 1_500;
            "0.000000000000000000001h" => 0;
            "0" => 0;
            "-0" => 0;
            "0s" => 0;
            "2562047h" => 9_223_369_200_000_000_000;
            "9223372036854775807ns" => i64::MAX;
            "-9223372036854775808ns" => i64::MIN;
        );
        assert_each!(|text, problem| nanoseconds(text) => Err(Error::Malformed(format!("time: {problem}")));
            "" => "invalid duration \"\"";
            "-" => "invalid duration \"-\"";
            ".h" => "invalid duration \".h\"";
            "h" => "invalid duration \"h\"";
            " 10m" => "invalid duration \" 10m\"";
            "1m -3s" => "unknown unit \"m -\" in duration \"1m -3s\"";
            "10" => "missing unit in duration \"10\"";
            "1h10" => "missing unit in duration \"1h10\"";
            "1..5s" => "missing unit in duration \"1..5s\"";
            "1d" => "unknown unit \"d\" in duration \"1d\"";
            "5 m" => "unknown unit \" m\" in duration \"5 m\"";
            "1.5M" => "unknown unit \"M\" in duration \"1.5M\"";
            "45mError.code" => "unknown unit \"mError\" in duration \"45mError.code\"";
            "1\"\u{e4}" => "unknown unit \"\\\"\\xc3\\xa4\" in duration \"1\\\"\\xc3\\xa4\"";
        );
        for text in ["3000000h", "9223372036854775808ns", "99999999999999999999m"] {
            let error = nanoseconds(text).unwrap_err();
            let message = format!("time: invalid duration {text:?}");
            assert_rows!((error.to_string(), error) => (message, Error::TooLong(text.to_owned())));
        }
    }
}
