//! One reconciler of a pod, from its creation to a restart. `serving/registry_pods.rs` tests the controller.

use std::sync::Arc;

use provisioner::controllers::{
    catalog_source::registry_pod::{RegistryPodConfig, RegistryPodReconciler},
    context::Context,
};
use tests::{Buildah, Registry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use unpacker::{Source, source::Image};

use super::super::api_errors::{allow, deny};
use super::super::images::push_tide;
use super::super::{context, settings, tide, write_documents};
use super::*;
use crate::support::wait_part;

type Sources = watch::Sender<Arc<CatalogSource>>;

async fn digest(ctx: &Context, image: &str) -> String {
    let source = Source::Image(Image {
        reference: image.parse().unwrap(),
        platform: None,
    });
    let resolved = unpacker::resolve(&source, &ctx.settings.access).await;
    match resolved.unwrap() {
        Source::Image(pinned) => pinned.reference.digest().unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Reconciles a pod every 200 ms, as a controller that is triggered often, and passes each result to `report`.
async fn follow(
    ctx: Context,
    config: RegistryPodConfig,
    mut report: impl FnMut(&Result<RegistryPodState, Error>),
) {
    let mut reconciler = RegistryPodReconciler::new(ctx, config);
    let never = CancellationToken::new();
    loop {
        let result = reconciler.reconcile(&never).await;
        report(&result);
        let delay = reconciler.next_delay(&result);
        tokio::time::sleep(delay.min(Duration::from_millis(200))).await;
    }
}

/// Polls the tag every second, as the worker of a catalog.
async fn poll(ctx: Context, image: String, polls: watch::Sender<TagPoll>) {
    loop {
        polls.send_replace(TagPoll::Digest(digest(&ctx, &image).await));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

// parity: pod-6, pod-11
#[tokio::test]
async fn a_pod_is_followed_through_moved_tags_and_deletions() {
    let scene = Scene::new().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let dir = tempfile::tempdir().unwrap();
    let ctx = context(scene.cluster.config().clone(), dir.path(), None, settings());
    let (sources, source) = watch::channel(Arc::new(scene.source().await));
    let (sender, states) = watch::channel((PodServingState::Starting(String::new()), false));
    let (polls, polled) = watch::channel(TagPoll::default());
    let of = RegistryPodConfig {
        source,
        image: image.clone(),
        poll: Some(Duration::from_secs(2)),
        polls: polled,
    };
    let polling = tokio::spawn(poll(ctx.clone(), image.clone(), polls));
    let following = tokio::spawn(follow(ctx.clone(), of, move |outcome| {
        // A single failure, such as a write conflict, is retried.
        if let Ok(outcome) = outcome {
            sender.send_modify(|(state, asked)| {
                state.clone_from(&outcome.state);
                *asked |= outcome.asked;
            });
        }
    }));
    let names = async |count: usize| {
        let names = async || scene.names().await;
        until("so many pods", names, |names| names.len() == count).await
    };
    let first = names(1).await.remove(0);
    let pod = scene.pods().await.remove(0).spec.unwrap();
    let args = pod.containers[0].args.clone().unwrap();
    tests::assert_rows!(args => ["serve", "/configs", "--port=50051"], "as the image's label says");
    // A deleted pod is noticed at once.
    let params = DeleteParams::default().grace_period(0);
    scene.api::<Pod>().delete(&first, &params).await.unwrap();
    let second = found("another one is made", async || {
        let mut names = scene.names().await.into_iter();
        names.find(|name| *name != first)
    })
    .await;
    let before = digest(&ctx, &image).await;
    scene.is_ready(&second, &before).await;
    let state = async || states.borrow().clone();
    until("served", state, |(state, _)| *state == serving(&before)).await;
    // The tag has not moved; the check needs no new pod.
    until("checked", state, |(_, asked)| *asked).await;
    assert_eq!(scene.names().await, [second.as_str()]);

    // Annotations that the catalog gets later are copied to its pod.
    annotate(&scene, &sources, json!({"later": "on"})).await;
    let (pods, pod) = (scene.api::<Pod>(), scene.names().await.remove(0));
    let annotations = json!({"annotations": {"a": "b", "later": "on"}});
    wait_part(pods.clone(), &pod, json!({"metadata": annotations})).await;

    // Objects of the pod are repaired at once, even if its annotations cannot be changed.
    let services = scene.api::<Service>();
    let params = tests::with!(PatchParams::default() => dry_run: true);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"tried": "yes"}}}));
    let attempt = async || pods.patch(&pod, &params, &patch).await;
    deny(&scene.cluster, "UPDATE", ("", "pods"), attempt).await;
    annotate(&scene, &sources, json!({"refused": "yes"})).await;
    delete(&services, "tide-v1").await;
    let service = async || services.get_opt("tide-v1").await.unwrap();
    found("another Service", service).await;
    tests::assert_rows!(pods.get(&pod).await.unwrap().annotations().contains_key("refused") => false);
    allow(&scene.cluster, "pods").await;

    push_tide(&registry, "org/catalog:v1", &["2.0.0"]);
    let both = names(2).await;
    let update = both.iter().find(|name| **name != second).unwrap();
    let after = digest(&ctx, &image).await;
    assert_ne!(after, before);
    scene.is_ready(update, &after).await;
    until("moved", state, |(state, _)| *state == serving(&after)).await;
    assert_eq!(names(1).await, [update.as_str()]);
    let pod = scene.pods().await.remove(0);
    assert_eq!(pod.labels()["olm.catalogSource"], CATALOG);
    tests::assert_rows!(pod.labels().contains_key("catalogsource.operators.coreos.com/update") => false, "{pod:?}");

    another_directory_is_followed(&scene, &ctx, &image, update, &states).await;
    following.abort();
    polling.abort();

    drop(registry);
    a_restart_without_the_registry_changes_nothing(&scene, &ctx, &image).await;
    cancellation_does_not_lose_a_pod(&scene.moved("desk").await, &ctx).await;
}

