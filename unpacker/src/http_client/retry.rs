//! Retry policy: the requests that are repeated, and the delay between attempts.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, StatusCode, header::RETRY_AFTER};

use super::{Error, Request, Timeouts};

/// Maximum delay, both for `Retry-After` and for the exponential back-off.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Reports whether a request can be repeated without side effects, even if it has reached the server.
pub(super) fn is_repeatable(request: &Request) -> bool {
    request.idempotent || matches!(request.method, Method::GET | Method::HEAD | Method::PUT)
}

/// Reports whether a status is transient.
pub(super) fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 502 | 503 | 504)
}

/// Reports whether an error is transient.
pub(crate) fn is_retryable(error: &Error) -> bool {
    matches!(error, Error::Connect { .. } | Error::IdleTimeout { .. })
}

/// Returns the delay before the next attempt: the delay that the server requests, or an exponential back-off with
/// jitter. Jitter prevents many clients from retrying at the same time.
pub(super) fn delay(timeouts: &Timeouts, attempts: u32, headers: Option<&HeaderMap>) -> Duration {
    if let Some(requested) = headers.and_then(retry_after) {
        return requested.min(MAX_DELAY);
    }
    let doubled = 2u32.saturating_pow(attempts.saturating_sub(1));
    let max = timeouts.retry_delay.saturating_mul(doubled).min(MAX_DELAY);
    max.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Returns the delay in `Retry-After`, which is in seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(
        date.duration_since(SystemTime::now())
            .unwrap_or(Duration::ZERO),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_minute_and_jitter_by_half() {
        let timeouts = Timeouts::default();
        let rows = [(1, 0.5), (2, 1.0), (4, 4.0), (8, 60.0), (40, 60.0)];
        for (attempts, longest) in rows.into_iter().chain([(u32::MAX, 60.0)]) {
            for _ in 0..100 {
                let seconds = delay(&timeouts, attempts, None).as_secs_f64();
                assert_rows!((longest / 2.0..=longest).contains(&seconds) => true, "{attempts}: {seconds}");
            }
        }
    }

    #[test]
    fn retry_after_is_respected_up_to_a_minute() {
        let far = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(86_400));
        for (value, seconds) in [
            ("7", Some(7.0)),
            (" 0 ", Some(0.0)),
            ("86400", Some(60.0)),
            (far.as_str(), Some(60.0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0.0)),
            ("-1", None),
            ("99999999999999999999999", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            let waited = delay(&Timeouts::default(), 1, Some(&headers)).as_secs_f64();
            let range = seconds.map_or(0.25..=0.5, |seconds| seconds - 0.001..=seconds + 0.001);
            assert!(range.contains(&waited), "{value}: {waited}");
        }
    }
}
