//! Pods that are reconciled on every change.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use provisioner::controllers::{
    catalog_source::registry_pod::{PodInformers, RegistryPodConfig, follow},
    context::Context,
};
use tests::{Buildah, Registry};
use tokio::sync::watch;
use unpacker::{Source, source::Image};

use super::super::api_errors::{allow, deny};
use super::super::images::push_tide;
use super::super::{context, settings, tide, write_documents};
use super::*;

/// Returns the digest that the registry has for a tag.
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

// parity: pod-6, pod-11
#[tokio::test]
async fn a_pod_is_followed_through_moved_tags_and_deletions() {
    let place = Place::new().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let dir = tempfile::tempdir().unwrap();
    let config = place.cluster.config().clone();
    let ctx = context(config, dir.path(), None, settings());
    deleted_pods_are_recreated_ever_more_slowly(&place, &ctx, &image).await;
    let place = place.moved("second").await;
    a_tag_that_has_moved_is_noticed(place, ctx, registry, image).await;
}

async fn a_tag_that_has_moved_is_noticed(
    place: Place,
    ctx: Context,
    registry: Registry,
    image: String,
) {
    let (sources, source) = watch::channel(Arc::new(place.source().await));
    let (sender, mut states) = watch::channel((PodServingState::Starting(String::new()), false));
    let watches = Arc::new(PodInformers::default());
    let following = {
        let (ctx, image, watches) = (ctx.clone(), image.clone(), Arc::clone(&watches));
        tokio::spawn(async move {
            let of = RegistryPodConfig {
                source,
                image: &image,
                poll: Some(Duration::from_secs(2)),
            };
            let report = |outcome: &Result<RegistryPodState, Error>| {
                // A single failure, such as a write conflict, is retried.
                if let Ok(outcome) = outcome {
                    sender.send_modify(|(state, asked)| {
                        state.clone_from(&outcome.state);
                        *asked |= outcome.asked;
                    });
                }
            };
            follow(&ctx, &watches, of, report).await
        })
    };
    let names = async |count: usize| {
        let names = async || place.names().await;
        until("so many pods", names, |names| names.len() == count).await
    };
    let first = names(1).await.remove(0);
    let pod = place.pods().await.remove(0).spec.unwrap();
    let args = pod.containers[0].args.clone().unwrap();
    let serve = ["serve", "/configs", "--port=50051"];
    assert_eq!(args, serve, "as the image's label says");
    // A deleted pod is noticed at once.
    let params = DeleteParams::default().grace_period(0);
    place.api::<Pod>().delete(&first, &params).await.unwrap();
    let second = found("another one is made", async || {
        let mut names = place.names().await.into_iter();
        names.find(|name| *name != first)
    })
    .await;
    let before = digest(&ctx, &image).await;
    place.is_ready(&second, &before).await;
    let is_reported = |(state, _): &(PodServingState, bool)| *state == serving(&before);
    states.wait_for(is_reported).await.unwrap();
    // The tag has not moved; the check needs no new pod.
    states.wait_for(|(_, asked)| *asked).await.unwrap();
    assert_eq!(place.names().await, [second.as_str()]);
    later_annotations_are_followed(&place, &sources).await;
    annotations_that_are_refused_keep_nothing_from_being_done(&place, &sources).await;
    assert_eq!(watches.count(), 1);

    push_tide(&registry, "org/catalog:v1", &["2.0.0"]);
    let both = names(2).await;
    let update = both.iter().find(|name| **name != second).unwrap();
    let after = digest(&ctx, &image).await;
    assert_ne!(after, before);
    place.is_ready(update, &after).await;
    let moved = states.wait_for(|(state, _)| *state == serving(&after));
    tokio::time::timeout(Duration::from_secs(60), moved)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(names(1).await, [update.as_str()]);

    another_folder_is_followed(&place, &ctx, &image, update, states).await;
    following.abort();
    let watched = async || watches.count();
    until("nothing is watched", watched, |count| *count == 0).await;

    drop(registry);
    a_restart_without_the_registry_changes_nothing(&place, &ctx, &image).await;
}

/// Pods are deleted repeatedly, as a policy that forbids such pods would do.
async fn deleted_pods_are_recreated_ever_more_slowly(place: &Place, ctx: &Context, image: &str) {
    let (_sources, source) = watch::channel(Arc::new(place.source().await));
    let (ctx, image) = (ctx.clone(), image.to_owned());
    let following = tokio::spawn(async move {
        let of = RegistryPodConfig {
            source,
            image: &image,
            poll: None,
        };
        follow(&ctx, &PodInformers::default(), of, |_| {}).await
    });
    let pods = place.api::<Pod>();
    let params = DeleteParams::default().grace_period(0);
    let mut made = Vec::new();
    for _ in 0..5 {
        let name = async || place.names().await.pop();
        let name = found("another pod", name).await;
        pods.delete(&name, &params).await.unwrap();
        made.push(Instant::now());
    }
    following.abort();
    let delays: Vec<Duration> = made.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The first pod is created at once, then after one, two and four seconds.
    assert!(delays[2] > Duration::from_millis(1500), "{delays:?}");
    assert!(delays[3] > Duration::from_secs(3), "{delays:?}");
}

