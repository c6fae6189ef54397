//! Bundle controller: watches Bundles and the objects they depend on, and triggers their reconciles.

use std::{
    collections::HashMap,
    fmt::Debug,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use futures::{Stream, StreamExt as _, TryStreamExt as _, future, stream};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event as EventObject, Pod, Secret},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::PartialObjectMeta,
    core::NamespaceResourceScope,
    runtime::{
        Controller, WatchStreamExt as _,
        controller::{self, Action, Config},
        reflector::ObjectRef,
        watcher::{self, watcher},
    },
};
use manifests::api::{bundle::Bundle, labels};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    cache::{BundleCache, Change},
    content_gc,
    job::{self, JobQueue},
    reconcile::{BundleContext, Error, reconcile},
    source,
    status::{is_lost, is_unpacked},
    uid,
};
use crate::{
    controllers::context::Context,
    runtime::{metrics::Controller as Of, readiness::ReadinessTask},
};
use apply::{
    api_error,
    backoff::{NoWatchBackoff, WatchBackoff},
};

/// Maximum number of concurrent reconciles.
const MAX_CONCURRENT_RECONCILES: u16 = 64;
/// Timeout of one watch of Events, in seconds.
const EVENTS_TIMEOUT: u32 = 60;

/// Runs the controller until `stop` is cancelled. Running reconciles finish first.
pub async fn run(ctx: Context, bundles: Arc<BundleCache>, stop: CancellationToken) {
    let client = ctx.client.clone();
    let namespace = ctx.settings.system_namespace.clone();
    let metrics = Arc::clone(&ctx.metrics);
    let changes = bundles.subscribe();
    let (shared, abandoned) = BundleContext::new(ctx, Arc::clone(&bundles));
    let shared = Arc::new(shared);
    let upkeep = tokio::spawn(content_gc::run(
        Arc::clone(&shared),
        abandoned,
        stop.clone(),
    ));
    let ready = shared.ctx.ready.task("list Bundles");
    let changed = changed(changes, ready).inspect({
        let metrics = Arc::clone(&metrics);
        move |bundle| metrics.queue(Of::Bundle).triggered(&bundle.name)
    });
    // Every rollout writes some of these, and no Bundle refers to them.
    let without_label = |label: &str| watcher::Config::default().labels(&format!("!{label}"));
    let secrets = changed_metadata::<Secret>(
        client.clone(),
        &namespace,
        without_label(labels::REVISION_OF),
    );
    let config_maps = changed_metadata::<ConfigMap>(
        client.clone(),
        &namespace,
        without_label(labels::INVENTORY_OF),
    );
    let of_secret = {
        let bundles = Arc::clone(&bundles);
        move |secret: PartialObjectMeta<Secret>| {
            to_references(&bundles.of_secret(&secret.name_any()))
        }
    };
    let of_config_map = {
        let bundles = Arc::clone(&bundles);
        move |map: PartialObjectMeta<ConfigMap>| {
            let mut names = bundles.of_config_map(&map.name_any());
            names.extend(
                owner(&map).filter(|name| bundle_matches(&bundles, name, waits_for_upload)),
            );
            to_references(&names)
        }
    };
    let pull_config_changes = on_pull_config_change(&shared.ctx, Arc::clone(&bundles));
    let controller = Controller::for_stream(stream::pending(), bundles.store())
        .reconcile_on(changed)
        .reconcile_on(pull_config_changes);
    let controller = with_jobs(controller, &shared.ctx, &bundles)
        .with_config(Config::default().concurrency(MAX_CONCURRENT_RECONCILES))
        .trigger_backoff(NoWatchBackoff)
        .watches_stream(secrets, of_secret)
        .watches_stream(config_maps, of_config_map)
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile, requeue_after_error, shared)
        .for_each(|result| {
            match result {
                Ok((bundle, _)) => debug!(bundle = bundle.name, "reconciled Bundle"),
                Err(controller::Error::ObjectNotFound(deleted)) => {
                    metrics.queue(Of::Bundle).dequeued(&deleted.name);
                }
                Err(error) => {
                    let error = api_error::chain(&error);
                    warn!(error, "error in the Bundle controller");
                }
            }
            future::ready(())
        });
    controller.await;
    upkeep.abort();
}

