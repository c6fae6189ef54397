//! Waiting until discovery shows what has begun to be served, or shows no longer what has ended.
//!
//! Of a group version that many definitions belong to, one question is asked for all of them, and its answer is kept:
//! whoever wants to know next finds it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::{GroupVersion, Kind, Kinds, ask};

/// How long a kind may take from its definition's being Established to its being told of.
pub(super) const LAG: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The kinds of a group version; `None` when there is none such.
type Shown = Option<HashMap<String, Arc<Kind>>>;

/// The requested group version and the kinds in the response; `None` if the API server did not answer.
type Answer = (GroupVersion, Option<Shown>);

/// Everything that discovery does not show yet.
pub(super) struct Appearing<'k> {
    kinds: &'k Kinds,
    expected: HashMap<GroupVersion, Expected>,
    questions: FuturesUnordered<BoxFuture<'k, Answer>>,
}

/// What a group version is to show.
#[derive(Debug)]
struct Expected {
    /// Whether each kind (`None`: any) is to be there.
    kinds: BTreeMap<Option<String>, bool>,
    /// When the latest of them was expected.
    since: Instant,
    pause: Duration,
}

impl<'k> Appearing<'k> {
    pub(super) fn new(kinds: &'k Kinds) -> Self {
        Self {
            kinds,
            expected: HashMap::new(),
            questions: FuturesUnordered::new(),
        }
    }

    /// Expects a kind of a group version (`None`: any) to be served, or not.
    pub(super) fn expect(&mut self, version: GroupVersion, kind: Option<String>, served: bool) {
        let now = Instant::now();
        if let Some(expected) = self.expected.get_mut(&version) {
            // Its question is on the way.
            expected.kinds.insert(kind, served);
            expected.since = now;
            expected.pause = FIRST_PAUSE;
            return;
        }
        let expected = Expected {
            kinds: BTreeMap::from([(kind, served)]),
            since: now,
            pause: FIRST_PAUSE,
        };
        self.expected.insert(version.clone(), expected);
        self.ask(version, FIRST_PAUSE);
    }

    /// Waits for the next answer and deals with it; `None` when nothing is expected.
    pub(super) async fn next(&mut self) -> Option<()> {
        let (version, shown) = self.questions.next().await?;
        let Some(expected) = self.expected.get_mut(&version) else {
            return Some(());
        };
        let mut has_news = false;
        if let Some(shown) = shown {
            let before = expected.kinds.len();
            let is_shown = |kind: &Option<String>| match (kind, &shown) {
                (Some(kind), Some(shown)) => shown.contains_key(kind),
                (None, Some(_)) => true,
                (_, None) => false,
            };
            expected
                .kinds
                .retain(|kind, served| is_shown(kind) != *served);
            has_news = expected.kinds.len() < before;
            if has_news {
                self.kinds.learn(&version, shown);
            }
        }
        if expected.kinds.is_empty() {
            self.expected.remove(&version);
        } else if expected.since.elapsed() >= LAG {
            self.kinds.forget(&version.group);
            has_news = true;
            self.expected.remove(&version);
        } else {
            let pause = expected.pause;
            expected.pause = (pause * 2).min(LONGEST_PAUSE);
            self.ask(version, pause);
        }
        if has_news {
            self.kinds.changed();
        }
        Some(())
    }

    fn ask(&mut self, version: GroupVersion, pause: Duration) {
        let kinds = self.kinds;
        let question = async move {
            sleep(pause).await;
            let answer = ask::kinds(&kinds.client, &version).await;
            let shown = answer.map_err(|error| {
                let error = &error as &dyn std::error::Error;
                debug!(group = %version.group, error, "failed to look a group up");
            });
            (version, shown.ok())
        };
        self.questions.push(question.boxed());
    }
}
