//! Responses without content.

use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};
use unpacker::transfer::Problem;

/// Delay in seconds after which a client may retry.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Returns an error response with a reason and a message.
pub(super) fn problem(status: StatusCode, reason: &str, message: impl Into<String>) -> Response {
    let problem = Problem {
        reason: reason.to_owned(),
        message: message.into(),
    };
    // Serializing two strings does not fail.
    let mut body = serde_json::to_vec(&problem).unwrap_or_default();
    body.push(b'\n');
    let mut response = json(status, body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

pub(super) fn not_found(message: impl Into<String>) -> Response {
    problem(StatusCode::NOT_FOUND, "NotFound", message)
}

pub(super) fn conflict(reason: &str, message: impl Into<String>) -> Response {
    problem(StatusCode::CONFLICT, reason, message)
}

pub(super) fn unavailable(message: impl Into<String>) -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message)
}
