//! Receiver of content from unpack Jobs and users.

use std::{error, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::{sync::mpsc, task, time};
use tracing::error;

use super::{
    Accepted, CONTENT_TYPE, DeclaredUpload, Rejection,
    verify::{self, BodyReader, Message},
};
use crate::{Digest, Options, SkippedEntries, Store, store::Stored};

/// Number of chunks that may wait for decompression.
const CHANNEL_CAPACITY: usize = 16;
/// Maximum size and time for reading the rest of a rejected body. A sender that writes to a closed connection may
/// lose the response.
const DRAIN_LIMIT: (u64, Duration) = (64 << 20, Duration::from_secs(10));
/// Value of `Retry-After` after an error of the receiver, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Settings of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Limits and selection. Claims are about the selected content, so select everything if claims are required.
    pub options: Options,
    /// Claims that the sender must make.
    pub demand: RequiredHeaders,
    /// Required digest of the content, in addition to the claims of the sender; `None` accepts any content.
    pub expected: Option<Digest>,
    /// Timeout without received data.
    pub idle: Duration,
    /// Timeout of the whole upload.
    pub total: Duration,
}

impl Default for ReceiveOptions {
    /// Returns the settings for unpack Jobs.
    fn default() -> Self {
        Self {
            options: Options::default(),
            demand: RequiredHeaders::Claims,
            expected: None,
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
        }
    }
}

/// The claims that a sender must make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredHeaders {
    /// All claims, as sent by unpack Jobs.
    Claims,
    /// No claims. Without claims about the content, the bundle may be in a top-level directory of the archive, as
    /// created by users. Claims that are made must be correct.
    Optional,
}

/// Content that was received and stored.
#[derive(Debug, Clone)]
pub struct StoredUpload {
    /// Content in the store.
    pub stored: Stored,
    /// Entries that are not regular files, and that the bundle does not need.
    pub skipped: SkippedEntries,
    /// Whether the store already had the content.
    pub already_stored: bool,
}

/// Receives content, verifies it with all its claims, and stores it. The caller authenticates and authorizes the
/// sender, and limits concurrent uploads, because each needs a thread and some MiB of memory.
///
/// # Errors
/// Returns an error if the content is rejected. No data is kept in this case.
pub async fn receive<B>(
    store: &Store,
    terms: &ReceiveOptions,
    request: Request<B>,
) -> Result<StoredUpload, Rejection>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let mut body = Box::pin(body);
    let result = receive_body(store, terms, &head.headers, &mut body).await;
    if result.is_err() {
        tokio::spawn(discard_rest(body));
    }
    result
}

/// Returns the response for a result.
pub fn answer(result: &Result<StoredUpload, Rejection>) -> Response<Bytes> {
    let (status, body) = match result {
        Ok(StoredUpload {
            stored,
            already_stored: known,
            ..
        }) => {
            let accepted = Accepted {
                digest: stored.digest.to_string(),
                size: stored.size,
            };
            let status = if *known {
                StatusCode::OK
            } else {
                StatusCode::CREATED
            };
            (status, serde_json::to_vec(&accepted))
        }
        Err(refusal) => (refusal.status(), serde_json::to_vec(&refusal.problem())),
    };
    // Serialization of two structs of strings and numbers cannot fail.
    let mut response = Response::new(Bytes::from(body.unwrap_or_default()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if status.is_server_error() {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

async fn receive_body<B>(
    store: &Store,
    terms: &ReceiveOptions,
    headers: &HeaderMap,
    body: &mut Pin<Box<B>>,
) -> Result<StoredUpload, Rejection>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn error::Error + Send + Sync>>,
{
    check_head(headers, terms.options.stream_limit())?;
    let claims = DeclaredUpload::read(headers)?;
    let mut options = terms.options.clone();
    options
        .spool
        .get_or_insert_with(|| store.spool().to_owned());
    let (messages, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let reading = task::spawn_blocking(move || verify::read(BodyReader::new(receiver), &options));

    let timed_out = |_| Rejection::Timeout { after: terms.total };
    let trailers = time::timeout(terms.total, forward_body(body, &messages, terms.idle)).await;
    let trailers = match trailers.map_err(timed_out).and_then(|result| result) {
        Ok(Some(trailers)) => {
            let _ = messages.send(Message::End).await; // fails if the reader has ended with an error
            trailers
        }
        Ok(None) => HeaderMap::new(), // the reader has ended and returns the reason
        Err(refusal) => return Err(refusal), // the reader ends when the channel closes
    };
    drop(messages);
    let archive = reading.await.map_err(|error| failed(&error))??;
    let claims = claims.merge(DeclaredUpload::read(&trailers)?)?;
    let (store, demand, expected) = (store.clone(), terms.demand, terms.expected);
    task::spawn_blocking(move || verify::pack_and_store(&store, demand, expected, &claims, archive))
        .await
        .map_err(|error| failed(&error))?
}

fn failed(error: &task::JoinError) -> Rejection {
    error!(%error, "failed to receive content");
    Rejection::Failed
}

/// Rejects a request by its headers, before the body is read.
fn check_head(headers: &HeaderMap, limit: u64) -> Result<(), Rejection> {
    let text = |name| {
        let value = headers.get(name)?;
        let text = String::from_utf8_lossy(value.as_bytes());
        Some(text.trim().to_ascii_lowercase())
    };
    let media = |found: String| Rejection::Media {
        found: found.chars().take(100).collect(),
    };
    // Parameters such as `; charset=binary` are irrelevant here.
    let is_gzip = |found: &String| {
        let kind = found.split(';').next().unwrap_or_default().trim();
        [
            CONTENT_TYPE,
            "application/x-gzip",
            "application/octet-stream",
        ]
        .contains(&kind)
    };
    if let Some(found) = text(header::CONTENT_TYPE).filter(|found| !is_gzip(found)) {
        return Err(media(found));
    }
    if let Some(found) = text(header::CONTENT_ENCODING)
        && found != "identity"
    {
        return Err(media(format!("additionally encoded with {found}")));
    }
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    match length {
        Some(size) if size > limit => Err(Rejection::TooLong { size, limit }),
        _ => Ok(()),
    }
}

/// Forwards the body to the reader. Returns its trailers, or `None` if the reader has ended.
async fn forward_body<B>(
    body: &mut Pin<Box<B>>,
    messages: &mpsc::Sender<Message>,
    idle: Duration,
) -> Result<Option<HeaderMap>, Rejection>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn error::Error + Send + Sync>>,
{
    let mut trailers = HeaderMap::new();
    loop {
        let frame = tokio::select! {
            frame = time::timeout(idle, body.frame()) => frame,
            () = messages.closed() => return Ok(None),
        };
        let frame = frame.map_err(|_| Rejection::Stalled { after: idle })?;
        let Some(frame) = frame else {
            return Ok(Some(trailers));
        };
        let frame = frame.map_err(|error| Rejection::Broken {
            source: error.into(),
        })?;
        match frame.into_data() {
            Ok(bytes) => {
                if messages.send(Message::Bytes(bytes)).await.is_err() {
                    return Ok(None);
                }
            }
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
}

/// Discards the rest of a body for a limited time, so that the sender reads the response.
async fn discard_rest<B: Body<Data = Bytes>>(mut body: Pin<Box<B>>) {
    let (limit, time) = DRAIN_LIMIT;
    let mut remaining = limit;
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
            let Some(after) = remaining.checked_sub(size) else {
                return;
            };
            remaining = after;
        }
    };
    let _ = time::timeout(time, read).await;
}
