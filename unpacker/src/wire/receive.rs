//! The one door through which content comes in from elsewhere.

use std::{error, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::{sync::mpsc, task, time};
use tracing::error;

use super::{
    Accepted, CONTENT_TYPE, Claims, Refusal,
    check::{self, Inlet, Part},
};
use crate::{Digest, Options, SkippedEntries, Store, store::Stored};

/// How many parts of a body may wait to be inflated.
const WAITING: usize = 16;
/// What is still read of a body that was refused, so that the sender gets to see the answer: who writes into a closed
/// connection may never read what came before.
const REST: (u64, Duration) = (64 << 20, Duration::from_secs(10));
/// When to come back if it is our own fault.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Under what conditions content is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// How much may come. What is selected is what claims are about; with claims, select everything.
    pub options: Options,
    /// Which claims must be there.
    pub demand: Demand,
    /// Digest that the content must have, besides the claims of the sender; `None` accepts any content.
    pub expected: Option<Digest>,
    /// How long nothing may come.
    pub idle: Duration,
    /// How long all of it may take.
    pub total: Duration,
}

impl Default for Terms {
    /// As for a Job.
    fn default() -> Self {
        Self {
            options: Options::default(),
            demand: Demand::Claims,
            expected: None,
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
        }
    }
}

/// Which claims must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// All: a Job sends them.
    Claims,
    /// None, and a bundle may lie in one folder of the archive, as people pack it, unless there are claims about the
    /// content. Those that are made must be right.
    Nothing,
}

/// Content that was taken.
#[derive(Debug, Clone)]
pub struct Received {
    /// Where it is now.
    pub stored: Stored,
    /// Entries that are not regular files, and that the bundle does not need.
    pub skipped: SkippedEntries,
    /// Whether it was there before.
    pub known: bool,
}

/// Takes content in: checks all of it and all that is claimed about it, and stores it then. Who sends what, and may,
/// is for the caller to check before; and how many do at once, for each takes a thread and some MiB while it comes.
///
/// # Errors
/// When it is not taken; nothing is kept of it then.
pub async fn receive<B>(
    store: &Store,
    terms: &Terms,
    request: Request<B>,
) -> Result<Received, Refusal>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let mut body = Box::pin(body);
    let result = take(store, terms, &head.headers, &mut body).await;
    if result.is_err() {
        tokio::spawn(drain(body));
    }
    result
}

/// The answer to whoever sent it.
pub fn answer(result: &Result<Received, Refusal>) -> Response<Bytes> {
    let (status, body) = match result {
        Ok(Received { stored, known, .. }) => {
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
    // Two structs of texts and numbers cannot fail to become JSON.
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

async fn take<B>(
    store: &Store,
    terms: &Terms,
    headers: &HeaderMap,
    body: &mut Pin<Box<B>>,
) -> Result<Received, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn error::Error + Send + Sync>>,
{
    check_head(headers, terms.options.stream_limit())?;
    let claims = Claims::read(headers)?;
    let mut options = terms.options.clone();
    options
        .spool
        .get_or_insert_with(|| store.spool().to_owned());
    let (parts, inlet) = mpsc::channel(WAITING);
    let reading = task::spawn_blocking(move || check::read(Inlet::new(inlet), &options));

    let late = |_| Refusal::Late { after: terms.total };
    let trailers = time::timeout(terms.total, pump(body, &parts, terms.idle)).await;
    let trailers = match trailers.map_err(late).and_then(|result| result) {
        Ok(Some(trailers)) => {
            let _ = parts.send(Part::End).await; // it may have ended with an error
            trailers
        }
        Ok(None) => HeaderMap::new(), // the reader has ended, and knows why
        Err(refusal) => return Err(refusal), // and the reader comes to know as the channel closes
    };
    drop(parts);
    let taken = reading.await.map_err(|error| failed(&error))??;
    let claims = claims.and(Claims::read(&trailers)?)?;
    let (store, demand, expected) = (store.clone(), terms.demand, terms.expected);
    task::spawn_blocking(move || check::keep(&store, demand, expected, &claims, taken))
        .await
        .map_err(|error| failed(&error))?
}

fn failed(error: &task::JoinError) -> Refusal {
    error!(%error, "receiving content failed");
    Refusal::Failed
}

/// What can be refused before anything of the body has come.
fn check_head(headers: &HeaderMap, limit: u64) -> Result<(), Refusal> {
    let text = |name| {
        let value = headers.get(name)?;
        let text = String::from_utf8_lossy(value.as_bytes());
        Some(text.trim().to_ascii_lowercase())
    };
    let media = |found: String| Refusal::Media {
        found: found.chars().take(100).collect(),
    };
    // Parameters, as in `; charset=binary`, say nothing here.
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
        return Err(media(format!("encoded with {found} on top")));
    }
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    match length {
        Some(size) if size > limit => Err(Refusal::TooLong { size, limit }),
        _ => Ok(()),
    }
}

/// Passes the body on. Gives back its trailers, or nothing if the reader has ended.
async fn pump<B>(
    body: &mut Pin<Box<B>>,
    parts: &mpsc::Sender<Part>,
    idle: Duration,
) -> Result<Option<HeaderMap>, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn error::Error + Send + Sync>>,
{
    let mut trailers = HeaderMap::new();
    loop {
        let frame = tokio::select! {
            frame = time::timeout(idle, body.frame()) => frame,
            () = parts.closed() => return Ok(None),
        };
        let frame = frame.map_err(|_| Refusal::Stalled { after: idle })?;
        let Some(frame) = frame else {
            return Ok(Some(trailers));
        };
        let frame = frame.map_err(|error| Refusal::Broken {
            source: error.into(),
        })?;
        match frame.into_data() {
            Ok(bytes) => {
                if parts.send(Part::Bytes(bytes)).await.is_err() {
                    return Ok(None);
                }
            }
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
}

/// Reads on for a while, for the sake of the answer.
async fn drain<B: Body<Data = Bytes>>(mut body: Pin<Box<B>>) {
    let (most, time) = REST;
    let mut left = most;
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
            let Some(rest) = left.checked_sub(size) else {
                return;
            };
            left = rest;
        }
    };
    let _ = time::timeout(time, read).await;
}
