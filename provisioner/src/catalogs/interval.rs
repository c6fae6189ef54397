//! How often a registry is asked whether a tag names another image by now. No I/O.

use std::{fmt::Write as _, time::Duration};

use manifests::api::catalog_source::UpdateStrategy;

/// The interval that counts when the one that is written makes no sense (OLM v0 parity).
pub(super) const USUAL: Duration = Duration::from_secs(15 * 60);
/// More often no registry is asked, whatever the CatalogSource says.
pub(super) const SHORTEST: Duration = Duration::from_secs(60);
/// Where an interval is longer than this, it is looked again at least so often whether it is over (OLM v0 parity).
const LONGEST_SLEEP: Duration = Duration::from_secs(15 * 60);

/// How often to ask, and what is to be said of how that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) every: Duration,
    /// In OLM's words where it has some.
    pub(super) problem: Option<String>,
}

/// What a CatalogSource wants. Nothing if it does not want registries to be asked.
pub(super) fn of(strategy: Option<&UpdateStrategy>) -> Option<Interval> {
    const FIELD: &str = "spec.updateStrategy.registryPoll.interval";
    let poll = strategy?.registry_poll.as_ref()?;
    let text = poll.interval.as_deref().unwrap_or_default();
    Some(match parse(text) {
        Err(error) => Interval {
            every: USUAL,
            problem: Some(format!(
                "error parsing {FIELD}. Using the default value of 15m0s instead. Error: {error}"
            )),
        },
        Ok(Parsed::Short) => Interval {
            every: SHORTEST,
            problem: Some(format!(
                "{FIELD} {} is shorter than a minute. Using 1m0s instead",
                quoted(text)
            )),
        },
        Ok(Parsed::Long(every)) => Interval {
            every,
            problem: None,
        },
    })
}

/// How long to wait until the registry is asked again; `place` is anything from 0 to 1. Those who are asked for together once,
/// as after a start, spread over the whole interval, and then each keeps about the time that it says.
pub(super) fn spread(every: Duration, is_first: bool, place: f64) -> Duration {
    let share = if is_first { place } else { 0.9 + place / 5.0 };
    every.mul_f64(share).max(SHORTEST)
}

/// How long to wait before it is looked again whether the interval is over, `elapsed` after the registry was asked last.
/// Nothing left is zero.
pub(super) fn wait(every: Duration, elapsed: Duration) -> Duration {
    every.saturating_sub(elapsed).min(LONGEST_SLEEP)
}

/// An interval that is a duration.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// Less than a minute, zero and what is negative included.
    Short,
    Long(Duration),
}

/// A duration as Go's `time.ParseDuration` reads it, with its errors.
fn parse(text: &str) -> Result<Parsed, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Parsed::Short);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    // Go counts in signed 64 bits of nanoseconds, and -2^63 is one of them.
    let most = if is_negative { 1 << 63 } else { (1 << 63) - 1 };
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let is_number = |it: char| it == '.' || it.is_ascii_digit();
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
        if total > most {
            return Err(invalid());
        }
        rest = after;
    }
    let nanoseconds = u64::try_from(total).unwrap_or(u64::MAX);
    let every = Duration::from_nanos(nanoseconds);
    Ok(if is_negative || every < SHORTEST {
        Parsed::Short
    } else {
        Parsed::Long(every)
    })
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|it: char| !it.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// So many of a unit, behind the point. Nobody sees what is less than a nanosecond.
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

/// As Go's `time` quotes what it was given.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'\x7f' => quoted.push(char::from(byte)),
            // Nothing is refused by a String.
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

    fn written(interval: Option<&str>) -> Option<Interval> {
        let interval = interval.map(str::to_owned);
        of(Some(&UpdateStrategy {
            registry_poll: Some(RegistryPoll { interval }),
        }))
    }

    // parity: serve-20
    #[test]
    fn intervals_are_read_as_go_reads_them() {
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
    fn what_makes_no_sense_is_told_and_replaced() {
        let default = |error: &str| {
            format!(
                "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: {error}"
            )
        };
        for (text, every, problem) in ::tests::rows![
            Some("45m"), minutes(45) => None;
            Some("1m"), minutes(1) => None;
            Some("45mError.code"), USUAL => Some(default("time: unknown unit \"mError\" in duration \"45mError.code\""));
            None, USUAL => Some(default("time: invalid duration \"\""));
            Some("30s"), SHORTEST
                => Some(
                    "spec.updateStrategy.registryPoll.interval \"30s\" is shorter than a minute. Using 1m0s instead"
                        .to_owned(),
                );
        ] {
            assert_eq!(written(text), Some(Interval { every, problem }), "{text:?}");
        }
        for text in ["0", "-5m"] {
            assert_eq!(written(Some(text)).unwrap().every, SHORTEST);
        }
        assert_eq!(of(None), None);
        assert_eq!(of(Some(&UpdateStrategy::default())), None);
    }

    // parity: serve-19
    #[test]
    fn those_that_are_asked_for_together_are_so_once() {
        for (every, is_first, place, expected) in [
            (100, true, 0.0, 1),
            (100, true, 0.25, 25),
            (100, true, 1.0, 100),
            (100, false, 0.0, 90),
            (100, false, 0.5, 100),
            (100, false, 1.0, 110),
            // Less than a minute it never is.
            (1, true, 0.5, 1),
            (1, false, 0.0, 1),
        ] {
            let found = spread(minutes(every), is_first, place);
            let off = found.abs_diff(minutes(expected));
            assert!(off < Duration::from_millis(1), "{every} {place}: {found:?}");
        }
        // A thousand that begin at the same time: of each twentieth of the interval there are some, and nowhere many.
        let mut parts = [0; 20];
        for place in (0..1000).map(|it| f64::from(it) / 1000.0) {
            let found = spread(minutes(100), true, place);
            parts[usize::try_from(found.as_secs() / 300).unwrap().min(19)] += 1;
        }
        assert!(parts.iter().all(|it| (40..=60).contains(it)), "{parts:?}");
    }

    // parity: serve-18
    #[test]
    fn it_is_looked_again_when_the_interval_is_over_and_each_quarter_of_an_hour() {
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
            assert_rows!(wait(minutes(every), minutes(elapsed)) => minutes(expected), "{every} {elapsed}");
        }
    }
}