/// A reconcile that is cancelled while it writes creates its pod nevertheless, so that a list finds the pod.
async fn cancellation_does_not_lose_a_pod(scene: &Scene, ctx: &Context) {
    let patch = json!({"spec": {"grpcPodConfig": {"extractContent": {"catalogDir": "/configs"}}}});
    let source = merge(&scene.api::<CatalogSource>(), CATALOG, &patch).await;
    let (_sources, source) = watch::channel(Arc::new(source));
    let of = RegistryPodConfig {
        source,
        image: "example.com/catalog:v1".to_owned(),
        poll: None,
        polls: watch::channel(TagPoll::default()).1,
    };
    let mut reconciler = RegistryPodReconciler::new(ctx.clone(), of);
    // Before the first write, it ends.
    let cancel = CancellationToken::new();
    cancel.cancel();
    let result = reconciler.reconcile(&cancel).await;
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    let accounts = scene.api::<ServiceAccount>();
    assert_eq!(accounts.get_opt(CATALOG).await.unwrap(), None);

    // The service account is its first write.
    let cancel = CancellationToken::new();
    let cancelling = async {
        while accounts.get_opt(CATALOG).await.unwrap().is_none() {}
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(reconciler.reconcile(&cancel), cancelling);
    result.unwrap();
    assert_eq!(scene.names().await.len(), 1);
}

/// The pod is still kept and reported.
async fn a_restart_without_the_registry_changes_nothing(scene: &Scene, ctx: &Context, image: &str) {
    let before = scene.names().await;
    let policies = scene.api::<NetworkPolicy>();
    let name = "tide.v1-grpc-server";
    delete(&policies, name).await;
    let (_sources, source) = watch::channel(Arc::new(scene.source().await));
    let of = RegistryPodConfig {
        source,
        image: image.to_owned(),
        poll: None,
        polls: watch::channel(TagPoll::default()).1,
    };
    let mut reconciler = RegistryPodReconciler::new(ctx.clone(), of);
    let never = CancellationToken::new();
    let state = async || format!("{:?}", reconciler.reconcile(&never).await);
    let is_served = |state: &String| state.contains("state: Serving(");
    until("served", state, is_served).await;
    assert_eq!(scene.names().await, before);
    tests::assert_rows!(policies.get_opt(name).await.unwrap().is_some() => true, "the objects of the pod are repaired");
}

async fn annotate(scene: &Scene, sources: &Sources, annotations: Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    let source = merge(&scene.api::<CatalogSource>(), CATALOG, &patch).await;
    sources.send_replace(Arc::new(source));
}

/// An image with its catalog in another directory is served from there; until then the previous one is served.
async fn another_directory_is_followed(
    scene: &Scene,
    ctx: &Context,
    image: &str,
    update: &String,
    states: &watch::Receiver<(PodServingState, bool)>,
) {
    let elsewhere = "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/elsewhere\nCOPY . /elsewhere\n";
    let dir = tempfile::tempdir().unwrap();
    write_documents(dir.path(), &tide(&["3.0.0"]));
    Buildah::new().publish(elsewhere, dir.path(), image, &[]);
    let before = states.borrow().0.clone();
    let next = found("a pod that serves another directory", async || {
        let pods = scene.pods().await;
        let serves = |pod: &&Pod| {
            let args = pod.spec.as_ref().unwrap().containers[0].args.clone();
            args.unwrap_or_default().contains(&"/elsewhere".to_owned())
        };
        pods.iter().find(serves).map(Pod::name_any)
    })
    .await;
    assert_eq!(states.borrow().0, before, "by the one before");
    assert!(scene.names().await.contains(update));
    let last = digest(ctx, image).await;
    scene.is_ready(&next, &last).await;
    let state = async || states.borrow().0.clone();
    until("served", state, |state| *state == serving(&last)).await;
    let names = async || scene.names().await;
    until("one pod", names, |names| *names == [next.as_str()]).await;
}
