//! Content of Bundles in the store: pinned once, fetched again after a loss, removed with the last Bundle.

use std::time::Duration;

use provisioner::{app, controllers::bundle::upload::persist, runtime::settings::Settings};
use tokio_util::sync::CancellationToken;
use unpacker::{Store, store::Budget};

use super::download::{Reader, files};
use super::*;
use crate::support::{
    Options, Provisioner, has, list, storage, unpacked as is_unpacked, with_controllers,
};

fn file(bundle: &Bundle) -> String {
    let digest = bundle.status.as_ref().unwrap().content_digest.as_ref();
    format!(
        "content/{}.tar",
        digest.unwrap().trim_start_matches("sha256:")
    )
}

/// Wipes a Bundle's status, and waits until it is written again, which proves a reconcile.
async fn wiped(name: &str) -> Bundle {
    let world = world().await;
    let api: Api<Bundle> = world.api();
    let before = api.get(name).await.unwrap();
    let wipe = json!({"status": {"phase": "Failing", "contentURL": null}});
    merge_status(&api, name, &wipe).await;
    wait_for(api, name, "as before", move |bundle: &Bundle| {
        (bundle.status == before.status).then_some(())
    })
    .await
}

/// Checks that a Bundle of a tag reports the digest that the tag had.
async fn is_pinned(bundle: &Bundle, tag: &str) {
    assert!(is_stored(bundle).await);
    let status = bundle.status.clone().unwrap();
    assert_eq!(status.phase, Some(Phase::Unpacked));
    assert_eq!(status.observed_generation, bundle.metadata.generation);
    let resolved = status.resolved_source.unwrap();
    assert_eq!(resolved.type_, "image");
    let reference = resolved.image.unwrap().reference;
    let repository = tag.trim_end_matches(":v1");
    assert!(
        reference.starts_with(&format!("{repository}@sha256:")),
        "{reference}"
    );
    let name = bundle.metadata.name.as_ref().unwrap();
    let url = format!("https://core.rukpak-system.svc/bundles/{name}.tgz");
    assert_eq!(status.content_url, Some(url));
    let unpacked = condition(&status.conditions, "Unpacked").unwrap();
    assert_eq!(unpacked.reason, "UnpackSuccessful");
    assert_eq!(unpacked.message, "Successfully unpacked the image Bundle");
    assert_eq!(unpacked.observed_generation, bundle.metadata.generation);
}

/// Creates a Bundle of a tag that does not exist, and waits until the condition names the tag.
async fn absent_tag_is_named(name: &str, tag: &str) {
    let bundle = failing(name, image(tag), "source bundle content: ").await;
    assert!(message(&bundle).contains(tag), "{bundle:?}");
    let status = bundle.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Failing));
    assert!(status.content_url.is_none() && status.resolved_source.is_none());
}

// parity: b6, complaint-2, b2, rukpak-16, platform-18, b21, platform-23, rukpak-5
#[tokio::test]
async fn b02_b06_b21_image_bundles_stay_as_they_were_pinned() {
    let world = world().await;
    let name = unique("image");
    let tag = world.registry.image(&format!("{name}:v1"));
    absent_tag_is_named(&name, &tag).await;
    // No event announces a tag: the controller retries after a back-off.
    world.push(&format!("{name}:v1"), &small(&name)).await;
    let before = world.wait_bundle(&name, "Unpacked", "True").await;
    is_pinned(&before, &tag).await;

    let moved = small(&format!("{name} moved"));
    world.push(&format!("{name}:v1"), &moved).await;
    let after = wiped(&name).await;
    assert_eq!(before.status, after.status, "the tag moved");
    let other = unpacked(&unique("image"), image(&tag)).await;
    assert_ne!(
        other.status.unwrap().content_digest,
        after.status.unwrap().content_digest
    );

    // The content service fetches content that the store lost, as on a new volume or in another replica.
    let reader = Reader::new(&["bundle-reader"]).await;
    let archive = reader.get(&before).await;
    assert_eq!(
        files(&archive),
        ["manifests/00000.yaml", "metadata/annotations.yaml"]
    );
    let path = world.provisioner().await.storage().join(file(&before));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(reader.get(&before).await, archive, "served after a loss");

    // The controller does so as well.
    std::fs::remove_file(&path).unwrap();
    let after = wiped(&name).await;
    assert_eq!(before.status, after.status, "the store lost the content");
    assert!(path.exists());
}

