//! Polls discovery until a newly served kind appears, or a removed one disappears.
//!
//! All CRDs of a group version share one poll. The answer is cached for the next caller.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::{ApiKind, Discovery, GroupVersion, client};
use crate::api_error;

/// Time from the condition Established of a CRD within which discovery usually shows its kind.
pub(super) const DISCOVERY_LAG: Duration = Duration::from_secs(10);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval after [`DISCOVERY_LAG`]: an overloaded API server may take longer, and no later event would report the kind.
const LATE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Time after which the polls for a newly served kind end.
const MAX_LAG: Duration = Duration::from_secs(600);

/// Kinds of a group version by name; `None` if the group version is not served.
type ServedKinds = Option<HashMap<String, Arc<ApiKind>>>;

/// Polled group version and the kinds in the response; `None` if the API server did not respond.
type Answer = (GroupVersion, Option<ServedKinds>);

/// Changes that discovery does not show yet.
pub(super) struct PendingKinds<'k> {
    kinds: &'k Discovery,
    expected: HashMap<GroupVersion, PendingGroup>,
    polls: FuturesUnordered<BoxFuture<'k, Answer>>,
}

/// Expected kinds of a group version.
#[derive(Debug)]
struct PendingGroup {
    /// Expected state of each kind, true for served; the key `None` stands for any kind.
    kinds: BTreeMap<Option<String>, bool>,
    /// Time of the latest expectation.
    since: Instant,
    delay: Duration,
}

impl<'k> PendingKinds<'k> {
    pub(super) fn new(kinds: &'k Discovery) -> Self {
        Self {
            kinds,
            expected: HashMap::new(),
            polls: FuturesUnordered::new(),
        }
    }

    /// Expects that a kind of a group version becomes served, or stops being served. `None` stands for any kind.
    pub(super) fn expect(&mut self, version: GroupVersion, kind: Option<String>, served: bool) {
        let now = Instant::now();
        if let Some(expected) = self.expected.get_mut(&version) {
            // The group version is being polled already, maybe slowly.
            let is_late = expected.delay == LATE_POLL_INTERVAL;
            expected.kinds.insert(kind, served);
            expected.since = now;
            expected.delay = MIN_POLL_INTERVAL;
            if is_late {
                self.poll(version, MIN_POLL_INTERVAL);
            }
            return;
        }
        let expected = PendingGroup {
            kinds: BTreeMap::from([(kind, served)]),
            since: now,
            delay: MIN_POLL_INTERVAL,
        };
        self.expected.insert(version.clone(), expected);
        self.poll(version, MIN_POLL_INTERVAL);
    }

    /// Processes the next poll response; returns `None` if no change is expected.
    pub(super) async fn next(&mut self) -> Option<()> {
        let (version, response) = self.polls.next().await?;
        let Some(expected) = self.expected.get_mut(&version) else {
            return Some(());
        };
        let elapsed = expected.since.elapsed();
        let is_answered = response
            .as_ref()
            .is_some_and(|response| expected.observe(response.as_ref()));
        let is_late = expected.delay < LATE_POLL_INTERVAL && elapsed >= DISCOVERY_LAG;
        let next = expected.next_poll(elapsed);
        if let Some(response) = response
            && is_answered
        {
            self.kinds.record(&version, response);
        } else if is_late || next.is_none() {
            self.kinds.invalidate(&version.group);
        }
        match next {
            Some(delay) => self.poll(version, delay),
            None => drop(self.expected.remove(&version)),
        }
        let has_news = is_answered || is_late;
        if has_news {
            self.kinds.changed();
        }
        Some(())
    }

    fn poll(&mut self, version: GroupVersion, delay: Duration) {
        let kinds = self.kinds;
        let poll = async move {
            sleep(delay).await;
            let answer = client::kinds(&kinds.client, &version).await;
            let response = answer.map_err(|error| {
                let error = api_error::chain(&error);
                debug!(group = %version.group, error, "failed to discover an API group");
            });
            (version, response.ok())
        };
        self.polls.push(poll.boxed());
    }
}

impl PendingGroup {
    /// Removes the expectations that a response fulfills, and reports whether there were any.
    fn observe(&mut self, response: Option<&HashMap<String, Arc<ApiKind>>>) -> bool {
        let before = self.kinds.len();
        let is_served = |kind: &Option<String>| match (kind, response) {
            (Some(kind), Some(response)) => response.contains_key(kind),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        self.kinds.retain(|kind, served| is_served(kind) != *served);
        self.kinds.len() < before
    }

    /// Returns the delay of the next poll; `None` if no further poll is needed.
    fn next_poll(&mut self, elapsed: Duration) -> Option<Duration> {
        let delay = self.delay;
        self.delay = (delay * 2).min(MAX_POLL_INTERVAL);
        if elapsed >= DISCOVERY_LAG {
            // Another API may still serve a removed kind, so discovery may never stop showing the kind.
            self.kinds.retain(|_, served| *served);
            self.delay = LATE_POLL_INTERVAL;
        }
        (!self.kinds.is_empty() && elapsed < MAX_LAG).then_some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_kinds_are_polled_and_removed_ones_are_not() {
        let seconds = Duration::from_secs;
        let [short, slow] = [MAX_POLL_INTERVAL, LATE_POLL_INTERVAL];
        // Delay of the last poll, whether the kind is expected to be served, elapsed time, and the delays of the next two polls.
        for (delay, served, elapsed, expected) in ::tests::rows![
            MIN_POLL_INTERVAL, true, seconds(0) => [Some(MIN_POLL_INTERVAL), Some(2 * MIN_POLL_INTERVAL)];
            short, true, seconds(9) => [Some(short), Some(short)];
            short, true, seconds(10) => [Some(short), Some(slow)];
            slow, true, seconds(599) => [Some(slow), Some(slow)];
            slow, true, seconds(600) => [None, None];
            short, false, seconds(9) => [Some(short), Some(short)];
            short, false, seconds(10) => [None, None];
        ] {
            let kinds = BTreeMap::from([(Some("Image".to_owned()), served)]);
            let since = Instant::now();
            let mut group = PendingGroup {
                kinds,
                since,
                delay,
            };
            assert_rows!([group.next_poll(elapsed), group.next_poll(elapsed)] => expected, "{delay:?} {served} {elapsed:?}");
        }
    }
}
