//! Leader election: of several replicas, only the holder of a Lease runs controllers.
//!
//! The holder renews the Lease every sixth of its duration, retries a failed renewal after a quarter of that time, and stops
//! leading if it cannot renew for two thirds of the duration. That is before another replica can take over: each of them
//! waits, by its own clock, for the whole duration since the last change that it observed. The [`Fence`] stops writes that
//! are still in progress.

mod claim;

use std::time::Duration;

use apply::api_error;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease as Object, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::fence::Fence;
use claim::{LeaseAction, ObservedLease};

/// Name of the Lease.
pub(crate) const NAME: &str = "core.rukpak.io";

/// The Lease from the view of one replica.
pub(crate) struct LeaderLease {
    api: Api<Object>,
    /// Unique identity of this replica.
    identity: String,
    duration: Duration,
    /// Lease as written last by this replica. Unless another replica writes, it need not be read before it is renewed.
    written: Mutex<Option<Object>>,
    fence: Fence,
}

/// Result of an attempt to acquire or renew the Lease.
enum LeaseOutcome {
    Held,
    HeldByOther(String),
    /// Another replica wrote at the same moment.
    Conflict,
}

impl LeaderLease {
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        identity: String,
        duration: Duration,
        fence: Fence,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            identity,
            duration,
            written: Mutex::default(),
            fence,
        }
    }

    fn period(&self) -> Duration {
        self.duration / 6
    }

    /// Waits until this replica leads. Returns the start time of the successful request.
    pub(crate) async fn acquire(&self) -> Instant {
        let mut observed = ObservedLease::default();
        let mut reported_holder = None;
        loop {
            let requested_at = Instant::now();
            match timeout(self.period() * 4, self.attempt(&mut observed)).await {
                Ok(Ok(LeaseOutcome::Held)) => {
                    self.fence.close_at(requested_at + self.period() * 4);
                    info!(lease = NAME, identity = self.identity, "leading");
                    return requested_at;
                }
                Ok(Ok(LeaseOutcome::HeldByOther(holder))) => {
                    if reported_holder.as_ref() != Some(&holder) {
                        info!(lease = NAME, holder, "waiting for the leader Lease");
                    }
                    reported_holder = Some(holder);
                }
                Ok(Ok(LeaseOutcome::Conflict)) => {}
                Ok(Err(error)) => {
                    let error = api_error::chain(&error);
                    warn!(lease = NAME, error, "failed to acquire the Lease; retrying");
                }
                Err(_) => {
                    warn!(
                        lease = NAME,
                        "timed out while acquiring the Lease; retrying"
                    );
                }
            }
            // Jitter, so that replicas do not retry at the same moment.
            sleep(self.period().mul_f64(0.8 + 0.4 * fastrand::f64())).await;
        }
    }

    /// Renews the Lease until renewals failed for too long or another replica leads. `since` is when it was acquired.
    pub(crate) async fn maintain(&self, since: Instant) {
        let mut renewed = since;
        let mut delay = self.period();
        loop {
            let end = renewed + self.period() * 4;
            sleep_until((Instant::now() + delay).min(end)).await;
            delay = self.period() / 4;
            let requested_at = Instant::now();
            let remaining = end.saturating_duration_since(requested_at);
            let observed = &mut ObservedLease::default();
            match timeout(remaining.min(self.period() * 2), self.attempt(observed)).await {
                Ok(Ok(LeaseOutcome::Held)) => {
                    renewed = requested_at;
                    delay = self.period();
                    self.fence.close_at(renewed + self.period() * 4);
                }
                // Most likely an earlier request of this replica, which timed out and was still applied.
                Ok(Ok(LeaseOutcome::Conflict)) | Err(_) => {}
                Ok(Ok(LeaseOutcome::HeldByOther(holder))) => {
                    warn!(lease = NAME, holder, "another replica acquired the Lease");
                    return;
                }
                Ok(Err(error)) => {
                    let error = api_error::chain(&error);
                    warn!(lease = NAME, error, "failed to renew the Lease; retrying");
                }
            }
            if renewed + self.period() * 4 <= Instant::now() {
                return;
            }
        }
    }

    /// Releases the Lease, so that another replica can acquire it immediately.
    pub(crate) async fn release(&self) {
        let release = async {
            let Some(mut lease) = self.api.get_opt(NAME).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                spec.renew_time = Some(MicroTime(Timestamp::now()));
                let params = PostParams::default();
                self.api.replace(NAME, &params, &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(self.period(), release).await {
            Ok(Ok(())) => debug!(lease = NAME, "released the Lease"),
            // The Lease expires by itself.
            Ok(Err(error)) => {
                let error = api_error::chain(&error);
                debug!(lease = NAME, error, "failed to release the Lease");
            }
            Err(_) => debug!(lease = NAME, "failed to release the Lease in time"),
        }
    }

    /// Takes or renews the Lease, or returns its holder.
    async fn attempt(&self, observed: &mut ObservedLease) -> Result<LeaseOutcome, kube::Error> {
        let written = self.written.lock().take();
        let current = match written {
            Some(written) => Some(written),
            None => self.api.get_opt(NAME).await?,
        };
        let spec = current.as_ref().and_then(|lease| lease.spec.as_ref());
        let claim = claim::claim(spec, &self.identity, observed, Instant::now());
        let params = PostParams::default();
        let written = match (claim, current) {
            (LeaseAction::Wait(holder), _) => return Ok(LeaseOutcome::HeldByOther(holder)),
            (claim, None) => {
                let lease = Object {
                    metadata: ObjectMeta {
                        name: Some(NAME.to_owned()),
                        ..ObjectMeta::default()
                    },
                    spec: Some(self.spec(None, &claim)),
                };
                self.api.create(&params, &lease).await
            }
            // The object has the resourceVersion that was read: of two concurrent writes, one is rejected.
            (claim, Some(mut lease)) => {
                lease.spec = Some(self.spec(lease.spec.take(), &claim));
                self.api.replace(NAME, &params, &lease).await
            }
        };
        match written {
            Ok(written) => {
                *self.written.lock() = Some(written);
                Ok(LeaseOutcome::Held)
            }
            // The Lease may also be deleted. The next attempt reads the current state.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(LeaseOutcome::Conflict)
            }
            Err(error) => Err(error),
        }
    }

    fn spec(&self, previous: Option<LeaseSpec>, claim: &LeaseAction) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let previous = previous.unwrap_or_default();
        let transitions = previous.lease_transitions.unwrap_or_default();
        let (acquired, transitions) = match claim {
            LeaseAction::Renew => (previous.acquire_time, transitions),
            _ => (Some(now.clone()), transitions.saturating_add(1)),
        };
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            // Rounded up, because other replicas wait for this duration.
            lease_duration_seconds: i32::try_from(self.duration.as_millis().div_ceil(1000)).ok(),
            acquire_time: acquired,
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..previous
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;

    /// Returns the Lease of a replica. Its API server is unavailable until an instant.
    fn lease(duration: Duration, available: Instant) -> LeaderLease {
        let server = service_fn(move |_: Request<Body>| async move {
            if Instant::now() < available {
                return Err(BoxError::from("connection refused"));
            }
            let held = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME},
                "spec": {"holderIdentity": "me"},
            });
            Ok(Response::new(Body::from(held.to_string().into_bytes())))
        });
        let (client, fence) = (Client::new(server, "default"), Fence::default());
        LeaderLease::new(client, "default", "me".to_owned(), duration, fence)
    }

    #[tokio::test(start_paused = true)]
    async fn long_lease_outlasts_a_minute_without_the_api_server() {
        // The duration of the release payload.
        let duration = Duration::from_secs(137);
        for (outage, is_held) in [(60, true), (100, false)] {
            // The outage starts just before the first renewal.
            let acquired = Instant::now();
            let available = acquired + duration / 6 + Duration::from_secs(outage);
            let lease = lease(duration, available);
            assert_rows!(timeout(duration * 3, lease.maintain(acquired)).await.is_err() => is_held, "{outage} s");
        }
    }

    #[tokio::test]
    async fn lease_duration_is_rounded_up_to_seconds() {
        let seconds = |millis| {
            let lease = lease(Duration::from_millis(millis), Instant::now());
            let spec = lease.spec(None, &LeaseAction::Take);
            spec.lease_duration_seconds
        };
        assert_rows!(seconds(1900) => Some(2); seconds(2000) => Some(2); seconds(15_000) => Some(15));
    }
}
