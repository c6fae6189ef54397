//! Poll interval of image tags. Pure; no I/O.

use std::{fmt::Write as _, time::Duration};

use manifests::api::catalog_source::UpdateStrategy;

/// Interval that replaces a malformed one (OLM v0 parity).
pub(super) const DEFAULT_INTERVAL: Duration = Duration::from_secs(15 * 60);
/// Minimum interval between polls of a registry.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum time of one sleep. Longer intervals consist of several sleeps (OLM v0 parity).
const MAX_SLEEP: Duration = Duration::from_secs(15 * 60);

/// Effective poll interval, and the problem with the configured one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PollInterval {
    pub(super) period: Duration,
    /// Problem with the configured interval, with OLM's text if OLM has one.
    pub(super) problem: Option<String>,
}

/// Returns the poll interval of a CatalogSource, or `None` if it is not polled.
pub(super) fn from_strategy(strategy: Option<&UpdateStrategy>) -> Option<PollInterval> {
    const FIELD: &str = "spec.updateStrategy.registryPoll.interval";
    let poll = strategy?.registry_poll.as_ref()?;
    let text = poll.interval.as_deref().unwrap_or_default();
    Some(match parse(text) {
        Err(error) => PollInterval {
            period: DEFAULT_INTERVAL,
            problem: Some(format!(
                "error parsing {FIELD}. Using the default value of 15m0s instead. Error: {error}"
            )),
        },
        Ok(Parsed::Short) => PollInterval {
            period: MIN_INTERVAL,
            problem: Some(format!(
                "{FIELD} {} is shorter than a minute. Using 1m0s instead",
                quoted(text)
            )),
        },
        Ok(Parsed::Long(every)) => PollInterval {
            period: every,
            problem: None,
        },
    })
}

/// Returns the delay until the next poll; `place` is a random number from 0 to 1. First polls are spread over the whole
/// interval, because many catalogs start together. Later polls have 10 % of jitter.
pub(super) fn poll_delay(every: Duration, is_first: bool, place: f64) -> Duration {
    let factor = if is_first { place } else { 0.9 + place / 5.0 };
    every.mul_f64(factor).max(MIN_INTERVAL)
}

/// Returns the duration of the next sleep, `elapsed` after the last poll. Zero means that the interval is over.
pub(super) fn next_sleep(every: Duration, elapsed: Duration) -> Duration {
    every.saturating_sub(elapsed).min(MAX_SLEEP)
}

/// A valid duration.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// Less than a minute, including zero and negative durations.
    Short,
    Long(Duration),
}

