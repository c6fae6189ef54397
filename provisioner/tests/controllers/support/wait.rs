//! Waiting for what is to come, with a message when it does not.

use std::{fmt::Debug, time::Duration};

use cluster::wait::{self, Watched};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use manifests::api::instance::BundleInstance;

use super::child;

/// How long anything may take on a machine with a lot to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until an object is as wanted, and returns it. `what` is said when that does not happen, with the object as it
/// was then, and what the provisioners had to say about it.
pub(crate) async fn wait_for<K: Watched>(
    api: Api<K>,
    name: &str,
    what: &str,
    wanted: impl Fn(&K) -> Option<()>,
) -> K {
    let found = wait::object(api, name, PATIENCE, |object| wanted(object).is_some()).await;
    found.unwrap_or_else(|seen| {
        let logs = child::logs(name);
        panic!("{name}: not {what} after {PATIENCE:?}: {seen}\n{logs}")
    })
}

/// Waits until an object does not exist.
pub(crate) async fn gone<K: Watched>(api: Api<K>, name: &str) {
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

/// Like [`eventually`], with another limit.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let done = wait::eventually(limit, attempt).await;
    done.unwrap_or_else(|reason| {
        let logs = child::logs(what);
        panic!("not {what} after {limit:?}: {reason}\n{logs}")
    })
}

/// Looks for something until it is there, and returns it.
pub(crate) async fn found<T>(what: &str, mut read: impl AsyncFnMut() -> Option<T>) -> T {
    let missing = || "there is none".to_owned();
    eventually(what, async || read().await.ok_or_else(missing)).await
}

/// Reads a value until the value is as wanted, and returns it.
pub(crate) async fn until<T: Debug>(
    what: &str,
    read: impl AsyncFnMut() -> T,
    is_wanted: impl Fn(&T) -> bool,
) -> T {
    until_within(PATIENCE, what, read, is_wanted).await
}

/// Like [`until`], with another limit.
pub(crate) async fn until_within<T: Debug>(
    limit: Duration,
    what: &str,
    mut read: impl AsyncFnMut() -> T,
    is_wanted: impl Fn(&T) -> bool,
) -> T {
    within(limit, what, async || {
        let value = read().await;
        let is_wanted = is_wanted(&value);
        is_wanted.then_some(()).ok_or(format!("{value:?}"))?;
        Ok(value)
    })
    .await
}

/// The message of a condition.
pub(crate) fn message<'a>(instance: &'a BundleInstance, type_: &str) -> &'a str {
    let conditions = &instance.status.as_ref().unwrap().conditions;
    &condition(conditions, type_).unwrap().message
}

/// A condition.
pub(crate) fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether a condition has this status.
pub(crate) fn has(conditions: &[Condition], type_: &str, status: &str) -> bool {
    condition(conditions, type_).is_some_and(|condition| condition.status == status)
}