#[tokio::test]
async fn http_bundles_do_not_report_the_query_of_their_url() {
    let world = world().await;
    world.provisioner().await;
    let name = unique("http");
    let server = FileServer::start(None, None);
    let url = server.add("bundle.tgz", archive(&small(&name)));
    let before = unpacked(&name, http(&format!("{url}?token=hush"))).await;
    let status = before.status.as_ref().unwrap();
    let resolved = status.resolved_source.as_ref().unwrap().http.as_ref();
    assert_eq!(resolved.unwrap().url, url);
    assert!(!serde_json::to_string(status).unwrap().contains("hush"));
}

// In a separate control plane: two provisioners would restore each other's content.
// parity: rukpak-16
#[tokio::test]
async fn restarted_provisioner_fetches_only_missing_content() {
    let cluster = with_controllers().await;
    let api: Api<Bundle> = Api::all(cluster.client().unwrap());
    let server = FileServer::start(None, None);
    let dir = storage();
    let start = async || {
        let options = Options {
            storage: Some(dir.path().to_owned()),
            flags: vec!["--controllers=bundle".to_owned()],
            ..Options::default()
        };
        Provisioner::start(&cluster, options).await
    };
    let first = start().await;
    let mut bundles = Vec::new();
    for name in ["one", "two"] {
        let url = server.add(name, archive(&small(name)));
        create(&api, &bundle(name, "plain", http(&url))).await;
        bundles.push(is_unpacked(&api, name).await);
    }
    let [one, two] = bundles.as_slice() else {
        panic!("{bundles:?}");
    };
    first.signal("KILL").await;
    drop(first);

    // While no provisioner runs, a Bundle is deleted, and the server changes the content of the other one.
    delete(&api, "two").await;
    let two = dir.path().join(file(two));
    assert!(two.exists());
    server.add("one", archive(&small("changed")));
    let second = start().await;
    until("swept", async || two.exists(), |exists| !exists).await;
    let found = api.get("one").await.unwrap();
    assert_eq!(found.status, one.status);
    assert!(dir.path().join(file(one)).exists());
    drop(second);

    // The volume is empty, and the server has other content: the Bundle reports that, and stays unpacked, because installed
    // objects do not depend on the content.
    std::fs::remove_file(dir.path().join(file(one))).unwrap();
    let third = start().await;
    let lost = wait_for(api.clone(), "one", "reported", |bundle: &Bundle| {
        let conditions = &bundle.status.as_ref()?.conditions;
        has(conditions, "ContentAvailable", "False").then_some(())
    })
    .await
    .status
    .unwrap();
    let before = one.status.as_ref().unwrap();
    assert_eq!(lost.content_digest, before.content_digest);
    assert_eq!(lost.resolved_source, before.resolved_source);
    assert!(has(&lost.conditions, "Unpacked", "True"));
    let message = &condition(&lost.conditions, "ContentAvailable")
        .unwrap()
        .message;
    assert!(message.starts_with("source bundle content: "), "{message}");
    assert!(message.contains("this Bundle is pinned"), "{message}");
    assert_eq!(lost.phase, before.phase);
    drop(third);
}

// parity: rukpak-8, g2
#[tokio::test]
async fn g02_deleted_bundles_leave_no_content() {
    let world = world().await;
    world.provisioner().await;
    let api: Api<Bundle> = world.api();
    // Deleted during the fetch.
    for _ in 0..5 {
        let name = unique("gone");
        let tag = world.push(&format!("{name}:v1"), &small(&name)).await;
        world.bundle(&name, "plain", image(&tag)).await;
        delete(&api, &name).await;
        wait_deleted(api.clone(), &name).await;
    }

    // Two Bundles with the same content.
    let (one, two) = (unique("g2"), unique("g2"));
    let tag = world.push(&format!("{one}:v1"), &small(&one)).await;
    let first = unpacked(&one, image(&tag)).await;
    let second = unpacked(&two, image(&tag)).await;
    assert_eq!(file(&first), file(&second));
    delete(&api, &one).await;
    wait_deleted(api.clone(), &one).await;
    wiped(&two).await;
    assert!(is_stored(&second).await, "the other Bundle has the content");
    delete(&api, &two).await;
    let is_there = async || is_stored(&second).await;
    until("removed", is_there, |is_stored| !is_stored).await;
}

/// Content in the store of another replica.
struct Replica {
    store: Store,
    content: unpacker::store::Stored,
    _folder: tempfile::TempDir,
}

