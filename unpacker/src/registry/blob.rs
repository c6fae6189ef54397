//! Blobs as they arrive: counted, checked, and taken up again where a connection broke.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use bytes::{Buf as _, Bytes};
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{
    Error, Result,
    checksum::{Checksum, Hasher},
    session::Session,
};
use crate::{
    fetch::Progress,
    web::{self, Patience, Reader, Response},
};

/// After this many bytes the tries that they took are forgotten: a large blob may break off more often than a small
/// one, but nobody keeps us for a byte at a time.
const FORGIVEN: u64 = 8 << 20;

/// What to fetch.
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    /// For messages.
    pub(crate) what: String,
    pub(crate) digest: Checksum,
    pub(crate) size: u64,
}

/// Why a blob did not arrive, for whoever notices only that the reader failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    pub(crate) fn take(&self) -> Option<Error> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blob {
    /// All of it, if it is small.
    pub(crate) async fn bytes(self, session: &Session, patience: &Patience) -> Result<Bytes> {
        let mut transfer =
            Transfer::new(session.clone(), self, patience.clone(), Progress::default());
        let mut bytes = Vec::new();
        while let Some(part) = transfer.next().await? {
            bytes.extend_from_slice(&part);
        }
        Ok(bytes.into())
    }

    /// Lets the blob be read where blocking is allowed. It is checked when its end is read, and not before.
    pub(crate) fn reader(
        self,
        session: &Session,
        patience: &Patience,
        progress: &Progress,
    ) -> (Reader, Failure) {
        let failure = Failure::default();
        let transfer = Transfer::new(session.clone(), self, patience.clone(), progress.clone());
        (web::reader(transfer.into_stream(failure.clone())), failure)
    }
}

/// A blob on its way.
struct Transfer {
    session: Session,
    blob: Blob,
    patience: Patience,
    progress: Progress,
    begun: Instant,
    body: Option<Pin<Box<dyn Stream<Item = web::Result<Bytes>> + Send>>>,
    hasher: Hasher,
    read: u64,
    /// What is sent once more, since the server starts at the beginning.
    skip: u64,
    tries: u32,
    /// What had been read when the tries were last forgotten.
    forgiven: u64,
}

impl Transfer {
    fn new(session: Session, blob: Blob, patience: Patience, progress: Progress) -> Self {
        Self {
            hasher: blob.digest.hasher(),
            session,
            blob,
            patience,
            progress,
            begun: Instant::now(),
            body: None,
            read: 0,
            skip: 0,
            tries: 0,
            forgiven: 0,
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
                    *failure.lock() = Some(error);
                    Err("the transfer failed")
                }
            },
        ))
    }

    /// The next bytes; `None` when all of them have arrived and have the right digest.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let Some(body) = &mut self.body else {
                if self.read == self.blob.size {
                    self.blob
                        .digest
                        .expect(self.hasher.clone(), &self.blob.what)?;
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
                Some(Err(error)) => self.broken(error).await?,
                None if self.read == self.blob.size => self.body = None,
                None => return Err(self.size("fewer than")),
            }
        }
    }

    /// Asks for what is missing.
    async fn open(&mut self) -> Result<()> {
        self.tries += 1;
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
        let what = || self.blob.what.clone();
        let response = self
            .session
            .expect(response, statuses, "fetch", what)
            .await?;
        self.skip = if response.status == StatusCode::PARTIAL_CONTENT {
            self.check_range(&response)?;
            0
        } else {
            self.read
        };
        let rest = self.blob.size - self.read + self.skip;
        match response.size() {
            Some(size) if size > rest => return Err(self.size("more than")),
            Some(size) if size < rest => return Err(self.size("fewer than")),
            _ => {}
        }
        self.body = Some(Box::pin(response.into_body()));
        Ok(())
    }

    /// Whether the server gives the part that was asked for.
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
            problem: "was asked for from where it broke off, and another part of it came"
                .to_owned(),
        })
    }

    /// Waits before the rest is asked for, unless that was done too often or for too long.
    async fn broken(&mut self, error: web::Error) -> Result<()> {
        self.body = None;
        if self.read - self.forgiven >= FORGIVEN {
            self.forgiven = self.read;
            self.tries = 1;
        }
        let doubled = 2u32.saturating_pow(self.tries.saturating_sub(1));
        let pause = self.patience.pause.saturating_mul(doubled);
        let pause = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        let late = self.begun.elapsed() + pause >= self.patience.total;
        if self.tries >= self.patience.tries || late {
            return Err(Error::Interrupted {
                what: self.blob.what.clone(),
                tries: self.tries,
                read: self.read,
                source: error,
            });
        }
        tracing::debug!(blob = %self.blob.digest, read = self.read, %error, "taking up a transfer again");
        tokio::time::sleep(pause).await;
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
