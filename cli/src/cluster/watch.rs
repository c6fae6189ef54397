//! Watch of BundleInstances.

use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use kube::{
    ResourceExt as _,
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
        let events: stream::BoxStream<'a, Result<InstanceChange, kube::Error>> =
            match list(cluster, name).await {
                Ok((items, version)) => {
                    state.failures = 0;
                    let deleted = name.filter(|_| items.is_empty());
                    let deleted = deleted.map(|name| Ok(InstanceChange::Deleted(name.to_owned())));
                    let current = items
                        .into_iter()
                        .map(|instance| Ok(InstanceChange::Updated(Box::new(instance))));
                    let current = stream::iter(current.chain(deleted));
                    current.chain(watch_once(cluster, name, version)).boxed()
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
    attempts
        .flatten()
        .map_err(move |error| cluster.explain("failed to watch BundleInstances", error))
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
        .take_while(|event| std::future::ready(!matches!(event, Err(_) | Ok(WatchEvent::Error(_)))))
        .try_filter_map(|event| {
            std::future::ready(Ok(match event {
                WatchEvent::Added(instance) | WatchEvent::Modified(instance) => {
                    Some(InstanceChange::Updated(Box::new(instance)))
                }
                WatchEvent::Deleted(instance) => Some(InstanceChange::Deleted(instance.name_any())),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            }))
        })
}
