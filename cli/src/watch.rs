//! Following BundleInstances as they change.

use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use kube::{
    ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use manifests::api::instance::BundleInstance;
use tokio::time::sleep;

use crate::cluster::Cluster;

/// How long the server is asked to go on with one watch; the client gives up a silent connection later.
const TURN: u32 = 45;
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);
/// How many tries in a row may fail: a server that is restarted is back by then.
const TRIES: u32 = 20;

/// What has become of an instance.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// It is like this.
    Now(Box<BundleInstance>),
    /// It does not exist any more.
    Gone(String),
}

/// All instances, or the one of that name, as they are now and whenever they change. Ends with an error alone: when the
/// server refuses, or cannot be reached for long.
pub(crate) fn changes<'a>(
    cluster: &'a Cluster,
    name: Option<&'a str>,
) -> impl Stream<Item = anyhow::Result<Change>> + 'a {
    let turns = stream::unfold(State::default(), move |mut state| async move {
        if state.is_over {
            return None;
        }
        if state.failures > 0 {
            sleep(PAUSE).await;
        }
        let turn: stream::BoxStream<'a, Result<Change, kube::Error>> =
            match list(cluster, name).await {
                Ok((items, version)) => {
                    state.failures = 0;
                    let gone = name.filter(|_| items.is_empty());
                    let gone = gone.map(|name| Ok(Change::Gone(name.to_owned())));
                    let now = items.into_iter().map(|it| Ok(Change::Now(Box::new(it))));
                    let now = stream::iter(now.chain(gone));
                    now.chain(turn(cluster, name, version)).boxed()
                }
                Err(error) => {
                    state.failures += 1;
                    state.is_over = is_refusal(&error) || state.failures >= TRIES;
                    let told = state.is_over.then_some(Err(error));
                    stream::iter(told).boxed()
                }
            };
        Some((turn, state))
    });
    turns
        .flatten()
        .map_err(move |error| cluster.trouble("failed to follow BundleInstances", error))
}

#[derive(Default)]
struct State {
    failures: u32,
    is_over: bool,
}

/// Whether asking again would be in vain.
fn is_refusal(error: &kube::Error) -> bool {
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

/// One watch. Whatever ends it, what has been missed is listed next.
fn turn<'a>(
    cluster: &'a Cluster,
    name: Option<&'a str>,
    version: String,
) -> impl Stream<Item = Result<Change, kube::Error>> + Send + 'a {
    let watch = async move {
        let params = WatchParams {
            field_selector: selector(name),
            ..WatchParams::default().timeout(TURN)
        };
        let events = cluster.instances().watch(&params, &version).await;
        if let Ok(events) = events {
            events.boxed()
        } else {
            sleep(PAUSE).await;
            stream::empty().boxed()
        }
    };
    stream::once(watch)
        .flatten()
        .take_while(|event| std::future::ready(!matches!(event, Err(_) | Ok(WatchEvent::Error(_)))))
        .try_filter_map(|event| {
            std::future::ready(Ok(match event {
                WatchEvent::Added(it) | WatchEvent::Modified(it) => Some(Change::Now(Box::new(it))),
                WatchEvent::Deleted(it) => Some(Change::Gone(it.name_any())),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            }))
        })
}
