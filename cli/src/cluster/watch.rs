//! Watch of BundleInstances.

use std::{collections::BTreeSet, future::ready, time::Duration};

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use kube::{
    ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use manifests::api::bundle_instance::BundleInstance;
use tokio::time::sleep;

use super::Cluster;

/// Requested timeout of a watch, in seconds. The client gives up an idle connection later.
const WATCH_TIMEOUT_SECONDS: u32 = 45;
/// Delay between two attempts.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of consecutive failures: an API server restarts within this time.
const MAX_FAILURES: u32 = 20;

/// Change of an instance.
#[derive(Debug, Clone)]
pub(crate) enum InstanceChange {
    /// The instance exists, with this state.
    Updated(Box<BundleInstance>),
    /// The instance of this name does not exist.
    Deleted(String),
}

/// Result of a list, or event of a watch.
enum ListOrChange {
    /// All instances that exist.
    Listed(Vec<BundleInstance>),
    Changed(InstanceChange),
}

/// Returns a stream of all instances, or of the one with that name: first the present ones, and then each change. The
/// stream ends only with an error, if the API server rejects the request or is unreachable for long.
pub(crate) fn changes<'a>(
    cluster: &'a Cluster,
    name: Option<&'a str>,
) -> impl Stream<Item = anyhow::Result<InstanceChange>> + 'a {
    let attempts = stream::unfold(State::default(), move |mut state| async move {
        if state.is_finished {
            return None;
        }
        if state.failures > 0 {
            sleep(RETRY_DELAY).await;
        }
        let events: stream::BoxStream<'a, Result<ListOrChange, kube::Error>> =
            match list(cluster, name).await {
                Ok((items, version)) => {
                    state.failures = 0;
                    let listed = stream::once(ready(Ok(ListOrChange::Listed(items))));
                    let changes = watch_once(cluster, name, version).map_ok(ListOrChange::Changed);
                    listed.chain(changes).boxed()
                }
                Err(error) => {
                    state.failures += 1;
                    state.is_finished = is_permanent(&error) || state.failures >= MAX_FAILURES;
                    let final_error = state.is_finished.then_some(Err(error));
                    stream::iter(final_error).boxed()
                }
            };
        Some((events, state))
    });
    // An instance that is requested by name is reported as deleted even if it never existed.
    let mut existing: BTreeSet<String> = name.map(str::to_owned).into_iter().collect();
    attempts
        .flatten()
        .map_ok(move |event| stream::iter(changes_of(&mut existing, event).into_iter().map(Ok)))
        .try_flatten()
        .map_err(move |error| cluster.explain("failed to watch BundleInstances", error))
}

/// Returns the changes of an event, and records the names of the instances that exist after it. Instances that are missing
/// from a list were deleted between two watches.
fn changes_of(existing: &mut BTreeSet<String>, event: ListOrChange) -> Vec<InstanceChange> {
    match event {
        ListOrChange::Listed(items) => {
            let listed: BTreeSet<String> = items.iter().map(ResourceExt::name_any).collect();
            let deleted = existing.difference(&listed).cloned();
            let mut changes: Vec<_> = deleted.map(InstanceChange::Deleted).collect();
            let present = items.into_iter().map(Box::new);
            changes.extend(present.map(InstanceChange::Updated));
            *existing = listed;
            changes
        }
        ListOrChange::Changed(change) => {
            match &change {
                InstanceChange::Updated(instance) => {
                    existing.insert(instance.name_any());
                }
                InstanceChange::Deleted(name) => {
                    existing.remove(name);
                }
            }
            vec![change]
        }
    }
}

#[derive(Default)]
struct State {
    failures: u32,
    is_finished: bool,
}

/// Reports whether a retry fails in the same way.
fn is_permanent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400..=404))
}

fn selector(name: Option<&str>) -> Option<String> {
    name.map(|name| format!("metadata.name={name}"))
}

async fn list(
    cluster: &Cluster,
    name: Option<&str>,
) -> Result<(Vec<BundleInstance>, String), kube::Error> {
    let params = ListParams {
        field_selector: selector(name),
        ..ListParams::default()
    };
    let list = cluster.instances().list(&params).await?;
    let version = list.metadata.resource_version.unwrap_or_default();
    Ok((list.items, version))
}

/// Returns the events of one watch. After its end, a list finds the missed changes.
fn watch_once<'a>(
    cluster: &'a Cluster,
    name: Option<&'a str>,
    version: String,
) -> impl Stream<Item = Result<InstanceChange, kube::Error>> + Send + 'a {
    let watch = async move {
        let params = WatchParams {
            field_selector: selector(name),
            ..WatchParams::default().timeout(WATCH_TIMEOUT_SECONDS)
        };
        let events = cluster.instances().watch(&params, &version).await;
        if let Ok(events) = events {
            events.boxed()
        } else {
            sleep(RETRY_DELAY).await;
            stream::empty().boxed()
        }
    };
    stream::once(watch)
        .flatten()
        .take_while(|event| ready(!matches!(event, Err(_) | Ok(WatchEvent::Error(_)))))
        .try_filter_map(|event| {
            ready(Ok(match event {
                WatchEvent::Added(instance) | WatchEvent::Modified(instance) => {
                    Some(InstanceChange::Updated(Box::new(instance)))
                }
                WatchEvent::Deleted(instance) => Some(InstanceChange::Deleted(instance.name_any())),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            }))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::instance;

    #[test]
    fn list_reports_instances_that_were_deleted_between_watches() {
        let named = |name: &str| instance(&json!({"metadata": {"name": name}}));
        let mut existing = BTreeSet::new();
        changes_of(&mut existing, ListOrChange::Listed(vec![named("a")]));
        let created = InstanceChange::Updated(Box::new(named("b")));
        changes_of(&mut existing, ListOrChange::Changed(created));
        let changes = changes_of(&mut existing, ListOrChange::Listed(vec![named("a")]));
        let is_deleted = |change: &InstanceChange| matches!(change, InstanceChange::Deleted(name) if name == "b");
        assert!(changes.iter().any(is_deleted), "{changes:?}");
    }
}