/// Triggers reconciles of Bundles when their Jobs, the pods of these Jobs or their Events change.
fn with_jobs(
    controller: Controller<Bundle>,
    ctx: &Context,
    bundles: &Arc<BundleCache>,
) -> Controller<Bundle> {
    let (client, namespace) = (&ctx.client, &ctx.settings.system_namespace);
    let of_bundles = watcher::Config::default().labels(&format!("{}=Bundle", labels::OWNER_KIND));
    // The status of a Job is not part of its metadata.
    let jobs = Api::<Job>::namespaced(client.clone(), namespace);
    let queue = Arc::clone(&ctx.job_queue);
    let jobs = watcher(jobs, of_bundles.clone())
        .backoff(WatchBackoff::default())
        .inspect_ok(move |event| queue.observe(event))
        .touched_objects();
    let pods = changed_metadata::<Pod>(client.clone(), namespace, of_bundles);
    // The API server sends no bookmarks for Events, so a quiet watch must end before it counts as broken.
    let rejections = watcher::Config::default()
        .fields(job::REFUSALS)
        .timeout(EVENTS_TIMEOUT);
    let rejections = changed_metadata::<EventObject>(client.clone(), namespace, rejections);
    let grants = queue_grants(Arc::clone(&ctx.job_queue), Arc::clone(bundles));
    let bundles = Arc::clone(bundles);
    let of_rejection = move |event: PartialObjectMeta<EventObject>| {
        // The name of an Event starts with the name of its object, the Job.
        let name = event.name_any();
        let job = name.rsplit_once('.').map(|(job, _)| job);
        let bundle = job.and_then(job::bundle_of);
        let bundle =
            bundle.filter(|name| bundle_matches(&bundles, name, |bundle| !is_unpacked(bundle)));
        bundle.map(ObjectRef::new)
    };
    controller
        .reconcile_on(grants)
        .watches_stream(jobs, owners)
        .watches_stream(pods, owners)
        .watches_stream(rejections, of_rejection)
}

/// Returns the Bundles to reconcile after the pull configuration of the cluster has changed.
fn on_pull_config_change(
    ctx: &Context,
    bundles: Arc<BundleCache>,
) -> impl Stream<Item = ObjectRef<Bundle>> + use<> {
    let changes = ctx.pull_config.changes();
    changes.flat_map(move |()| {
        let mut bundles = bundles.all();
        bundles.retain(|bundle| !is_unpacked(bundle));
        stream::iter(bundles).map(|bundle| ObjectRef::from_obj(&*bundle))
    })
}

/// Returns the Bundles that may create their Job, in the order of the queue.
fn queue_grants(
    queue: Arc<JobQueue>,
    bundles: Arc<BundleCache>,
) -> impl Stream<Item = ObjectRef<Bundle>> {
    stream::unfold((queue, bundles), |(queue, bundles)| async move {
        loop {
            let (uid, name) = queue.next_granted().await;
            let bundle = bundles.get(&name);
            if bundle.is_some_and(|bundle| bundle.uid().as_ref() == Some(&uid)) {
                return Some((ObjectRef::new(&name), (queue, bundles)));
            }
            queue.finish(&uid);
        }
    })
}

/// Returns the Bundles to reconcile. Drops `ready` when all Bundles are listed.
fn changed(
    changes: impl Stream<Item = Change> + Send,
    ready: ReadinessTask,
) -> impl Stream<Item = ObjectRef<Bundle>> + Send {
    let mut ready = Some(ready);
    let mut states = HashMap::new();
    changes.flat_map(move |change| {
        let mut bundles = match change {
            Change::Listed(bundles) => {
                drop(ready.take());
                bundles
            }
            Change::Applied(bundle) => vec![bundle],
            Change::Deleted(bundle) => {
                states.remove(&bundle.name_any());
                Vec::new()
            }
        };
        bundles.retain(|bundle| {
            let state = state(bundle);
            states.insert(bundle.name_any(), state) != Some(state)
        });
        stream::iter(bundles).map(|bundle| ObjectRef::from_obj(&*bundle))
    })
}

/// Reports whether a Bundle waits for an upload: it is not unpacked, or the cluster has lost its content.
fn waits_for_upload(bundle: &Bundle) -> bool {
    source::is_upload(&bundle.spec.source) && (!is_unpacked(bundle) || is_lost(bundle))
}

/// Returns a hash of the fields whose change causes a reconcile. A status that only reports more progress of the controller
/// causes none. The removal of the status does, and so does the loss or the return of uploaded content.
fn state(bundle: &Bundle) -> u64 {
    let mut hasher = DefaultHasher::new();
    bundle.metadata.uid.hash(&mut hasher);
    bundle.metadata.generation.hash(&mut hasher);
    bundle
        .metadata
        .deletion_timestamp
        .is_some()
        .hash(&mut hasher);
    is_unpacked(bundle).hash(&mut hasher);
    waits_for_upload(bundle).hash(&mut hasher);
    bundle.status.is_some().hash(&mut hasher);
    hasher.finish()
}

