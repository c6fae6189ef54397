//! Watch of one target. It reports the complete set of objects after each change, because the sets are small.

use std::{collections::BTreeMap, pin::pin};

use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    core::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::mpsc;

use super::Source;
use apply::{
    api_error::{self, code, is_refusal},
    backoff::relisting,
};

/// Target of a watch: all objects of a kind, or a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<&'static str>,
    pub(super) name: Option<String>,
}

/// Event of a watch.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// All objects of the target.
    Objects(Vec<DynamicObject>),
    /// The watch has failed.
    Failed(Failure),
}

/// Failure of a watch.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) problem: String,
    /// True if the API server has rejected the watch, so that it does not recover by itself.
    pub(super) is_refusal: bool,
}

/// Watches a target and sends its objects until the receiver is dropped.
pub(super) async fn run(
    client: Client,
    source: Source,
    target: Target,
    sender: mpsc::Sender<(Source, Target, WatchEvent)>,
) {
    let api: Api<DynamicObject> = match target.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &target.resource),
        None => Api::all_with(client, &target.resource),
    };
    let config = match &target.name {
        Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        None => watcher::Config::default(),
    };
    let start = move || {
        watcher(api.clone(), config.clone()).modify(|object| object.managed_fields_mut().clear())
    };
    // A resumed watch would not send the objects again, and the failure would still be reported.
    let mut events = pin!(relisting(start, |_| true));
    let mut objects: BTreeMap<String, DynamicObject> = BTreeMap::new();
    let mut listing = BTreeMap::new();
    while let Some(event) = events.next().await {
        let message = match event {
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listing.insert(object.name_any(), object);
                continue;
            }
            Ok(event) => {
                match event {
                    Event::Apply(object) => drop(objects.insert(object.name_any(), object)),
                    Event::Delete(object) => drop(objects.remove(&object.name_any())),
                    _ => objects = std::mem::take(&mut listing),
                }
                WatchEvent::Objects(objects.values().cloned().collect())
            }
            Err(error) => {
                let code = code(&error);
                // The watcher lists the objects again by itself.
                if code == Some(410) {
                    continue;
                }
                let is_refusal = code.is_some_and(is_refusal);
                WatchEvent::Failed(Failure {
                    problem: describe_failure(&target, code, &error),
                    is_refusal,
                })
            }
        };
        if sender
            .send((source, target.clone(), message))
            .await
            .is_err()
        {
            return;
        }
    }
}

fn describe_failure(target: &Target, code: Option<u16>, error: &watcher::Error) -> String {
    let subject = match (target.namespace, &target.name) {
        (Some(namespace), Some(name)) => format!("{} {namespace}/{name}", target.resource.kind),
        (_, Some(name)) => format!("{} {name}", target.resource.kind),
        _ => target.resource.plural.clone(),
    };
    match code {
        Some(403) => format!(
            "the provisioner is not allowed to watch {subject}; apply manifests/install/openshift.yaml, which grants \
             this permission, or set --follow-openshift=false"
        ),
        _ => format!("failed to watch {subject}: {}", api_error::chain(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use http::{Request, Response};
    use kube::{client::Body, core::GroupVersionKind};
    use serde_json::json;
    use tokio::time::timeout;
    use tower::{BoxError, service_fn};

    use super::*;

    /// Returns a client whose API server has no objects. Its first watch fails, and the later ones have no events.
    fn client() -> Client {
        let watches = Arc::new(AtomicUsize::new(0));
        let server = service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let watches = Arc::clone(&watches);
            async move {
                let is_watch = query.contains("watch=");
                if is_watch && watches.fetch_add(1, Ordering::Relaxed) > 0 {
                    std::future::pending::<()>().await;
                }
                let (code, body) = if is_watch {
                    (500, json!({"code": 500, "message": "no"}))
                } else {
                    let list = json!({
                        "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSetList",
                        "metadata": {"resourceVersion": "1"}, "items": [],
                    });
                    (200, list)
                };
                let response = Response::builder().status(code);
                let body = Body::from(body.to_string().into_bytes());
                response.body(body).map_err(BoxError::from)
            }
        });
        Client::new(server, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn recovered_watch_sends_its_objects_again() {
        let source = Source::ImageDigestMirrorSet;
        let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ImageDigestMirrorSet");
        let target = Target {
            resource: ApiResource::from_gvk(&kind),
            namespace: None,
            name: None,
        };
        let (sender, mut events) = mpsc::channel(1);
        tokio::spawn(run(client(), source, target, sender));
        let mut received = Vec::new();
        let minute = Duration::from_secs(60);
        while let Ok(Some((_, _, event))) = timeout(minute, events.recv()).await {
            received.push(match event {
                WatchEvent::Objects(objects) => Ok(objects.len()),
                WatchEvent::Failed(failure) => Err(failure.is_refusal),
            });
        }
        assert_eq!(received, [Ok(0), Err(false), Ok(0)]);
    }
}
