//! Streams content to clients.

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
use unpacker::{Digest, transfer};

/// Size of one chunk in bytes.
const CHUNK_SIZE: usize = 64 << 10;
/// Number of chunks that wait for the client.
const CHANNEL_CAPACITY: usize = 4;

/// Returns a body that streams from the store. Reads block, so they run on a blocking thread until the client has received
/// all bytes or disconnects.
pub(super) fn body(mut reader: impl Read + Send + 'static, slot: OwnedSemaphorePermit) -> Body {
    let (chunks, mut inlet) = mpsc::channel::<io::Result<Bytes>>(CHANNEL_CAPACITY);
    task::spawn_blocking(move || {
        let _slot = slot;
        loop {
            let mut buffer = vec![0; CHUNK_SIZE];
            let chunk = match reader.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    buffer.truncate(count);
                    Ok(buffer.into())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let last = chunk.is_err();
            if chunks.blocking_send(chunk).is_err() || last {
                return;
            }
        }
    });
    Body::from_stream(stream::poll_fn(move |context| inlet.poll_recv(context)))
}

/// Returns a body with an archive in memory. The slot is released with the last chunk, or when the client disconnects.
pub(super) fn bytes(archive: Bytes, slot: OwnedSemaphorePermit) -> Body {
    let chunks = stream::unfold((archive, slot), |(mut rest, slot)| async move {
        let chunk = rest.split_to(rest.len().min(CHUNK_SIZE));
        (!chunk.is_empty()).then_some((Ok::<_, io::Error>(chunk), (rest, slot)))
    });
    Body::from_stream(chunks)
}

/// Returns the ETag of content.
pub(super) fn tag(digest: &Digest) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("\"{digest}\"")).ok()
}

/// Reports whether the client has this content already (`If-None-Match`).
pub(super) fn is_known(headers: &HeaderMap, digest: &Digest) -> bool {
    let tag = format!("\"{digest}\"");
    let tags = headers.get_all(header::IF_NONE_MATCH).iter();
    tags.filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().trim_start_matches("W/"))
        .any(|value| value == tag || value == "*")
}

/// Returns a response with an archive.
pub(super) fn archive(digest: &Digest, body: Body) -> Response {
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static(transfer::CONTENT_TYPE);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    tagged(response, digest)
}

/// Returns a response for a client that has the content already.
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
    use std::sync::Arc;

    use http_body_util::BodyExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn slot_is_released_with_the_last_chunk() {
        let slots = Arc::new(Semaphore::new(1));
        let archive = Bytes::from(vec![7; 2 * CHUNK_SIZE + 1]);
        let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
        let (mut body, mut received) = (bytes(archive.clone(), slot), Vec::new());
        while let Some(frame) = body.frame().await {
            received.extend_from_slice(&frame.unwrap().into_data().unwrap());
            assert_eq!(slots.available_permits(), 0);
        }
        assert_eq!(slots.available_permits(), 1);
        assert_eq!(received, archive);
        // The client disconnects.
        let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
        drop(bytes(archive, slot));
        assert_eq!(slots.available_permits(), 1);
    }

    #[test]
    fn matching_etag_returns_not_modified() {
        let digest = Digest::sha256(b"content");
        let other = Digest::sha256(b"other");
        for (value, is_match) in [
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
            assert_eq!(is_known(&headers, &digest), is_match, "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), &digest));
    }
}
