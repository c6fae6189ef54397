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

/// Maximum time from the condition Established of a CRD until discovery shows its kind.
pub(super) const DISCOVERY_LAG: Duration = Duration::from_secs(10);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);

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
            // The group version is being polled already.
            expected.kinds.insert(kind, served);
            expected.since = now;
            expected.delay = MIN_POLL_INTERVAL;
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
        let mut has_news = false;
        if let Some(response) = response {
            let before = expected.kinds.len();
            let is_served = |kind: &Option<String>| match (kind, &response) {
                (Some(kind), Some(response)) => response.contains_key(kind),
                (None, Some(_)) => true,
                (_, None) => false,
            };
            expected
                .kinds
                .retain(|kind, served| is_served(kind) != *served);
            has_news = expected.kinds.len() < before;
            if has_news {
                self.kinds.record(&version, response);
            }
        }
        if expected.kinds.is_empty() {
            self.expected.remove(&version);
        } else if expected.since.elapsed() >= DISCOVERY_LAG {
            self.kinds.invalidate(&version.group);
            has_news = true;
            self.expected.remove(&version);
        } else {
            let delay = expected.delay;
            expected.delay = (delay * 2).min(MAX_POLL_INTERVAL);
            self.poll(version, delay);
        }
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
