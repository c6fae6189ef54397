//! Fence between the controllers and the API server: stops the writes of a replica that lost the Lease.
//!
//! A suspended process does not notice its suspension. When it resumes, running operations continue before the Lease is
//! checked, and another replica may lead already. Therefore every write checks the clock first.

use std::{
    future,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Method, Request};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Service};

/// Time until which this replica may write; unlimited if none is set. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<Mutex<Option<Instant>>>);

/// Service of a client behind a fence.
#[derive(Clone)]
pub(crate) struct Fenced<S> {
    service: S,
    fence: Fence,
}

/// Reason why a request was not sent.
#[derive(Debug, thiserror::Error)]
#[error("failed to renew the Lease in time; no longer leading")]
struct FenceClosed;

impl Fence {
    /// Allows writes until `end`, when the Lease expires.
    pub(crate) fn close_at(&self, end: Instant) {
        *self.0.lock() = Some(end);
    }

    fn is_open(&self) -> bool {
        let end = *self.0.lock();
        end.is_none_or(|end| Instant::now() < end)
    }
}

impl<S> Fenced<S> {
    pub(crate) fn new(service: S, fence: Fence) -> Self {
        Self { service, fence }
    }
}

impl<S> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>, Error = BoxError>,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.method() == Method::GET || self.fence.is_open() {
            self.service.call(request).boxed()
        } else {
            future::ready(Err(FenceClosed.into())).boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fence_is_open_while_the_lease_is_held() {
        let fence = Fence::default();
        assert!(fence.is_open(), "without leader election");
        let now = Instant::now();
        fence.close_at(now);
        assert!(!fence.clone().is_open());
        fence.close_at(now + Duration::from_secs(60));
        assert!(fence.is_open());
    }
}
