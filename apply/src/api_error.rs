//! Errors of the API server: their message, their status code, the delay that it requests, and whether it is unavailable.

use std::{error::Error, time::Duration};

use kube::{
    core::{Status, response::StatusCause},
    runtime::watcher,
};

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

/// Formats an error and its sources on one line, like [`manifests::error::chain`]. A response of the API server is
/// formatted as its message, because [`kube::Error`] formats all fields of the Status for debugging.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    manifests::error::chain_until(error, |error| response(error).map(message))
}

/// Returns the message of a Status; the code and the reason if the message is empty.
pub fn message(status: &Status) -> String {
    match status.message.trim() {
        "" => format!("the API server returned {} {}", status.code, status.reason)
            .trim_end()
            .to_owned(),
        message => message.to_owned(),
    }
}

/// Returns the causes of a rejected server-side apply that report fields of other managers.
pub fn field_conflicts(status: &Status) -> impl Iterator<Item = &StatusCause> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.filter(|cause| cause.reason == "FieldManagerConflict")
}

/// Returns the Status if the error is a response of the API server. A source may be boxed.
fn response<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    if let Some(status) = error.downcast_ref::<Box<Status>>() {
        return Some(status);
    }
    let boxed = error.downcast_ref::<Box<kube::Error>>();
    let error = boxed.map(|error| &**error).or_else(|| error.downcast_ref());
    match error? {
        kube::Error::Api(status) => Some(status),
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
    use std::io;

    use kube::runtime::controller;
    use serde_json::json;

    use super::*;

    const MESSAGE: &str = "secrets \"b\" not found";

    #[derive(Debug, thiserror::Error)]
    enum TestError {
        #[error("failed to get Secret a/b")]
        Request(#[source] Box<kube::Error>),
        #[error("failed to get Secret a/b: {}", chain(.0))]
        WithMessage(#[source] kube::Error),
        #[error("client error (Connect)")]
        Connect(#[source] io::Error),
    }

    fn rejected(message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "NotFound").with_code(404).boxed())
    }

    fn disconnected() -> kube::Error {
        kube::Error::Service(TestError::Connect(io::Error::other("refused")).into())
    }

    #[test]
    fn responses_are_formatted_as_their_messages() {
        let watch_error = || watcher::Error::WatchStartFailed(rejected(MESSAGE));
        assert_rows! {
            chain(&rejected(MESSAGE)) => MESSAGE;
            chain(&rejected("")) => "the API server returned 404 NotFound";
            chain(&TestError::Request(Box::new(rejected(MESSAGE)))) => format!("failed to get Secret a/b: {MESSAGE}");
            chain(&TestError::WithMessage(rejected(MESSAGE))) => format!("failed to get Secret a/b: {MESSAGE}");
            chain(&watch_error()) => format!("failed to start watching object: {MESSAGE}");
            chain(&watcher::Error::WatchError(Status::failure(MESSAGE, "Expired").boxed())).ends_with(MESSAGE) => true;
            chain(&controller::Error::<TestError, _>::QueueError(watch_error()))
                => format!("event queue error: failed to start watching object: {MESSAGE}");
        }
    }

    #[test]
    fn other_errors_are_formatted_with_their_sources() {
        let text = "ServiceError: client error (Connect): refused";
        assert_rows! {
            chain(&disconnected()) => text;
            chain(&TestError::Request(Box::new(disconnected()))) => format!("failed to get Secret a/b: {text}");
            chain(&TestError::WithMessage(disconnected())) => format!("failed to get Secret a/b: {text}");
            chain(&watcher::Error::WatchFailed(disconnected())) => format!("watch stream failed: {text}");
            chain(&watcher::Error::NoResourceVersion) => manifests::error::chain(&watcher::Error::NoResourceVersion);
        }
    }

    #[test]
    fn api_server_determines_the_retry_delay() {
        let of = |status| {
            let status = Box::new(serde_json::from_value(status).unwrap());
            wait(&watcher::Error::WatchStartFailed(kube::Error::Api(status)))
        };
        assert_rows!(of(json!({"code": 429, "details": {"retryAfterSeconds": 7}})) => Some(Duration::from_secs(7)));
        assert_eq!(of(json!({"code": 429})), None);
        assert_eq!(wait(&watcher::Error::NoResourceVersion), None);
    }

    #[test]
    fn status_codes_are_classified_as_refusal_or_outage() {
        assert_each!(|code, refusal_and_outage| (code.is_some_and(is_refusal), is_outage(code)) => refusal_and_outage;
            None => (false, true);
            Some(500) => (false, true);
            Some(503) => (false, true);
            Some(401) => (true, false);
            Some(403) => (true, false);
            Some(404) => (true, false);
            Some(410) => (false, false);
            Some(429) => (false, false);
        );
    }
}
