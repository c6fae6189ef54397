//! Durations as Go writes them: `90s`, `1m30s`, and a bare number of seconds.

use std::time::Duration;

const PROBLEM: &str = "write a duration such as 90s, 5m or 1h30m";
const TOO_LONG: &str = "write at most 8760h, which is a year, or 0 for ever";
/// What is longer could not be added to the time of day.
const LONGEST: Duration = Duration::from_secs(8760 * 3600);

/// Reads a duration.
pub(super) fn read(text: &str) -> Result<Duration, &'static str> {
    let read = parts(text)?;
    if read > LONGEST {
        return Err(TOO_LONG);
    }
    Ok(read)
}

fn parts(text: &str) -> Result<Duration, &'static str> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = rest.strip_suffix(digits).unwrap_or_default();
        let units = digits.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let millis: u64 = match digits.strip_suffix(units).unwrap_or_default() {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(PROBLEM),
        };
        let number: u64 = number.parse().map_err(|_| PROBLEM)?;
        let part = number.checked_mul(millis).ok_or(PROBLEM)?;
        total = total
            .checked_add(Duration::from_millis(part))
            .ok_or(PROBLEM)?;
        rest = units;
    }
    if text.is_empty() {
        Err(PROBLEM)
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("15", Some(15_000)),
            ("90s", Some(90_000)),
            ("1m30s", Some(90_000)),
            ("1h", Some(3_600_000)),
            ("250ms", Some(250)),
            ("0s", Some(0)),
            ("", None),
            ("s", None),
            ("5 m", None),
            ("1.5h", None),
            ("-1s", None),
            ("5d", None),
            ("1m30", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ] {
            let expected = expected.map(Duration::from_millis).ok_or(PROBLEM);
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert_eq!(read("8760h"), Ok(LONGEST));
        for text in ["8760h1ms", "18446744073709551615", "18446744073709551615ms"] {
            assert_eq!(read(text), Err(TOO_LONG), "{text:?}");
        }
    }
}
