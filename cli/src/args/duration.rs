//! Durations in the syntax of Go: `90s`, `1m30s`, `1.5h`, and a bare number of seconds.

use std::time::Duration;

use manifests::duration::{Error, nanoseconds};

const PROBLEM: &str = "use a duration such as 90s, 5m or 1h30m";
const TOO_LONG: &str = "use at most 8760h (one year), or 0 for no limit";
/// Maximum duration, because a longer one could not be added to the current time.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(8760 * 3600);

/// Parses a duration.
pub(super) fn read(text: &str) -> Result<Duration, &'static str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unit = if is_number { "s" } else { "" };
    let nanos = nanoseconds(&format!("{text}{unit}")).map_err(|error| match error {
        Error::Malformed(_) => PROBLEM,
        Error::TooLong(_) => TOO_LONG,
    })?;
    let duration = Duration::from_nanos(u64::try_from(nanos).map_err(|_| PROBLEM)?);
    if duration > MAX_DURATION {
        return Err(TOO_LONG);
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_accept_go_syntax_and_seconds() {
        ::tests::assert_each!(|text, expected| read(text).map(|duration| duration.as_millis()) => expected;
            "0" => Ok(0);
            "0s" => Ok(0);
            "15" => Ok(15_000);
            "1m30s" => Ok(90_000);
            "1.5h" => Ok(5_400_000);
            "250ms" => Ok(250);
            "8760h" => Ok(MAX_DURATION.as_millis());
            "" => Err(PROBLEM);
            "5 m" => Err(PROBLEM);
            "1.5" => Err(PROBLEM);
            "-1s" => Err(PROBLEM);
            "5d" => Err(PROBLEM);
            "1m30" => Err(PROBLEM);
            "8760h1ms" => Err(TOO_LONG);
            "18446744073709551615" => Err(TOO_LONG);
            "99999999999999999999s" => Err(TOO_LONG);
        );
    }
}
