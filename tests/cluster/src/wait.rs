//! Waiting for objects of a cluster.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

/// An object of a type that clients can watch.
pub trait Watched:
    Resource<DynamicType: Default> + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType: Default>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static
{
}

/// Waits until an object is as wanted, and returns it; or else tells how it was at the end.
pub async fn object<K: Watched>(
    api: Api<K>,
    name: &str,
    patience: Duration,
    is_wanted: impl Fn(&K) -> bool,
) -> Result<K, String> {
    let end = Instant::now() + patience;
    let mut seen = None;
    let mut changes = std::pin::pin!(watcher::watch_object(api, name));
    while let Ok(Some(change)) = timeout_at(end, changes.next()).await {
        match change {
            Ok(Some(object)) if is_wanted(&object) => return Ok(object),
            Ok(object) => seen = object,
            Err(_) => {} // the watch begins again
        }
    }
    let seen = seen.and_then(|object| serde_json::to_string_pretty(&object).ok());
    Err(seen.unwrap_or_else(|| "there is no such object".to_owned()))
}

/// Repeats an attempt until it succeeds, and returns the result; or else the last reason. Attempts without a pause would
/// delay the requests of those who are waited for.
pub async fn eventually<T>(
    patience: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, String> {
    const MAX_PAUSE: Duration = Duration::from_millis(100);
    let end = Instant::now() + patience;
    let mut pause = Duration::from_millis(20);
    loop {
        match attempt().await {
            Err(_) if Instant::now() <= end => sleep(pause).await,
            done => return done,
        }
        pause = (pause * 3 / 2).min(MAX_PAUSE);
    }
}