/// Parses a duration like Go's `time.ParseDuration`, with the same errors.
fn parse(text: &str) -> Result<Parsed, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let is_negative = text.starts_with('-');
    let mut remaining = text.strip_prefix(['-', '+']).unwrap_or(text);
    if remaining == "0" {
        return Ok(Parsed::Short);
    }
    if remaining.is_empty() {
        return Err(invalid());
    }
    // Go counts nanoseconds in signed 64 bits, and the minimum is -2^63.
    let max = if is_negative { 1 << 63 } else { (1 << 63) - 1 };
    let mut total: u128 = 0;
    while !remaining.is_empty() {
        let (whole, after) = digits(remaining);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let is_number = |c: char| c == '.' || c.is_ascii_digit();
        let end = after.find(is_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some(nanoseconds) = unit_of(unit) else {
            return Err(format!(
                "time: unknown unit {} in duration {}",
                quoted(unit),
                quoted(text)
            ));
        };
        let whole: u128 = if whole.is_empty() {
            0
        } else {
            let whole: u64 = whole.parse().map_err(|_| invalid())?;
            whole.into()
        };
        total += whole * nanoseconds + part(fraction, nanoseconds);
        if total > max {
            return Err(invalid());
        }
        remaining = after;
    }
    let nanoseconds = u64::try_from(total).unwrap_or(u64::MAX);
    let every = Duration::from_nanos(nanoseconds);
    Ok(if is_negative || every < MIN_INTERVAL {
        Parsed::Short
    } else {
        Parsed::Long(every)
    })
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the nanoseconds of the fractional part. Anything below a nanosecond is truncated.
fn part(fraction: &str, unit: u128) -> u128 {
    let (mut part, mut unit) = (0, unit * 1_000_000);
    for digit in fraction.bytes() {
        unit /= 10;
        part += u128::from(digit - b'0') * unit;
    }
    part / 1_000_000
}

fn unit_of(name: &str) -> Option<u128> {
    Some(match name {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Quotes a text like Go's `time` package.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'\x7f' => quoted.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(quoted, "\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use manifests::api::catalog_source::RegistryPoll;

    use super::*;

    fn minutes(number: u64) -> Duration {
        Duration::from_secs(60 * number)
    }

    fn written(interval: Option<&str>) -> Option<PollInterval> {
        let interval = interval.map(str::to_owned);
        from_strategy(Some(&UpdateStrategy {
            registry_poll: Some(RegistryPoll { interval }),
        }))
    }

    // parity: serve-20
    #[test]
    fn intervals_are_parsed_as_by_go() {
        for (text, expected) in ::tests::rows![
            "10m" => Ok(600_000);
            "1h30m" => Ok(5_400_000);
            "+45m" => Ok(2_700_000);
            "1.5h" => Ok(5_400_000);
            ".5h" => Ok(1_800_000);
            "90.s" => Ok(90_000);
            "1h1ms1us1\u{b5}s1ns" => Ok(3_600_001);
            "60.0009s" => Ok(60_000);
            "" => Err("time: invalid duration \"\"");
            "-" => Err("time: invalid duration \"-\"");
            ".h" => Err("time: invalid duration \".h\"");
            "h" => Err("time: invalid duration \"h\"");
            " 10m" => Err("time: invalid duration \" 10m\"");
            "10" => Err("time: missing unit in duration \"10\"");
            "1h10" => Err("time: missing unit in duration \"1h10\"");
            "1d" => Err("time: unknown unit \"d\" in duration \"1d\"");
            "45mError.code" => Err("time: unknown unit \"mError\" in duration \"45mError.code\"");
            "3000000h" => Err("time: invalid duration \"3000000h\"");
            "99999999999999999999m" => Err("time: invalid duration \"99999999999999999999m\"");
            "1\"\u{e4}" => Err("time: unknown unit \"\\\"\\xc3\\xa4\" in duration \"1\\\"\\xc3\\xa4\"");
        ] {
            let parsed = parse(text);
            match expected {
                Ok(expected) => match parsed {
                    Ok(Parsed::Long(found)) => assert_eq!(found.as_millis(), expected, "{text}"),
                    _ => panic!("{text}: {parsed:?}"),
                },
                Err(problem) => assert_eq!(parsed, Err(problem.to_owned()), "{text}"),
            }
        }
        for text in ["0", "-0", "0s", "59.9s", "-1h", "1ns", "-2562047h"] {
            assert_eq!(parse(text), Ok(Parsed::Short), "{text}");
        }
    }

    // parity: serve-21, serve-22
    #[test]
    fn invalid_intervals_are_reported_and_replaced() {
        let default = |error: &str| {
            format!(
                "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: {error}"
            )
        };
        for (text, every, problem) in ::tests::rows![
            Some("45m"), minutes(45) => None;
            Some("1m"), minutes(1) => None;
            Some("45mError.code"), DEFAULT_INTERVAL => Some(default("time: unknown unit \"mError\" in duration \"45mError.code\""));
            None, DEFAULT_INTERVAL => Some(default("time: invalid duration \"\""));
            Some("30s"), MIN_INTERVAL
                => Some(
                    "spec.updateStrategy.registryPoll.interval \"30s\" is shorter than a minute. Using 1m0s instead"
                        .to_owned(),
                );
        ] {
            assert_eq!(
                written(text),
                Some(PollInterval {
                    period: every,
                    problem
                }),
                "{text:?}"
            );
        }
        for text in ["0", "-5m"] {
            assert_eq!(written(Some(text)).unwrap().period, MIN_INTERVAL);
        }
        assert_eq!(from_strategy(None), None);
        assert_eq!(from_strategy(Some(&UpdateStrategy::default())), None);
    }

    // parity: serve-19
    #[test]
    fn polls_that_start_together_are_spread() {
        for (every, is_first, place, expected) in [
            (100, true, 0.0, 1),
            (100, true, 0.25, 25),
            (100, true, 1.0, 100),
            (100, false, 0.0, 90),
            (100, false, 0.5, 100),
            (100, false, 1.0, 110),
            // Never less than a minute.
            (1, true, 0.5, 1),
            (1, false, 0.0, 1),
        ] {
            let found = poll_delay(minutes(every), is_first, place);
            let off = found.abs_diff(minutes(expected));
            assert!(off < Duration::from_millis(1), "{every} {place}: {found:?}");
        }
        // A thousand catalogs that start together are spread evenly over the twentieths of the interval.
        let mut parts = [0; 20];
        for place in (0..1000).map(|number| f64::from(number) / 1000.0) {
            let found = poll_delay(minutes(100), true, place);
            parts[usize::try_from(found.as_secs() / 300).unwrap().min(19)] += 1;
        }
        assert!(
            parts.iter().all(|count| (40..=60).contains(count)),
            "{parts:?}"
        );
    }

    // parity: serve-18
    #[test]
    fn sleep_ends_with_the_interval_or_after_15_minutes() {
        for (every, elapsed, expected) in [
            (10, 0, 10),
            (15, 0, 15),
            (40, 35, 5),
            (40, 30, 10),
            (60, 15, 15),
            (600, 0, 15),
            (40, 40, 0),
            (40, 100, 0),
        ] {
            assert_rows!(next_sleep(minutes(every), minutes(elapsed)) => minutes(expected), "{every} {elapsed}");
        }
    }
}
