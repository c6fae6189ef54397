//! Outcomes of declared bundles, with the times at which a watch reports them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    core::DynamicObject,
    runtime::{WatchStreamExt as _, watcher},
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::subject::Contender;

/// The installation of a bundle, or the message of its failure.
pub(crate) type Verdict = Result<(), String>;

/// A verdict, and the time at which the watch first reported it.
#[derive(Debug, Clone)]
pub(crate) struct TimedVerdict {
    pub(crate) verdict: Verdict,
    pub(crate) at: Instant,
    pub(crate) time: Timestamp,
}

type All = BTreeMap<String, TimedVerdict>;

pub(crate) struct Verdicts {
    all: watch::Receiver<All>,
    task: JoinHandle<()>,
}

/// The limit for all bundles, on a busy machine.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(600);
/// The time without a change after which many bundles count as settled.
const QUIET_PERIOD: Duration = Duration::from_secs(15);

impl Verdicts {
    pub(crate) fn watch(api: Api<DynamicObject>) -> Self {
        let (sender, all) = watch::channel(All::new());
        let sender = Arc::new(sender);
        let task = tokio::spawn(async move {
            let mut events =
                std::pin::pin!(watcher(api, watcher::Config::default()).applied_objects());
            while let Some(event) = events.next().await {
                let Ok(object) = event else {
                    sleep(Duration::from_millis(200)).await;
                    continue;
                };
                let Some(verdict) = Contender::verdict(&object) else {
                    continue;
                };
                sender.send_if_modified(|all| {
                    let name = object.name_any();
                    let before = all.get(&name).map(|timed| timed.verdict.is_ok());
                    if before == Some(verdict.is_ok()) {
                        return false;
                    }
                    let timed = TimedVerdict {
                        verdict,
                        at: Instant::now(),
                        time: Timestamp::now(),
                    };
                    all.insert(name, timed);
                    true
                });
            }
        });
        Self { all, task }
    }

    /// Waits until this number of bundles has a verdict.
    pub(crate) async fn until(&self, count: usize) -> All {
        let mut all = self.all.clone();
        let result = timeout(VERDICT_TIMEOUT, all.wait_for(|all| all.len() >= count)).await;
        let found = self.all.borrow().len();
        assert!(result.is_ok(), "only {found} of {count} have a verdict");
        self.all.borrow().clone()
    }

    /// Waits until this number of bundles has a verdict, and no verdict has changed for a while.
    pub(crate) async fn settled(&self, count: usize) -> All {
        let end = Instant::now() + VERDICT_TIMEOUT;
        self.until(count).await;
        let mut all = self.all.clone();
        while Instant::now() < end {
            all.mark_unchanged();
            if timeout(QUIET_PERIOD, all.changed()).await.is_err() {
                break;
            }
        }
        self.all.borrow().clone()
    }

    /// Waits for the verdict on one bundle.
    pub(crate) async fn wait_for(&self, name: &str) -> TimedVerdict {
        let mut all = self.all.clone();
        let timed = timeout(VERDICT_TIMEOUT, all.wait_for(|all| all.contains_key(name))).await;
        assert!(timed.is_ok(), "no verdict on {name}");
        self.all.borrow()[name].clone()
    }
}

impl Drop for Verdicts {
    fn drop(&mut self) {
        self.task.abort();
    }
}
