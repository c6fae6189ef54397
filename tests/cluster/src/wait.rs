//! Waits for objects of a cluster.

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

/// Waits until an object is as expected, and returns it. At the timeout it returns the last observed state as the error.
pub async fn object<K: Watched>(
    api: Api<K>,
    name: &str,
    limit: Duration,
    is_expected: impl Fn(&K) -> bool,
) -> Result<K, String> {
    let end = Instant::now() + limit;
    let mut observed = None;
    let mut changes = std::pin::pin!(watcher::watch_object(api, name));
    while let Ok(Some(change)) = timeout_at(end, changes.next()).await {
        match change {
            Ok(Some(object)) if is_expected(&object) => return Ok(object),
            Ok(object) => observed = object,
            Err(_) => {} // the watch begins again
        }
    }
    let observed = observed.and_then(|object| serde_json::to_string_pretty(&object).ok());
    Err(observed.unwrap_or_else(|| "there is no such object".to_owned()))
}

/// Repeats an attempt until it succeeds, and returns the result, or the last error at the timeout. Attempts without a delay
/// would slow down the requests that the test waits for.
pub async fn eventually<T>(
    limit: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, String> {
    const MAX_DELAY: Duration = Duration::from_millis(100);
    let end = Instant::now() + limit;
    let mut delay = Duration::from_millis(20);
    loop {
        match attempt().await {
            Err(_) if Instant::now() <= end => sleep(delay).await,
            done => return done,
        }
        delay = (delay * 3 / 2).min(MAX_DELAY);
    }
}
