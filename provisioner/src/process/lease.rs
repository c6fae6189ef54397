//! Leadership: of several replicas only the holder of a Lease works.
//!
//! Who holds it renews it every sixth of its duration. Who has not been able to for two thirds of the duration stops
//! being the leader before anybody else can become it: the others wait for the whole duration, by their own clocks,
//! from when they last saw the Lease change. What was under way meanwhile stops at the [`Fence`].

mod claim;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease as Object, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::Fence;
use claim::{Claim, Observed};

/// The name of the Lease.
pub(super) const NAME: &str = "core.rukpak.io";

/// The Lease, as one replica sees it.
pub(super) struct Lease {
    api: Api<Object>,
    /// Nobody else has this name.
    me: String,
    duration: Duration,
    /// As we have last written it: as long as nobody else writes, it need not be read to be renewed.
    written: Mutex<Option<Object>>,
    fence: Fence,
}

/// What came of asking for it.
enum Outcome {
    Ours,
    Theirs(String),
    /// Somebody else wrote at the same moment.
    Raced,
}

impl Lease {
    pub(super) fn new(
        client: Client,
        namespace: &str,
        me: String,
        duration: Duration,
        fence: Fence,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            me,
            duration,
            written: Mutex::default(),
            fence,
        }
    }

    fn period(&self) -> Duration {
        self.duration / 6
    }

    /// Waits until this replica leads, and tells when it asked to.
    pub(super) async fn acquire(&self) -> Instant {
        let mut observed = Observed::default();
        let mut told = None;
        loop {
            let asked = Instant::now();
            match timeout(self.period() * 4, self.attempt(&mut observed)).await {
                Ok(Ok(Outcome::Ours)) => {
                    self.fence.close_at(asked + self.period() * 4);
                    info!(lease = NAME, identity = self.me, "leading");
                    return asked;
                }
                Ok(Ok(Outcome::Theirs(holder))) => {
                    if told.as_ref() != Some(&holder) {
                        info!(lease = NAME, holder, "waiting: another replica leads");
                    }
                    told = Some(holder);
                }
                Ok(Ok(Outcome::Raced)) => {}
                Ok(Err(error)) => {
                    warn!(lease = NAME, %error, "failed to acquire the Lease; trying again");
                }
                Err(_) => {
                    warn!(
                        lease = NAME,
                        "the apiserver is slow to answer for the Lease"
                    );
                }
            }
            // Not all at the same moment.
            sleep(self.period().mul_f64(0.8 + 0.4 * fastrand::f64())).await;
        }
    }

    /// Renews until that has failed for too long, or somebody else leads. `since` is when it was acquired.
    pub(super) async fn keep(&self, since: Instant) {
        let mut renewed = since;
        loop {
            let end = renewed + self.period() * 4;
            sleep_until((Instant::now() + self.period()).min(end)).await;
            let asked = Instant::now();
            let left = end.saturating_duration_since(asked);
            let observed = &mut Observed::default();
            match timeout(left.min(self.period() * 2), self.attempt(observed)).await {
                Ok(Ok(Outcome::Ours)) => {
                    renewed = asked;
                    self.fence.close_at(renewed + self.period() * 4);
                }
                // Most likely an earlier request of ours that was given up, and arrived all the same.
                Ok(Ok(Outcome::Raced)) | Err(_) => {}
                Ok(Ok(Outcome::Theirs(holder))) => {
                    warn!(lease = NAME, holder, "another replica has taken the Lease");
                    return;
                }
                Ok(Err(error)) => {
                    warn!(lease = NAME, %error, "failed to renew the Lease; trying again");
                }
            }
            if renewed + self.period() * 4 <= Instant::now() {
                return;
            }
        }
    }

    /// Leaves the Lease to whoever comes next, at once.
    pub(super) async fn release(&self) {
        let release = async {
            let Some(mut lease) = self.api.get_opt(NAME).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.me) {
                spec.holder_identity = None;
                spec.renew_time = Some(MicroTime(Timestamp::now()));
                let params = PostParams::default();
                self.api.replace(NAME, &params, &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(self.period(), release).await {
            Ok(Ok(())) => debug!(lease = NAME, "released the Lease"),
            // It ends by itself.
            Ok(Err(error)) => debug!(lease = NAME, %error, "failed to release the Lease"),
            Err(_) => debug!(lease = NAME, "failed to release the Lease in time"),
        }
    }

    /// Takes or renews the Lease, or tells who has it.
    async fn attempt(&self, observed: &mut Observed) -> Result<Outcome, kube::Error> {
        let written = self.written().take();
        let current = match written {
            Some(written) => Some(written),
            None => self.api.get_opt(NAME).await?,
        };
        let spec = current.as_ref().and_then(|lease| lease.spec.as_ref());
        let claim = claim::claim(spec, &self.me, observed, Instant::now());
        let params = PostParams::default();
        let written = match (claim, current) {
            (Claim::Wait(holder), _) => return Ok(Outcome::Theirs(holder)),
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
            // It carries the resourceVersion that was read: of two who write at once, one is refused.
            (claim, Some(mut lease)) => {
                lease.spec = Some(self.spec(lease.spec.take(), &claim));
                self.api.replace(NAME, &params, &lease).await
            }
        };
        match written {
            Ok(written) => {
                *self.written() = Some(written);
                Ok(Outcome::Ours)
            }
            // Or it was deleted: the next attempt reads what there is.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Outcome::Raced),
            Err(error) => Err(error),
        }
    }

    fn written(&self) -> MutexGuard<'_, Option<Object>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spec(&self, before: Option<LeaseSpec>, claim: &Claim) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let before = before.unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or_default();
        let (acquired, transitions) = match claim {
            Claim::Renew => (before.acquire_time, transitions),
            _ => (Some(now.clone()), transitions.saturating_add(1)),
        };
        LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
            acquire_time: acquired,
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..before
        }
    }
}
