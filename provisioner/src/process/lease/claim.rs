//! Whether a Lease may be taken.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// How long a Lease lasts that does not say so itself, or says something strange.
const DEFAULT: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(600);

/// What may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is nobody's, or has ended.
    Take,
    /// It is ours.
    Renew,
    /// It is this replica's.
    Wait(String),
}

/// What was seen of the Lease, and when by our own clock: those of other machines may be wrong.
#[derive(Debug, Default)]
pub(super) struct Observed {
    seen: Option<(LeaseSpec, Instant)>,
}

/// Decides.
pub(super) fn claim(
    lease: Option<&LeaseSpec>,
    me: &str,
    observed: &mut Observed,
    now: Instant,
) -> Claim {
    let Some(lease) = lease else {
        return Claim::Take;
    };
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    if holder == me {
        return Claim::Renew;
    }
    if holder.is_empty() {
        return Claim::Take;
    }
    let since = match &observed.seen {
        Some((seen, since)) if seen == lease => *since,
        _ => {
            observed.seen = Some((lease.clone(), now));
            now
        }
    };
    let duration = lease
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(DEFAULT, Duration::from_secs)
        .min(LONGEST);
    if now.saturating_duration_since(since) > duration {
        Claim::Take
    } else {
        Claim::Wait(holder.to_owned())
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
    fn what_is_nobodys_or_ours_is_taken() {
        let now = Instant::now();
        let observed = &mut Observed::default();
        assert_rows! {
            claim(None, "me", observed, now) => Claim::Take;
            claim(Some(&LeaseSpec::default()), "me", observed, now) => Claim::Take;
            claim(Some(&lease("", 0)), "me", observed, now) => Claim::Take;
            claim(Some(&lease("me", 0)), "me", observed, now) => Claim::Renew;
        }
    }

    #[test]
    fn what_is_somebodys_is_waited_for_by_our_own_clock() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let observed = &mut Observed::default();
        let wait = Claim::Wait("other".to_owned());
        // Its time says that it ended long ago, or will end in a thousand years: neither counts.
        assert_rows! {
            claim(Some(&lease("other", 0)), "me", observed, after(0)) => wait;
            claim(Some(&lease("other", 0)), "me", observed, after(9)) => wait;
            claim(Some(&lease("other", 40_000_000_000)), "me", observed, after(10)) => wait;
            claim(Some(&lease("other", 40_000_000_000)), "me", observed, after(20)) => wait;
            claim(Some(&lease("other", 40_000_000_000)), "me", observed, after(21)) => Claim::Take;
        }
    }

    #[test]
    fn durations_that_make_no_sense_do_not_last_for_ever() {
        let start = Instant::now();
        for seconds in [None, Some(-5), Some(i32::MAX)] {
            let lease = with!(lease("other", 0) => lease_duration_seconds: seconds);
            let observed = &mut Observed::default();
            assert_rows!(claim(Some(&lease), "me", observed, start) => Claim::Wait("other".to_owned()));
            assert_rows!(claim(Some(&lease), "me", observed, start + LONGEST + Duration::from_secs(1)) => Claim::Take);
        }
    }
}
