//! Receives requests completely before they acquire a slot, because a client may never finish its request.
//!
//! Each request has a small buffer, which suffices for nearly all requests; larger requests share a budget. A client that
//! sends large requests slowly therefore delays only other large requests, and only for a moment.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Maximum size of a request in bytes. The API server sends each object that it reads from its storage in a separate
/// request, and accepts objects of at most three megabytes.
const MAX_SIZE: usize = 4 << 20;
/// Size in bytes of the buffer of each request. The number of concurrent requests is limited by the number of connections,
/// some hundred.
const SMALL_SIZE: usize = 256 << 10;
/// Maximum number of larger requests that are received, or wait for a slot with their content in memory.
const MAX_LARGE_REQUESTS: usize = 8;
/// Timeout for receiving a request; it restarts when the budget admits a larger request.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason why a request could not be received.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the request was not received within {} seconds", RECEIVE_TIMEOUT.as_secs())]
    Slow,
    #[error("the request is larger than {MAX_SIZE} bytes")]
    TooLarge,
    #[error("the request was interrupted")]
    Broken(#[from] axum::Error),
}

/// Memory budget of the requests.
#[derive(Debug, Clone)]
pub(super) struct MemoryBudget(Arc<Semaphore>);

/// Body of a request, with its share of the memory budget.
#[derive(Debug)]
pub(super) struct RequestBody {
    pub(super) bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

// === impl MemoryBudget ===

impl MemoryBudget {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LARGE_REQUESTS)))
    }

    /// Receives a request. A large request first waits for the memory budget.
    ///
    /// # Errors
    /// Returns an error if the request is incomplete, too slow or too large.
    pub(super) async fn read(&self, body: Body) -> Result<RequestBody, Error> {
        let (mut body, mut bytes) = (body.into_data_stream(), BytesMut::new());
        let mut permit = None;
        if !fill(&mut bytes, &mut body, SMALL_SIZE).await? {
            // The semaphore is never closed.
            permit = Arc::clone(&self.0).acquire_owned().await.ok();
            if !fill(&mut bytes, &mut body, MAX_SIZE).await? {
                return Err(Error::TooLarge);
            }
        }
        Ok(RequestBody {
            bytes: bytes.freeze(),
            _permit: permit,
        })
    }
}

/// Reads until `bytes` exceeds `max`. Returns true if the body ended before.
async fn fill(bytes: &mut BytesMut, body: &mut BodyDataStream, max: usize) -> Result<bool, Error> {
    let reading = async {
        while bytes.len() <= max {
            match body.try_next().await? {
                Some(chunk) => bytes.extend_from_slice(&chunk),
                None => return Ok(true),
            }
        }
        Ok(false)
    };
    timeout(RECEIVE_TIMEOUT, reading)
        .await
        .map_err(|_| Error::Slow)?
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use tokio::task::JoinHandle;

    use super::*;

    /// Returns a body of this size, which then ends or stalls.
    fn body(size: usize, ends: bool) -> Body {
        let parts = vec![Ok::<_, std::io::Error>(Bytes::from(vec![b'a'; size]))];
        let rest = stream::pending().take(usize::from(!ends));
        Body::from_stream(stream::iter(parts).chain(rest))
    }

    async fn size(room: &MemoryBudget, body: Body) -> Result<usize, String> {
        let read = room.read(body).await;
        read.map(|request| request.bytes.len())
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn incomplete_requests_are_reported() {
        let room = MemoryBudget::new();
        for fits in [0, 1, SMALL_SIZE, SMALL_SIZE + 1, MAX_SIZE] {
            assert_eq!(size(&room, body(fits, true)).await, Ok(fits));
        }
        let error = size(&room, body(MAX_SIZE + 1, true)).await.unwrap_err();
        assert!(error.contains("larger than 4194304 bytes"), "{error}");
        let error = size(&room, body(1, false)).await.unwrap_err();
        ::tests::assert_has(&error, "was not received within 3 seconds");
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("reset"))]);
        let error = size(&room, Body::from_stream(broken)).await.unwrap_err();
        assert!(error.contains("was interrupted"), "{error}");
        assert_eq!(room.0.available_permits(), MAX_LARGE_REQUESTS);
    }

    #[tokio::test]
    async fn slow_requests_do_not_block_others() {
        let room = MemoryBudget::new();
        let stalled = |size: usize, number: usize| -> Vec<_> {
            let rooms = (0..number).map(|_| room.clone());
            let read =
                |room: MemoryBudget| async move { self::size(&room, body(size, false)).await };
            rooms.map(|room| tokio::spawn(read(room))).collect()
        };
        let (few, many) = (stalled(1, 200), stalled(SMALL_SIZE + 1, MAX_LARGE_REQUESTS));
        while room.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(size(&room, body(SMALL_SIZE, true)).await, Ok(SMALL_SIZE));
        assert!(!few.iter().chain(&many).any(JoinHandle::is_finished));
        // A large request is received once the others have timed out.
        assert_eq!(size(&room, body(MAX_SIZE, true)).await, Ok(MAX_SIZE));
        for task in few.into_iter().chain(many) {
            assert!(task.await.unwrap().is_err());
        }
    }

    #[tokio::test]
    async fn large_request_holds_memory_until_it_is_answered() {
        let room = MemoryBudget::new();
        let small = room.read(body(SMALL_SIZE, true)).await.unwrap();
        assert_eq!(room.0.available_permits(), MAX_LARGE_REQUESTS);
        let large = room.read(body(SMALL_SIZE + 1, true)).await.unwrap();
        assert_eq!(room.0.available_permits(), MAX_LARGE_REQUESTS - 1);
        drop((small, large));
        assert_eq!(room.0.available_permits(), MAX_LARGE_REQUESTS);
    }
}
