//! Download of blobs with size and digest verification. A broken transfer resumes where the connection was lost.

use std::{pin::Pin, sync::Arc, time::Instant};

use bytes::{Buf as _, Bytes};
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;

use super::{
    Error, Result,
    checksum::{Checksum, Hasher},
    session::Session,
};
use crate::{
    Progress,
    http_client::{self, Reader, Response, Timeouts},
};

/// Progress in bytes that resets the attempt counter. A large blob may lose its connection more often than a small
/// one. The minimum stops a server from keeping a download open with a byte per connection.
const MIN_PROGRESS: u64 = 8 << 20;

/// A blob of an image, with the digest and size that its manifest declares.
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    /// Name of the blob in error messages.
    pub(crate) what: String,
    pub(crate) digest: Checksum,
    pub(crate) size: u64,
}

/// The cause of a failed download. It is shared with the code that reads the blob, because [`Reader`] reports only
/// that reading failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    pub(crate) fn download(&self) -> Option<Error> {
        self.0.lock().take()
    }
}

impl Blob {
    /// Downloads the whole blob into memory. Use it for small blobs only.
    pub(crate) async fn bytes(self, session: &Session, timeouts: &Timeouts) -> Result<Bytes> {
        let mut transfer =
            BlobTransfer::new(session.clone(), self, timeouts.clone(), Progress::default());
        let mut bytes = Vec::new();
        while let Some(part) = transfer.next().await? {
            bytes.extend_from_slice(&part);
        }
        Ok(bytes.into())
    }

    /// Returns a blocking reader of the blob. The digest is verified when the end of the blob is read, not before.
    pub(crate) fn reader(
        self,
        session: &Session,
        timeouts: &Timeouts,
        progress: &Progress,
    ) -> (Reader, Failure) {
        let failure = Failure::default();
        let transfer = BlobTransfer::new(session.clone(), self, timeouts.clone(), progress.clone());
        (
            http_client::reader(transfer.into_stream(failure.clone())),
            failure,
        )
    }
}

/// A running download of one blob.
struct BlobTransfer {
    session: Session,
    blob: Blob,
    timeouts: Timeouts,
    progress: Progress,
    started: Instant,
    body: Option<Pin<Box<dyn Stream<Item = http_client::Result<Bytes>> + Send>>>,
    hasher: Hasher,
    read: u64,
    /// Bytes to discard from the next response, because the server ignored the range and starts at the beginning.
    skip: u64,
    attempts: u32,
    /// Value of `read` when `attempts` was last reset.
    reset_at: u64,
}

impl BlobTransfer {
    fn new(session: Session, blob: Blob, timeouts: Timeouts, progress: Progress) -> Self {
        Self {
            hasher: blob.digest.hasher(),
            session,
            blob,
            timeouts,
            progress,
            started: Instant::now(),
            body: None,
            read: 0,
            skip: 0,
            attempts: 0,
            reset_at: 0,
        }
    }

    fn into_stream(
        self,
        failure: Failure,
    ) -> impl Stream<Item = Result<Bytes, &'static str>> + Send + Unpin + 'static {
        Box::pin(stream::try_unfold(
            (self, failure),
            async |(mut transfer, failure)| match transfer.next().await {
                Ok(part) => Ok(part.map(|part| (part, (transfer, failure)))),
                Err(error) => {
                    *failure.0.lock() = Some(error);
                    Err("the transfer failed")
                }
            },
        ))
    }

    /// Returns the next bytes, or `None` when all bytes have arrived and their digest matches.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let Some(body) = &mut self.body else {
                if self.read == self.blob.size {
                    self.blob
                        .digest
                        .verify(self.hasher.clone(), &self.blob.what)?;
                    return Ok(None);
                }
                self.open().await?;
                continue;
            };
            match body.next().await {
                Some(Ok(mut part)) => {
                    let skipped = usize::try_from(self.skip)
                        .unwrap_or(usize::MAX)
                        .min(part.len());
                    part.advance(skipped);
                    self.skip -= skipped as u64;
                    if part.is_empty() {
                        continue;
                    }
                    let read = self.read + part.len() as u64;
                    if read > self.blob.size {
                        return Err(self.size("more than"));
                    }
                    self.read = read;
                    self.hasher.update(&part);
                    self.progress.add(part.len() as u64);
                    return Ok(Some(part));
                }
                Some(Err(error)) => self.back_off(error).await?,
                None if self.read == self.blob.size => self.body = None,
                None => return Err(self.size("fewer than")),
            }
        }
    }

    /// Requests the bytes that have not arrived yet.
    async fn open(&mut self) -> Result<()> {
        self.attempts += 1;
        let mut headers = HeaderMap::new();
        if self.read > 0
            && let Ok(range) = HeaderValue::try_from(format!("bytes={}-", self.read))
        {
            headers.insert(header::RANGE, range);
        }
        let path = format!("blobs/{}", self.blob.digest);
        let response = self.session.get(&path, headers).await?;
        if response.status == StatusCode::RANGE_NOT_SATISFIABLE && self.read > 0 {
            return Err(self.size("fewer than"));
        }
        let statuses = match self.read {
            0 => &[StatusCode::OK][..],
            _ => &[StatusCode::OK, StatusCode::PARTIAL_CONTENT][..],
        };
        let name = || self.blob.what.clone();
        let response = self
            .session
            .expect(response, statuses, "fetch", name)
            .await?;
        self.skip = if response.status == StatusCode::PARTIAL_CONTENT {
            self.check_range(&response)?;
            0
        } else {
            self.read
        };
        let remaining = self.blob.size - self.read + self.skip;
        match response.size() {
            Some(size) if size > remaining => return Err(self.size("more than")),
            Some(size) if size < remaining => return Err(self.size("fewer than")),
            _ => {}
        }
        self.body = Some(Box::pin(response.into_body()));
        Ok(())
    }

    /// Verifies that the server sends the requested range.
    fn check_range(&self, response: &Response) -> Result<()> {
        let range = response.headers.get(header::CONTENT_RANGE);
        let range = range
            .and_then(|range| range.to_str().ok())
            .unwrap_or_default();
        let start = range
            .strip_prefix("bytes ")
            .and_then(|range| range.split_once('-'));
        if start.is_some_and(|(start, _)| start.parse() == Ok(self.read)) {
            return Ok(());
        }
        Err(Error::Invalid {
            what: self.blob.what.clone(),
            problem: "was requested from an offset, but the registry sent another range".to_owned(),
        })
    }

    /// Waits before the next attempt. Fails if the attempts or the total time are used up.
    async fn back_off(&mut self, error: http_client::Error) -> Result<()> {
        self.body = None;
        if self.read - self.reset_at >= MIN_PROGRESS {
            self.reset_at = self.read;
            self.attempts = 1;
        }
        let doubled = 2u32.saturating_pow(self.attempts.saturating_sub(1));
        let delay = self.timeouts.retry_delay.saturating_mul(doubled);
        let delay = delay.mul_f64(0.5 + fastrand::f64() / 2.0);
        let out_of_time = self.started.elapsed() + delay >= self.timeouts.total;
        if self.attempts >= self.timeouts.attempts || out_of_time {
            return Err(Error::Interrupted {
                what: self.blob.what.clone(),
                tries: self.attempts,
                read: self.read,
                source: error,
            });
        }
        tracing::debug!(blob = %self.blob.digest, read = self.read, %error, "resuming a transfer");
        tokio::time::sleep(delay).await;
        Ok(())
    }

    fn size(&self, problem: &'static str) -> Error {
        Error::Size {
            what: self.blob.what.clone(),
            problem,
            expected: self.blob.size,
        }
    }
}