/// The pod is still kept and reported.
async fn a_restart_without_the_registry_changes_nothing(place: &Place, ctx: &Context, image: &str) {
    let before = place.names().await;
    let policies = place.api::<NetworkPolicy>();
    let name = "tide.v1-grpc-server";
    delete(&policies, name).await;
    let (_sources, source) = watch::channel(Arc::new(place.source().await));
    let (sender, mut states) = watch::channel(String::new());
    let of = RegistryPodConfig {
        source,
        image,
        poll: None,
    };
    let report = |outcome: &Result<RegistryPodState, Error>| {
        sender.send_replace(format!(
            "{:?}",
            outcome.as_ref().map(|outcome| &outcome.state)
        ));
    };
    let watches = PodInformers::default();
    tokio::select! {
        never = follow(ctx, &watches, of, report) => match never {},
        done = states.wait_for(|state| state.starts_with("Ok(Serving(")) => drop(done.unwrap()),
        () = tokio::time::sleep(Duration::from_secs(120)) => panic!("not told as served"),
    }
    assert_eq!(place.names().await, before);
    let policy = policies.get_opt(name).await.unwrap();
    assert!(policy.is_some(), "what belongs to it is repaired");
}

/// Annotations that the catalog gets later are copied to its pod, and the objects of the pod are repaired at once.
async fn later_annotations_are_followed(
    place: &Place,
    sources: &watch::Sender<Arc<CatalogSource>>,
) {
    let annotated = json!({"metadata": {"annotations": {"later": "on"}}});
    place.patch::<CatalogSource>(CATALOG, annotated).await;
    sources.send_replace(Arc::new(place.source().await));
    let annotations = async || place.pods().await.remove(0).annotations().clone();
    let has_later =
        |all: &BTreeMap<String, String>| all.get("later").is_some_and(|value| value == "on");
    until("the pod has them, too", annotations, has_later).await;
    // Removed annotations are removed from the pod, but not those of other clients.
    let pod = place.names().await.remove(0);
    let theirs = json!({"metadata": {"annotations": {"network": "up"}}});
    place.patch::<Pod>(&pod, theirs).await;
    let bare = json!({"metadata": {"annotations": {"later": null}}});
    place.patch::<CatalogSource>(CATALOG, bare).await;
    sources.send_replace(Arc::new(place.source().await));
    let has_lost = |all: &BTreeMap<String, String>| {
        let has = |name: &str| all.contains_key(name);
        !has("later") && has("network") && has("a")
    };
    until("the pod has lost them, too", annotations, has_lost).await;
    let policies = place.api::<NetworkPolicy>();
    let name = "tide.v1-grpc-server";
    let deleted = policies.get(name).await.unwrap().uid();
    delete(&policies, name).await;
    found("its policy is there again", async || {
        let policy = policies.get_opt(name).await.unwrap();
        policy.filter(|policy| policy.uid() != deleted)
    })
    .await;
}

async fn annotations_that_are_refused_keep_nothing_from_being_done(
    place: &Place,
    sources: &watch::Sender<Arc<CatalogSource>>,
) {
    let (pods, services) = (place.api::<Pod>(), place.api::<Service>());
    let pod = place.names().await.remove(0);
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"tried": "yes"}}}));
    let attempt = async || pods.patch(&pod, &params, &patch).await;
    deny(&place.cluster, "UPDATE", ("", "pods"), attempt).await;
    let annotated = json!({"metadata": {"annotations": {"refused": "yes"}}});
    place.patch::<CatalogSource>(CATALOG, annotated).await;
    sources.send_replace(Arc::new(place.source().await));
    delete(&services, "tide-v1").await;
    let service = async || services.get_opt("tide-v1").await.unwrap();
    found("its Service is there again", service).await;
    let live = pods.get(&pod).await.unwrap();
    assert!(!live.annotations().contains_key("refused"), "{live:?}");
    allow(&place.cluster, "pods").await;
}

/// An image with its catalog in another directory is served from there; until then the previous one is served.
async fn another_folder_is_followed(
    place: &Place,
    ctx: &Context,
    image: &str,
    update: &String,
    mut states: watch::Receiver<(PodServingState, bool)>,
) {
    let elsewhere = "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/elsewhere\nCOPY . /elsewhere\n";
    let dir = tempfile::tempdir().unwrap();
    write_documents(dir.path(), &tide(&["3.0.0"]));
    Buildah::new().publish(elsewhere, dir.path(), image, &[]);
    let before = states.borrow().0.clone();
    let next = found("a pod that serves another folder", async || {
        let pods = place.pods().await;
        let mut matching = pods.iter().filter(|pod| {
            let args = &pod.spec.as_ref().unwrap().containers[0].args;
            args.iter()
                .flatten()
                .any(|argument| argument == "/elsewhere")
        });
        matching.next().map(Pod::name_any)
    })
    .await;
    assert_eq!(states.borrow().0, before, "by the one before");
    assert!(place.names().await.contains(update));
    let last = digest(ctx, image).await;
    place.is_ready(&next, &last).await;
    states
        .wait_for(|(state, _)| *state == serving(&last))
        .await
        .unwrap();
    let names = async || place.names().await;
    until("one pod", names, |names| *names == [next.as_str()]).await;
}
