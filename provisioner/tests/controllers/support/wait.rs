//! Waiting for what is to come, with a message when it does not.

use std::{fmt::Debug, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Resource, runtime::watcher};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep, timeout_at};

use super::child;

/// How long anything may take on a machine with a lot to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until an object is as wanted, and returns it. `what` is said when that does not happen, with the object as it
/// was then, and what the provisioners had to say about it.
pub(crate) async fn wait_for<K>(
    api: Api<K>,
    name: &str,
    what: &str,
    wanted: impl Fn(&K) -> Option<()>,
) -> K
where
    K: Resource<DynamicType: Default>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static,
{
    let end = Instant::now() + PATIENCE;
    let mut seen = None;
    let mut changes = std::pin::pin!(watcher::watch_object(api, name));
    while let Ok(Some(change)) = timeout_at(end, changes.next()).await {
        match change {
            Ok(Some(object)) if wanted(&object).is_some() => return object,
            Ok(object) => seen = object,
            Err(_) => {}
        }
    }
    let seen = seen.map(|object| serde_json::to_string_pretty(&object).unwrap());
    let seen = seen.unwrap_or_else(|| "there is no such object".to_owned());
    panic!(
        "{name}: not {what} after {PATIENCE:?}: {seen}\n{}",
        child::logs(name)
    );
}

/// Waits until an object does not exist.
pub(crate) async fn gone<K>(api: Api<K>, name: &str)
where
    K: Resource<DynamicType: Default>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static,
{
    eventually(&format!("{name} is gone"), async || {
        match api.get_opt(name).await.unwrap() {
            Some(object) => Err(serde_json::to_string_pretty(&object).unwrap()),
            None => Ok(()),
        }
    })
    .await;
}

/// Repeats an attempt until the attempt succeeds, and returns the result. The panic message has the reason of the last failure.
pub(crate) async fn eventually<T>(
    what: &str,
    attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    within(PATIENCE, what, attempt).await
}

/// Like [`eventually`], with another limit. Attempts without a pause would delay the requests of the provisioner.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    const MAX_PAUSE: Duration = Duration::from_millis(100);
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(20);
    loop {
        match attempt().await {
            Ok(result) => return result,
            Err(reason) if Instant::now() > end => {
                panic!(
                    "not {what} after {limit:?}: {reason}\n{}",
                    child::logs(what)
                )
            }
            Err(_) => sleep(pause).await,
        }
        pause = (pause * 3 / 2).min(MAX_PAUSE);
    }
}

/// Looks for something until it is there, and returns it.
pub(crate) async fn found<T>(what: &str, mut read: impl AsyncFnMut() -> Option<T>) -> T {
    let missing = || "there is none".to_owned();
    eventually(what, async || read().await.ok_or_else(missing)).await
}

/// Reads a value until the value is as wanted, and returns it.
pub(crate) async fn until<T: Debug>(
    what: &str,
    mut read: impl AsyncFnMut() -> T,
    is_wanted: impl Fn(&T) -> bool,
) -> T {
    eventually(what, async || {
        let value = read().await;
        let is_wanted = is_wanted(&value);
        is_wanted.then_some(()).ok_or(format!("{value:?}"))?;
        Ok(value)
    })
    .await
}

/// A condition.
pub(crate) fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether a condition has this status.
pub(crate) fn has(conditions: &[Condition], type_: &str, status: &str) -> bool {
    condition(conditions, type_).is_some_and(|condition| condition.status == status)
}
