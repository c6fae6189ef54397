//! Poll interval of image tags. Pure; no I/O.

use std::time::Duration;

use manifests::{api::catalog_source::UpdateStrategy, duration};

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
    let period = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default());
    Some(match duration::nanoseconds(text).map(period) {
        Err(error) => PollInterval {
            period: DEFAULT_INTERVAL,
            problem: Some(format!(
                "error parsing {FIELD}. Using the default value of 15m0s instead. Error: {error}"
            )),
        },
        Ok(period) if period < MIN_INTERVAL => PollInterval {
            period: MIN_INTERVAL,
            problem: Some(format!(
                "{FIELD} {text:?} is shorter than a minute. Using 1m0s instead"
            )),
        },
        Ok(period) => PollInterval {
            period,
            problem: None,
        },
    })
}

/// Returns the delay until the next poll; `random` is a number from 0 to 1. First polls are spread over the whole
/// interval, because many catalogs start together. Later polls have 10 % of jitter.
pub(super) fn poll_delay(period: Duration, is_first: bool, random: f64) -> Duration {
    let factor = if is_first { random } else { 0.9 + random / 5.0 };
    period.mul_f64(factor).max(MIN_INTERVAL)
}

/// Returns the duration of the next sleep, `elapsed` after the last poll. Zero means that the interval is over.
pub(super) fn next_sleep(period: Duration, elapsed: Duration) -> Duration {
    period.saturating_sub(elapsed).min(MAX_SLEEP)
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
        let registry_poll = Some(RegistryPoll { interval });
        from_strategy(Some(&UpdateStrategy { registry_poll }))
    }

    // parity: serve-21, serve-22
    #[test]
    fn invalid_intervals_are_reported_and_replaced() {
        let default = "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: ";
        assert_each!(|text, period, problem| written(text) => Some(PollInterval { period, problem });
            Some("45m"), minutes(45) => None;
            Some("1m"), minutes(1) => None;
            Some("45mError.code"), DEFAULT_INTERVAL
                => Some(format!("{default}time: unknown unit \"mError\" in duration \"45mError.code\""));
            None, DEFAULT_INTERVAL => Some(format!("{default}time: invalid duration \"\""));
            Some("30s"), MIN_INTERVAL => Some(
                "spec.updateStrategy.registryPoll.interval \"30s\" is shorter than a minute. Using 1m0s instead".to_owned(),
            );
        );
        for text in ["0", "-0", "0s", "-5m", "-2562047h", "59.9s", "1ns"] {
            assert_rows!(written(Some(text)).unwrap().period => MIN_INTERVAL, "{text}");
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
            assert_rows!(found.abs_diff(minutes(expected)) < Duration::from_millis(1) => true, "{every} {place}: {found:?}");
        }
        // A thousand catalogs that start together are spread evenly over the twentieths of the interval.
        let mut parts = [0; 20];
        for place in (0..1000).map(|number| f64::from(number) / 1000.0) {
            let found = poll_delay(minutes(100), true, place);
            parts[usize::try_from(found.as_secs() / 300).unwrap().min(19)] += 1;
        }
        assert_rows!(parts.iter().all(|count| (40..=60).contains(count)) => true, "{parts:?}");
    }

    // parity: serve-18
    #[test]
    fn sleep_ends_with_the_interval_or_after_15_minutes() {
        assert_each!(|every, elapsed, expected| next_sleep(minutes(every), minutes(elapsed)) => minutes(expected);
            10, 0 => 10;
            15, 0 => 15;
            40, 35 => 5;
            40, 30 => 10;
            60, 15 => 15;
            600, 0 => 15;
            40, 40 => 0;
            40, 100 => 0;
        );
    }
}
