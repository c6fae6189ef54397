//! Content on its way to a client.

use std::io::{self, Read};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use futures::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task,
};
use unpacker::{Digest, wire};

/// How many bytes are read at once.
const PART: usize = 64 << 10;
/// How many parts wait for the client.
const WAITING: usize = 4;

/// What reads from the store blocks, so it does that on a thread of its own, until the client has all or is gone.
pub(super) fn body(mut reader: impl Read + Send + 'static, turn: OwnedSemaphorePermit) -> Body {
    let (parts, mut inlet) = mpsc::channel::<io::Result<Bytes>>(WAITING);
    task::spawn_blocking(move || {
        let _turn = turn;
        loop {
            let mut buffer = vec![0; PART];
            let part = match reader.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    buffer.truncate(count);
                    Ok(buffer.into())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let last = part.is_err();
            if parts.blocking_send(part).is_err() || last {
                return;
            }
        }
    });
    Body::from_stream(stream::poll_fn(move |context| inlet.poll_recv(context)))
}

/// The tag by which clients know content again.
pub(super) fn tag(digest: &Digest) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("\"{digest}\"")).ok()
}

/// Reports whether the client has this already.
pub(super) fn is_known(headers: &HeaderMap, digest: &Digest) -> bool {
    let tag = format!("\"{digest}\"");
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().trim_start_matches("W/"))
        .any(|value| value == tag || value == "*")
}

/// The answer with an archive in it.
pub(super) fn archive(digest: &Digest, body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(wire::CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    tagged(response, digest)
}

/// The answer to a client that has it.
pub(super) fn unchanged(digest: &Digest) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    tagged(response, digest)
}

fn tagged(mut response: Response, digest: &Digest) -> Response {
    if let Some(tag) = tag(digest) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_the_content_is_not_sent_it_again() {
        let digest = Digest::of(b"content");
        let other = Digest::of(b"other");
        for (value, known) in [
            (format!("\"{digest}\""), true),
            (format!("W/\"{digest}\""), true),
            (format!("\"{other}\", \"{digest}\""), true),
            ("*".to_owned(), true),
            (format!("\"{other}\""), false),
            (digest.to_string(), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, value.parse().unwrap());
            assert_eq!(is_known(&headers, &digest), known, "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), &digest));
    }
}
