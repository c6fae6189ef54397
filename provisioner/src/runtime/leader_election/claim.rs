//! Decides whether a replica may take a Lease. Pure; no I/O.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// Duration of a Lease that sets none, or an invalid one.
const DEFAULT_DURATION: Duration = Duration::from_secs(15);
const MAX_DURATION: Duration = Duration::from_secs(600);

/// Permitted action on the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeaseAction {
    /// Take the Lease: it has no holder, or it has expired.
    Take,
    /// Renew the Lease: this replica holds it.
    Renew,
    /// Wait: the replica with this identity holds the Lease.
    Wait(String),
}

/// Last observed state of the Lease, with the local time of the observation. The clocks of other machines may be wrong.
#[derive(Debug, Default)]
pub(super) struct ObservedLease {
    last: Option<(LeaseSpec, Instant)>,
}

/// Returns the permitted action.
pub(super) fn claim(
    lease: Option<&LeaseSpec>,
    identity: &str,
    observed: &mut ObservedLease,
    now: Instant,
) -> LeaseAction {
    let Some(lease) = lease else {
        return LeaseAction::Take;
    };
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    if holder == identity {
        return LeaseAction::Renew;
    }
    if holder.is_empty() {
        return LeaseAction::Take;
    }
    let since = match &observed.last {
        Some((observed_spec, since)) if observed_spec == lease => *since,
        _ => {
            observed.last = Some((lease.clone(), now));
            now
        }
    };
    let duration = lease
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(DEFAULT_DURATION, Duration::from_secs)
        .min(MAX_DURATION);
    if now.saturating_duration_since(since) > duration {
        LeaseAction::Take
    } else {
        LeaseAction::Wait(holder.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn lease(holder: &str, renewed: i64) -> LeaseSpec {
        let renew_time = Timestamp::from_second(renewed).ok().map(MicroTime);
        with!(LeaseSpec, holder_identity: Some(holder.to_owned()), lease_duration_seconds: Some(10), renew_time)
    }

    #[test]
    fn lease_is_acquired_if_unheld_own_or_expired_locally() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (unheld, observed) = (&mut ObservedLease::default(), &mut ObservedLease::default());
        let wait = LeaseAction::Wait("other".to_owned());
        assert_rows! {
            claim(None, "me", unheld, start) => LeaseAction::Take;
            claim(Some(&LeaseSpec::default()), "me", unheld, start) => LeaseAction::Take;
            claim(Some(&lease("", 0)), "me", unheld, start) => LeaseAction::Take;
            claim(Some(&lease("me", 0)), "me", unheld, start) => LeaseAction::Renew;
            // The renewal time lies far in the past or future, and is ignored.
            claim(Some(&lease("other", 0)), "me", observed, after(0)) => wait;
            claim(Some(&lease("other", 0)), "me", observed, after(9)) => wait;
            claim(Some(&lease("other", 40_000_000_000)), "me", observed, after(10)) => wait;
            claim(Some(&lease("other", 40_000_000_000)), "me", observed, after(20)) => wait;
            claim(Some(&lease("other", 40_000_000_000)), "me", observed, after(21)) => LeaseAction::Take;
        }
    }

    #[test]
    fn invalid_lease_durations_are_bounded() {
        let start = Instant::now();
        for seconds in [None, Some(-5), Some(i32::MAX)] {
            let lease = with!(lease("other", 0) => lease_duration_seconds: seconds);
            let observed = &mut ObservedLease::default();
            assert_rows!(claim(Some(&lease), "me", observed, start) => LeaseAction::Wait("other".to_owned()));
            assert_rows!(claim(Some(&lease), "me", observed, start + MAX_DURATION + Duration::from_secs(1)) => LeaseAction::Take);
        }
    }
}