/// Returns the changed objects of a kind, as metadata.
fn changed_metadata<K>(
    client: Client,
    namespace: &str,
    config: watcher::Config,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client, namespace);
    watcher(api, config)
        .backoff(WatchBackoff::default())
        .touched_objects()
}

/// Returns the name of the Bundle that an object was created for.
fn owner<K: Resource>(object: &K) -> Option<String> {
    let labels = object.meta().labels.as_ref()?;
    let is_bundle = labels
        .get(labels::OWNER_KIND)
        .is_some_and(|kind| kind == "Bundle");
    is_bundle.then(|| labels.get(labels::OWNER_NAME).cloned())?
}

/// Returns a reference to the Bundle that an object was created for.
#[expect(clippy::needless_pass_by_value)] // signature required by the controller
fn owners<K: Resource>(object: K) -> Option<ObjectRef<Bundle>> {
    owner(&object).map(|name| ObjectRef::new(&name))
}

fn to_references(names: &[String]) -> Vec<ObjectRef<Bundle>> {
    names.iter().map(|name| ObjectRef::new(name)).collect()
}

/// Reports whether a Bundle of this name exists and satisfies a predicate.
fn bundle_matches(bundles: &BundleCache, name: &str, predicate: impl Fn(&Bundle) -> bool) -> bool {
    bundles.get(name).is_some_and(|bundle| predicate(&bundle))
}

#[expect(clippy::needless_pass_by_value)] // signature required by the controller
fn requeue_after_error(bundle: Arc<Bundle>, _: &Error, shared: Arc<BundleContext>) -> Action {
    shared.requeue_failed(uid(&bundle), false)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::{fixtures::condition, runtime::readiness::Readiness};

    fn bundle(name: &str, uid: &str, generation: i64, status: &Value) -> Arc<Bundle> {
        Arc::new(object!({
            "metadata": {"name": name, "uid": uid, "generation": generation}, "spec": {"source": {"type": "upload"}},
            "status": status,
        }))
    }

    #[test]
    fn changed_bundles_are_reconciled_except_for_progress() {
        use Change::{Applied, Deleted, Listed};
        let ready = Readiness::default();
        let task = ready.task("list Bundles");
        let (sender, changes) = futures::channel::mpsc::unbounded();
        let mut changed = changed(changes, task);
        let new = |name, uid| bundle(name, uid, 1, &Value::Null);
        let pending = |message: &str| {
            let condition = condition("Unpacked", "False", "Unpacking", message);
            let status = json!({"phase": "Unpacking", "conditions": [condition]});
            bundle("b", "1", 1, &status)
        };
        let unpacked = |type_: &str, status: &str| {
            let status = json!({
                "phase": "Unpacked", "observedGeneration": 1, "contentDigest": "sha256:aa", "contentURL": "https://a",
                "resolvedSource": {"type": "upload"},
                "conditions": [condition("Unpacked", "True", "Any", ""), condition(type_, status, "Any", "")],
            });
            bundle("b", "1", 1, &status)
        };
        let found = || unpacked("Other", "True");
        let lost = || unpacked("ContentAvailable", "False");
        let of_image = with!((*lost()).clone() => spec.source.type_: "image".to_owned());
        assert_each!(|bundle, expected| waits_for_upload(&bundle) => expected;
            new("b", "1") => true;
            pending("one") => true;
            found() => false;
            lost() => true;
            Arc::new(of_image) => false;
        );
        assert_eq!(ready.waiting(), ["list Bundles"]);
        for (change, expected) in vec![
            (Listed(vec![new("a", "1"), new("b", "1")]), "a b"),
            (Applied(new("a", "1")), ""),
            (Applied(pending("one")), "b"),
            (Applied(pending("two")), ""),
            (Applied(found()), "b"),
            (Applied(lost()), "b"),
            (Applied(lost()), ""),
            // The content service has received the content again.
            (Applied(found()), "b"),
            (Applied(new("b", "1")), "b"),
            (Applied(bundle("a", "1", 2, &Value::Null)), "a"),
            (Listed(vec![bundle("a", "1", 2, &Value::Null)]), ""),
            (Applied(new("a", "2")), "a"),
            (Deleted(new("a", "2")), ""),
            (Applied(new("a", "2")), "a"),
        ] {
            let text = format!("{change:?}");
            sender.unbounded_send(change).unwrap();
            let mut names = Vec::new();
            while let Some(Some(bundle)) = changed.next().now_or_never() {
                names.push(bundle.name);
            }
            assert_eq!(names.join(" "), expected, "{text}");
            assert!(ready.waiting().is_empty());
        }
    }
}
