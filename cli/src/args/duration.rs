//! Durations in the syntax of Go: `90s`, `1m30s`, `1.5h`, and a bare number of seconds.

use std::time::Duration;

const PROBLEM: &str = "use a duration such as 90s, 5m or 1h30m";
const TOO_LONG: &str = "use at most 8760h (one year), or 0 for no limit";
/// Maximum duration, because a longer one could not be added to the current time.
const MAX_DURATION: Duration = Duration::from_secs(8760 * 3600);
/// Nanoseconds per second.
const SECOND: u128 = 1_000_000_000;

/// Parses a duration.
pub(super) fn read(text: &str) -> Result<Duration, &'static str> {
    let nanos = nanos(text)?;
    let nanos = nanos.filter(|nanos| *nanos <= MAX_DURATION.as_nanos());
    let nanos = nanos.and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or(TOO_LONG)
}

/// Returns the sum of all parts in nanoseconds; `None` if it overflows.
fn nanos(text: &str) -> Result<Option<u128>, &'static str> {
    if text.is_empty() {
        return Err(PROBLEM);
    }
    if is_number(text) {
        return Ok(part(text, "", SECOND));
    }
    let mut remaining = text;
    let mut total = Some(0_u128);
    while !remaining.is_empty() {
        let (whole, more) = split(remaining, |c| c.is_ascii_digit());
        let (fraction, more) = match more.strip_prefix('.') {
            Some(more) => split(more, |c| c.is_ascii_digit()),
            None => ("", more),
        };
        let (unit, more) = split(more, |c| c != '.' && !c.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() {
            return Err(PROBLEM);
        }
        let part = part(whole, fraction, length(unit).ok_or(PROBLEM)?);
        total = total
            .zip(part)
            .and_then(|(sum, part)| sum.checked_add(part));
        remaining = more;
    }
    Ok(total)
}

fn is_number(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit())
}

fn split(text: &str, is_in: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c: char| !is_in(c)).unwrap_or(text.len()))
}

/// Returns the nanoseconds of a unit.
fn length(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    })
}

/// Returns the nanoseconds of a number of units with a fraction. Less than a nanosecond is dropped.
fn part(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let count = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u128>().ok(),
    };
    // More digits have no effect, not even for hours.
    let (fraction, _) = fraction.split_at(fraction.len().min(15));
    let divisor = u32::try_from(fraction.len())
        .ok()
        .map(|digits| 10_u128.pow(digits))?;
    let fraction = count(fraction)?.checked_mul(unit)? / divisor;
    count(whole)?.checked_mul(unit)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_accept_go_syntax() {
        for (text, millis) in [
            ("0", 0),
            ("15", 15_000),
            ("90s", 90_000),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("250ms", 250),
            ("0s", 0),
            ("1.5h", 5_400_000),
            ("1.5m", 90_000),
            (".5s1.25s", 1_750),
            ("2.s", 2_000),
            ("1500us", 1),
            ("0.000000000000000000001h", 0),
        ] {
            let found = read(text).unwrap().as_millis();
            assert_eq!(found, millis, "{text:?}");
        }
        for text in [
            "", "s", "5 m", ".s", "1..5s", "1.5", ".", "1,5m", "1.5M", "-1s", "5d", "1m30",
        ] {
            assert_eq!(read(text), Err(PROBLEM), "{text:?}");
        }
        let micros = Ok(Duration::from_nanos(1_500));
        assert_eq!([read("1.5us"), read("1.5µs"), read("1500ns")], [micros; 3]);
        assert_eq!(read("8760h"), Ok(MAX_DURATION));
        let endless = format!("{}h", "9".repeat(100));
        for text in [
            "8760h1ms",
            "8760.1h",
            "18446744073709551615",
            "18446744073709551615ms",
            "99999999999999999999s",
            &endless,
        ] {
            assert_eq!(read(text), Err(TOO_LONG), "{text:?}");
        }
    }
}
