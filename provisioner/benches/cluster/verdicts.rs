//! What becomes of declared bundles, and when, as a watch tells.

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

use crate::contender::Contender;

/// What has become of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) installed: bool,
    /// Why not.
    pub(crate) message: String,
}

/// A verdict, and when it was first told.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) verdict: Verdict,
    pub(crate) at: Instant,
    pub(crate) time: Timestamp,
}

type All = BTreeMap<String, Told>;

/// All verdicts, kept up to date.
pub(crate) struct Verdicts {
    all: watch::Receiver<All>,
    task: JoinHandle<()>,
}

/// How long bundles may take, on a machine with a lot to do.
const PATIENCE: Duration = Duration::from_secs(600);

impl Verdicts {
    /// Begins to watch.
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
                    let before = all.get(&name).map(|told| told.verdict.installed);
                    if before == Some(verdict.installed) {
                        return false;
                    }
                    let told = Told {
                        verdict,
                        at: Instant::now(),
                        time: Timestamp::now(),
                    };
                    all.insert(name, told);
                    true
                });
            }
        });
        Self { all, task }
    }

    /// Waits until so many have a verdict.
    pub(crate) async fn until(&self, count: usize) -> All {
        let mut all = self.all.clone();
        let there = timeout(PATIENCE, all.wait_for(|all| all.len() >= count)).await;
        let found = self.all.borrow().len();
        assert!(there.is_ok(), "only {found} of {count} have a verdict");
        self.all.borrow().clone()
    }

    /// Waits until so many have a verdict and none has changed for a while.
    pub(crate) async fn settled(&self, count: usize, quiet: Duration) -> All {
        let end = Instant::now() + PATIENCE;
        self.until(count).await;
        let mut all = self.all.clone();
        while Instant::now() < end {
            all.mark_unchanged();
            if timeout(quiet, all.changed()).await.is_err() {
                break;
            }
        }
        self.all.borrow().clone()
    }

    /// Waits for the verdict on one.
    pub(crate) async fn of(&self, name: &str) -> Told {
        let mut all = self.all.clone();
        let told = timeout(PATIENCE, all.wait_for(|all| all.contains_key(name))).await;
        assert!(told.is_ok(), "no verdict on {name}");
        self.all.borrow()[name].clone()
    }
}

impl Drop for Verdicts {
    fn drop(&mut self) {
        self.task.abort();
    }
}
