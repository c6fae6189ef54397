//! What a request says, read before it takes anybody's turn: whoever sends may never come to an end.
//!
//! Each request has a little room of its own, in which nearly all fit; those that are larger share some. So whoever sends much
//! and slowly is in the way of nobody but of others who send much, and for a moment only.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How much a request may say. An API server asks for each object that it reads from its storage by itself, and takes none that
/// is larger than three megabytes.
const LARGEST: usize = 4 << 20;
/// Room that each request has of its own. There are as many requests at once as there are connections, some hundred.
const OWN: usize = 256 << 10;
/// How many requests that are larger are read at once, or wait for their turn with all that they say.
const LARGE: usize = 8;
/// How long a request may take to come; and so long again from when there is room for a larger one.
const COMING: Duration = Duration::from_secs(3);

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the request did not come within {} seconds", COMING.as_secs())]
    Slow,
    #[error("the request is larger than {LARGEST} bytes")]
    TooLarge,
    #[error("the request broke off")]
    Broken(#[from] axum::Error),
}

/// Where requests are while they are read and answered.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Semaphore>);

/// All that a request says, and the room that it takes.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) bytes: Bytes,
    _place: Option<OwnedSemaphorePermit>,
}

// === impl Room ===

impl Room {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(LARGE)))
    }

    /// Reads a request, and waits for room if it is large.
    ///
    /// # Errors
    /// When it does not come, or there is too much of it.
    pub(super) async fn read(&self, body: Body) -> Result<Read, Error> {
        let (mut body, mut bytes) = (body.into_data_stream(), BytesMut::new());
        let mut place = None;
        if !fill(&mut bytes, &mut body, OWN).await? {
            // Never closed.
            place = Arc::clone(&self.0).acquire_owned().await.ok();
            if !fill(&mut bytes, &mut body, LARGEST).await? {
                return Err(Error::TooLarge);
            }
        }
        Ok(Read {
            bytes: bytes.freeze(),
            _place: place,
        })
    }
}

/// Reads until there is more than `most`; says whether it has ended before.
async fn fill(bytes: &mut BytesMut, body: &mut BodyDataStream, most: usize) -> Result<bool, Error> {
    let reading = async {
        while bytes.len() <= most {
            match body.try_next().await? {
                Some(part) => bytes.extend_from_slice(&part),
                None => return Ok(true),
            }
        }
        Ok(false)
    };
    timeout(COMING, reading).await.map_err(|_| Error::Slow)?
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use tokio::task::JoinHandle;

    use super::*;

    /// A body that has this much, and then says nothing more or ends.
    fn body(size: usize, ends: bool) -> Body {
        let parts = vec![Ok::<_, std::io::Error>(Bytes::from(vec![b'a'; size]))];
        let parts = stream::iter(parts);
        if ends {
            Body::from_stream(parts)
        } else {
            Body::from_stream(parts.chain(stream::pending()))
        }
    }

    async fn size(room: &Room, body: Body) -> Result<usize, String> {
        let read = room.read(body).await;
        read.map(|it| it.bytes.len())
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_request_is_read_whole_or_told_why_not() {
        let room = Room::new();
        for fits in [0, 1, OWN, OWN + 1, LARGEST] {
            assert_eq!(size(&room, body(fits, true)).await, Ok(fits));
        }
        let told = size(&room, body(LARGEST + 1, true)).await.unwrap_err();
        assert!(told.contains("larger than 4194304 bytes"), "{told}");
        let told = size(&room, body(1, false)).await.unwrap_err();
        assert!(told.contains("did not come within 3 seconds"), "{told}");
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]);
        let told = size(&room, Body::from_stream(broken)).await.unwrap_err();
        assert!(told.contains("broke off"), "{told}");
        assert_eq!(room.0.available_permits(), LARGE);
    }

    #[tokio::test]
    async fn who_sends_slowly_is_in_nobodys_way() {
        let room = Room::new();
        let stalled = |size: usize, number: usize| -> Vec<_> {
            let rooms = (0..number).map(|_| room.clone());
            let read = |room: Room| async move { self::size(&room, body(size, false)).await };
            rooms.map(|room| tokio::spawn(read(room))).collect()
        };
        let (few, many) = (stalled(1, 200), stalled(OWN + 1, LARGE));
        while room.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(size(&room, body(OWN, true)).await, Ok(OWN));
        assert!(!few.iter().chain(&many).any(JoinHandle::is_finished));
        // A large one has its turn when others have had their time.
        assert_eq!(size(&room, body(LARGEST, true)).await, Ok(LARGEST));
        for it in few.into_iter().chain(many) {
            assert!(it.await.unwrap().is_err());
        }
    }

    #[tokio::test]
    async fn a_large_request_takes_room_until_it_is_answered() {
        let room = Room::new();
        let small = room.read(body(OWN, true)).await.unwrap();
        assert_eq!(room.0.available_permits(), LARGE);
        let large = room.read(body(OWN + 1, true)).await.unwrap();
        assert_eq!(room.0.available_permits(), LARGE - 1);
        drop((small, large));
        assert_eq!(room.0.available_permits(), LARGE);
    }
}
