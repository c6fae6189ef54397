//! Waits with a limit, whose panic messages have the last observed state.

use std::{fmt::Debug, time::Duration};

use cluster::wait::{self, Watched};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use manifests::api::bundle_instance::BundleInstance;
use serde::Serialize;
use serde_json::{Value, json};
use tests::table::matches;

use super::provisioner_process;

/// The limit of any wait on a busy machine.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(180);

/// Waits until an object matches a predicate, and returns the object. The panic message has the description, the last state
/// of the object, and the related logs of the provisioners.
pub(crate) async fn wait_for<K: Watched>(
    api: Api<K>,
    name: &str,
    description: &str,
    predicate: impl Fn(&K) -> Option<()>,
) -> K {
    let is_desired = |object: &K| predicate(object).is_some();
    let found = wait::object(api, name, WAIT_TIMEOUT, is_desired).await;
    found.unwrap_or_else(|last| {
        let logs = provisioner_process::logs(name);
        panic!("{name}: not {description} after {WAIT_TIMEOUT:?}: {last}\n{logs}")
    })
}

/// Waits until an object has a part; see [`is_part`]. Returns the object.
pub(crate) async fn wait_part<K: Watched>(api: Api<K>, name: &str, part: Value) -> K {
    let has_part = |object: &K| is_part(&part, &json!(object)).then_some(());
    wait_for(api, name, &part.to_string(), has_part).await
}

/// Waits until an object has a condition of this type with this status, and returns the object.
pub(crate) async fn wait_status<K: Watched>(api: Api<K>, name: &str, condition: [&str; 2]) -> K {
    let [type_, status] = condition;
    let condition = json!({"type": type_, "status": status});
    wait_part(api, name, json!({"status": {"conditions": [condition]}})).await
}

/// Waits until an object has another uid, and returns the object.
pub(crate) async fn wait_recreated<K: Watched>(api: Api<K>, name: &str, uid: Option<String>) -> K {
    let is_other = |object: &K| {
        let meta = object.meta();
        (meta.uid != uid && meta.deletion_timestamp.is_none()).then_some(())
    };
    wait_for(api, name, "re-created", is_other).await
}

/// Reports whether an object has a part: null is an absent field, `*` is any text, and a list contains the elements.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(parts), Value::Object(_)) => {
            parts.iter().all(|(name, part)| is_part(part, &whole[name]))
        }
        (Value::Array(parts), Value::Array(all)) => parts
            .iter()
            .all(|part| all.iter().any(|element| is_part(part, element))),
        (Value::String(pattern), Value::String(text)) => matches(pattern, text),
        _ => part == whole,
    }
}

/// Asserts that an object has a part; see [`is_part`].
#[track_caller]
pub(crate) fn assert_part(object: &impl Serialize, part: &Value) {
    let object = json!(object);
    assert!(is_part(part, &object), "{part} is not in {object:#}");
}

pub(crate) async fn wait_deleted<K: Watched>(api: Api<K>, name: &str) {
    eventually(&format!("deleted: {name}"), async || {
        match api.get_opt(name).await.unwrap() {
            Some(object) => Err(serde_json::to_string_pretty(&object).unwrap()),
            None => Ok(()),
        }
    })
    .await;
}

/// Repeats an attempt until the attempt succeeds, and returns the result. The panic message has the reason of the last
/// failure.
pub(crate) async fn eventually<T>(
    description: &str,
    attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    within(WAIT_TIMEOUT, description, attempt).await
}

/// Like [`eventually`], with another limit.
pub(crate) async fn within<T>(
    limit: Duration,
    description: &str,
    attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let done = wait::eventually(limit, attempt).await;
    done.unwrap_or_else(|reason| {
        let logs = provisioner_process::logs(description);
        panic!("not {description} after {limit:?}: {reason}\n{logs}")
    })
}

pub(crate) async fn found<T>(description: &str, mut read: impl AsyncFnMut() -> Option<T>) -> T {
    let missing = || "no result".to_owned();
    eventually(description, async || read().await.ok_or_else(missing)).await
}

/// Reads a value until it matches a predicate, and returns the value.
pub(crate) async fn until<T: Debug>(
    description: &str,
    read: impl AsyncFnMut() -> T,
    is_desired: impl Fn(&T) -> bool,
) -> T {
    until_within(WAIT_TIMEOUT, description, read, is_desired).await
}

/// Like [`until`], with another limit.
pub(crate) async fn until_within<T: Debug>(
    limit: Duration,
    description: &str,
    mut read: impl AsyncFnMut() -> T,
    is_desired: impl Fn(&T) -> bool,
) -> T {
    within(limit, description, async || {
        let value = read().await;
        let is_desired = is_desired(&value);
        is_desired.then_some(()).ok_or(format!("{value:?}"))?;
        Ok(value)
    })
    .await
}

pub(crate) fn message<'a>(instance: &'a BundleInstance, type_: &str) -> &'a str {
    let conditions = &instance.status.as_ref().unwrap().conditions;
    &condition(conditions, type_).unwrap().message
}

pub(crate) fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

pub(crate) fn has(conditions: &[Condition], type_: &str, status: &str) -> bool {
    condition(conditions, type_).is_some_and(|condition| condition.status == status)
}