impl Replica {
    fn new(text: &str) -> Self {
        let dir = storage();
        let budget = Budget {
            disk: 1 << 30,
            memory: 0,
        };
        let store = Store::open(dir.path(), budget).unwrap();
        let tree = unpacker::Tree::from_content(small(text));
        Self {
            content: store.put(&tree).unwrap(),
            store,
            _folder: dir,
        }
    }

    /// Accepts the content as the upload of a Bundle.
    async fn accept(&self, bundle: &Bundle) {
        let (client, settings) = (world().await.client(), Settings::default());
        let none = unpacker::SkippedEntries::default();
        let (store, content) = (&self.store, &self.content);
        let recorded = persist(&client, &settings, store, bundle, content, &none).await;
        recorded.unwrap();
    }
}

// parity: b19
#[tokio::test]
async fn b19_uploads_to_another_replica_are_unpacked() {
    let world = world().await;
    world.provisioner().await;
    let name = unique("b19");
    let bundle = world.bundle(&name, "plain", upload(None)).await;
    let pending = says(&name, "UnpackPending", "waiting for bundle to be uploaded").await;
    assert_eq!(pending.status.unwrap().phase, Some(Phase::Pending));

    // The store of the provisioner is empty, so the content comes from the cluster.
    let replica = Replica::new(&name);
    replica.accept(&bundle).await;
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    assert!(is_stored(&bundle).await);
    let digest = bundle.status.as_ref().unwrap().content_digest.clone();
    assert_eq!(digest, Some(replica.content.digest.to_string()));

    // Content that the store lost is fetched from there as well.
    let path = world.provisioner().await.storage().join(file(&bundle));
    std::fs::remove_file(&path).unwrap();
    let after = wiped(&name).await;
    assert_eq!(after.status, bundle.status);
    assert!(path.exists());

    // A digest other than that of the spec, accepted by a provisioner that does not know the field.
    let name = unique("digest");
    let expected = unpacker::Digest::sha256(b"other");
    let source = upload(Some(expected.to_string()));
    let mut bundle = world.bundle(&name, "plain", source).await;
    bundle.spec.source = upload(None);
    replica.accept(&bundle).await;
    let problem = format!("the Bundle accepts only {expected}");
    let bundle = says(&name, "UnpackFailed", &problem).await;
    assert_eq!(bundle.status.unwrap().content_digest, None);
}

// Content that the store evicted is not fetched again while no conversion needs the content: Bundles would evict each other
// without end.
#[tokio::test]
async fn evicted_content_is_not_fetched_by_a_resync() {
    let cluster = with_controllers().await;
    let dir = storage();
    let budget = Budget {
        disk: 100 << 10,
        memory: 0,
    };
    let store = Store::open(dir.path(), budget).unwrap();
    let settings = Settings {
        resync: Duration::from_millis(200),
        follow_openshift: false,
        ..Settings::default()
    };
    let (ctx, _) = app::context(cluster.config().clone(), settings, store).unwrap();
    let stop = CancellationToken::new();
    let (cache, watch) = provisioner::controllers::bundle::watch(ctx.client.clone());
    let watch = tokio::spawn(watch);
    let controller = tokio::spawn(provisioner::controllers::bundle::run(
        ctx.clone(),
        cache,
        stop.clone(),
    ));
    let server = FileServer::start(None, None);
    let bundles: Api<Bundle> = Api::all(cluster.client().unwrap());
    let large = |name: &str| small(&name.repeat(60 << 10));
    for name in ["a", "b"] {
        let source = http(&server.add(name, archive(&large(name))));
        create(&bundles, &bundle(name, "plain", source)).await;
        is_unpacked(&bundles, name).await;
    }
    assert_eq!(ctx.store.digests().unwrap().len(), 1);
    let before = list(&bundles).await;
    for name in ["a", "b"] {
        server.add(name, archive(&large("c")));
    }
    // A fetch would report content that differs from the content of the Bundle.
    let queue = "rukpak_reconciles_total{controller=\"Bundle\"} ";
    let count = || {
        let text = ctx.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(queue));
        line.unwrap().parse::<u64>().unwrap()
    };
    let enough = count() + 8;
    let counted = async || count();
    until("reconciles", counted, |count| *count >= enough).await;
    assert_eq!(before, list(&bundles).await);
    stop.cancel();
    controller.await.unwrap();
    watch.abort();
}
