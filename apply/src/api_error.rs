//! Errors of the API server: their status code, the delay that it requests, and whether it is unavailable.

use std::time::Duration;

use kube::{core::Status, runtime::watcher};

/// Returns the HTTP status code of an error; `None` if the API server did not respond.
pub fn code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

/// Returns the delay that the API server requests before the next attempt.
pub fn wait(error: &watcher::Error) -> Option<Duration> {
    let seconds = status(error)?.details.as_ref()?.retry_after_seconds;
    Some(Duration::from_secs(seconds.into()))
}

/// Returns the Status of an error; `None` if the API server did not respond.
pub fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// Reports whether a retry fails with the same status until a person intervenes. Status 410 is an exception: a new list
/// request succeeds.
pub fn is_refusal(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 408 | 410 | 429)
}

/// Reports whether the API server is unavailable: the request got no response, or a server error. After an outage, the API
/// server may have another version.
pub fn is_outage(code: Option<u16>) -> bool {
    code.is_none_or(|code| code >= 500)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn api_server_determines_the_retry_delay() {
        let of = |status| {
            let status: Status = serde_json::from_value(status).unwrap();
            let status = Box::new(status);
            wait(&watcher::Error::WatchStartFailed(kube::Error::Api(status)))
        };
        assert_rows!(of(json!({"code": 429, "details": {"retryAfterSeconds": 7}})) => Some(Duration::from_secs(7)));
        assert_eq!(of(json!({"code": 429})), None);
        assert_eq!(wait(&watcher::Error::NoResourceVersion), None);
    }

    #[test]
    fn status_codes_are_classified_as_refusal_or_outage() {
        for (code, refuses, may_be_another) in [
            (None, false, true),
            (Some(500), false, true),
            (Some(503), false, true),
            (Some(401), true, false),
            (Some(403), true, false),
            (Some(404), true, false),
            (Some(410), false, false),
            (Some(429), false, false),
        ] {
            assert_eq!(code.is_some_and(is_refusal), refuses, "{code:?}");
            assert_eq!(is_outage(code), may_be_another, "{code:?}");
        }
    }
}
