//! Content of Bundles in the store: pinned once, fetched again after a loss, removed with the last Bundle.

use std::{path::PathBuf, sync::Arc, time::Duration};

use manifests::api::bundle::BundleStatus;
use provisioner::{
    app,
    controllers::bundle::{self, LoadError, convert, upload::persist},
    runtime::settings::Settings,
};
use tests::Site;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use unpacker::{SkippedEntries, Tree};

use super::download::{Reader, files};
use super::*;
use crate::support::{
    Options, Provisioner, list, storage, unpacked as is_unpacked, with_controllers,
};

fn file(bundle: &Bundle) -> String {
    let digest = bundle.status.as_ref().unwrap().content_digest.as_ref();
    let hex = digest.unwrap().trim_start_matches("sha256:");
    format!("content/{hex}.tar")
}

/// Wipes a Bundle's status, and waits until it is written again, which proves a reconcile.
async fn wiped(name: &str) -> Bundle {
    let api: Api<Bundle> = world().await.api();
    let before = api.get(name).await.unwrap();
    let wipe = json!({"status": {"phase": "Failing", "contentURL": null}});
    merge_status(&api, name, &wipe).await;
    wait_for(api, name, "as before", move |bundle: &Bundle| {
        (bundle.status == before.status).then_some(())
    })
    .await
}

// parity: b6, complaint-2, b2, rukpak-16, platform-18, b21, platform-23, rukpak-5
#[tokio::test]
async fn b02_b06_b21_image_bundles_stay_as_they_were_pinned() {
    let world = world().await;
    let name = unique("image");
    let tag = world.registry.image(&format!("{name}:v1"));
    let absent = failing(&name, image(&tag), "source bundle content: ").await;
    assert!(message(&absent).contains(&tag), "{absent:?}");
    let status = absent.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Failing));
    assert!(status.content_url.is_none() && status.resolved_source.is_none());
    // No event announces a tag: the controller retries after a back-off.
    world.push(&format!("{name}:v1"), &small(&name)).await;
    let before = world.wait_bundle(&name, "Unpacked", "True").await;
    assert!(is_stored(&before).await);
    let success = json!({
        "type": "Unpacked", "reason": "UnpackSuccessful", "message": "Successfully unpacked the image Bundle",
        "observedGeneration": before.metadata.generation,
    });
    let status = json!({
        "phase": "Unpacked", "observedGeneration": before.metadata.generation, "conditions": [success],
        "resolvedSource": {"type": "image", "image": {"ref": tag.replace(":v1", "@sha256:*")}},
        "contentURL": format!("https://core.rukpak-system.svc/bundles/{name}.tgz"),
    });
    assert_part(&before, &json!({"status": status}));

    let moved = small(&format!("{name} moved"));
    world.push(&format!("{name}:v1"), &moved).await;
    let after = wiped(&name).await;
    assert_eq!(before.status, after.status, "the tag moved");
    let other = unpacked(&unique("image"), image(&tag)).await;
    assert_ne!(file(&other), file(&after));

    // The content service fetches content that the store lost, as on a new volume or in another replica.
    let reader = Reader::new(&["bundle-reader"]).await;
    let archive = reader.get(&before).await;
    tests::assert_rows!(files(&archive) => ["manifests/00000.yaml", "metadata/annotations.yaml"]);
    let path = world.provisioner().await.storage().join(file(&before));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(reader.get(&before).await, archive, "served after a loss");

    // The controller does so as well.
    std::fs::remove_file(&path).unwrap();
    tests::assert_rows!(before.status => wiped(&name).await.status, "the store lost the content");
    assert!(path.exists());
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
        let options = Options::with_flags(&["--controllers=bundle"]);
        let storage = Some(dir.path().to_owned());
        Provisioner::start(&cluster, tests::with!(options => storage: storage)).await
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
    first.kill().await;

    // While no provisioner runs, a Bundle is deleted, and the server changes the content of the other one.
    delete(&api, "two").await;
    let two = dir.path().join(file(two));
    assert!(two.exists());
    server.add("one", archive(&small("changed")));
    let catalog = record_catalog(&dir);
    let _second = start().await;
    until("swept", async || two.exists(), |exists| !exists).await;
    assert_eq!(api.get("one").await.unwrap().status, one.status);
    let one = dir.path().join(file(one));
    assert!(one.exists());

    // The removal of this content follows the first sweep.
    delete(&api, "one").await;
    until("removed", async || one.exists(), |exists| !exists).await;
    assert!(catalog.exists(), "the catalog can be served offline");
}

/// Stores content that an earlier process has pulled for a CatalogSource, and returns the path of the content.
fn record_catalog(dir: &TempDir) -> PathBuf {
    let content = Tree::from_content(small("catalog"));
    let digest = open_store(dir, 1 << 30).put(&content).unwrap().digest;
    let record = format!("{digest}\nexample.com/catalog:v1\n");
    tests::write(dir.path(), "catalogs/mine", &record);
    dir.path().join(format!("content/{}.tar", digest.hex()))
}

// parity: rukpak-8, g2
#[tokio::test]
async fn g02_deleted_bundles_leave_no_content() {
    let world = running().await;
    let api: Api<Bundle> = world.api();
    // Two Bundles with the same content. Another test covers a Bundle that is deleted during the fetch.
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
    let stored = async || is_stored(&second).await;
    until("removed", stored, |is_stored| !is_stored).await;
}

// parity: b19
#[tokio::test]
async fn b19_uploads_to_another_replica_are_unpacked() {
    let world = running().await;
    let name = unique("b19");
    let bundle = world.bundle(&name, "plain", upload(None)).await;
    let pending = wait_message(&name, "UnpackPending", "waiting for bundle to be uploaded").await;
    assert_eq!(pending.status.unwrap().phase, Some(Phase::Pending));

    // The store of the provisioner is empty, so the content comes from the cluster.
    let (dir, settings) = (storage(), Settings::default());
    let replica = open_store(&dir, 1 << 30);
    let content = replica.put(&Tree::from_content(small(&name))).unwrap();
    let (client, none) = (world.client(), SkippedEntries::default());
    let persisted = persist(&client, &settings, &replica, &bundle, &content, &none).await;
    persisted.unwrap();
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    assert!(is_stored(&bundle).await);
    tests::assert_rows!(bundle.status.as_ref().unwrap().content_digest => Some(content.digest.to_string()));

    // Content that the store lost is fetched from there as well.
    let path = world.provisioner().await.storage().join(file(&bundle));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(wiped(&name).await.status, bundle.status);
    assert!(path.exists());
}

// Content that the store evicted is not fetched again while no conversion needs the content: Bundles would evict each other
// without end.
#[tokio::test]
async fn evicted_content_is_not_fetched_by_a_resync() {
    let cluster = with_controllers().await;
    let dir = storage();
    let store = open_store(&dir, 100 << 10);
    let resync = Duration::from_millis(200);
    let settings = tests::with!(Settings, resync, follow_openshift: false);
    let (ctx, _) = app::context(cluster.config().clone(), settings, store).unwrap();
    let stop = CancellationToken::new();
    let (cache, watch) = bundle::watch(ctx.client.clone());
    let watch = tokio::spawn(watch);
    let controller = tokio::spawn(bundle::run(ctx.clone(), cache, stop.clone()));
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
    until("reconciles", async || count(), |count| *count >= enough).await;
    assert_eq!(before, list(&bundles).await);
    stop.cancel();
    controller.await.unwrap();
    watch.abort();
}

fn digest(content: &Content) -> String {
    let digest = unpacker::pack(content, Format::Tar, std::io::sink());
    digest.unwrap().to_string()
}

async fn is_removed(content: &Content) {
    let digest = digest(content);
    let stored = async || is_in_store(&digest).await;
    until("content is removed", stored, |is_stored| !is_stored).await;
}

#[tokio::test]
async fn content_of_a_deleted_bundle_is_not_that_of_its_successor() {
    let world = running().await;
    let name = unique("recreated");
    let content = small(&format!("{name} former"));
    let former = bytes::Bytes::from(archive(&content));
    let [asked, may_answer] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let gates = (Arc::clone(&asked), Arc::clone(&may_answer));
    let site = Site::start(None, move |_| {
        let ((asked, may_answer), former) = (gates.clone(), former.clone());
        async move {
            asked.add_permits(1);
            may_answer.acquire().await.unwrap().forget();
            http::Response::new(former)
        }
    });
    let source = http(&site.url("/former.tgz"));
    world.bundle(&name, "plain", source).await;
    asked.acquire().await.unwrap().forget();

    delete::<Bundle>(&world.api(), &name).await;
    let files = FileServer::start(None, None);
    let successor = archive(&small(&format!("{name} successor")));
    let url = files.add("successor.tgz", successor);
    let successor = world.bundle(&name, "plain", http(&url)).await;
    may_answer.add_permits(1);

    let unpacked = world.wait_bundle(&name, "Unpacked", "True").await;
    assert_eq!(unpacked.metadata.uid, successor.metadata.uid);
    tests::assert_rows!(unpacked.status.as_ref().unwrap().resolved_source => Some(http(&url)));
    assert!(is_stored(&unpacked).await);
    is_removed(&content).await;
}

#[tokio::test]
async fn rejected_content_is_stored_as_long_as_its_bundle_exists() {
    let name = unique("refused");
    let content = plain(&[json!({"kind": name})]);
    let files = FileServer::start(None, None);
    let url = files.add("refused.tgz", archive(&content));
    failing(&name, http(&url), "apiVersion").await;
    assert!(is_in_store(&digest(&content)).await);
    delete::<Bundle>(&world().await.api(), &name).await;
    is_removed(&content).await;
}

#[tokio::test]
async fn lost_content_is_fetched_again_unless_it_changed() {
    // A Bundle that was unpacked from a server, and a store without an in-memory cache.
    let dir = tempfile::tempdir().unwrap();
    let config = world().await.cluster.config().clone();
    let settings = tests::with!(Settings, follow_openshift: false);
    let (ctx, _) = app::context(config, settings, open_store(&dir, 1 << 30)).unwrap();
    let content = small("lost");
    let stored = ctx.store.put(&Tree::from_content(content.clone()));
    let digest = stored.unwrap().digest;
    let server = FileServer::start(None, None);
    let source = http(&server.add("bundle.tgz", archive(&content)));
    let mut bundle = bundle("lost", "plain", source.clone());
    bundle.status = Some(BundleStatus {
        phase: Some(Phase::Unpacked),
        content_digest: Some(digest.to_string()),
        resolved_source: Some(source),
        ..BundleStatus::default()
    });
    let pinned = bundle.clone();
    let path = dir.path().join(format!("content/{}.tar", digest.hex()));
    assert!(path.exists());
    let load = async |bundle: &Bundle| {
        let loaded = convert(&ctx, bundle, |content, _| content.clone()).await;
        loaded.unwrap()
    };

    assert_eq!(load(&bundle).await.unwrap(), content);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(load(&bundle).await.unwrap(), content, "removed");
    assert!(path.exists());
    std::fs::write(&path, "damaged").unwrap();
    assert_eq!(load(&bundle).await.unwrap(), content, "damaged");

    // The server has other content, also if the status lacks the pinned source.
    server.add("bundle.tgz", archive(&small("foreign content")));
    assert_eq!(load(&bundle).await.unwrap(), content, "stored");
    std::fs::remove_file(&path).unwrap();
    for is_pinned in [true, false] {
        if !is_pinned {
            bundle.status.as_mut().unwrap().resolved_source = None;
        }
        let error = load(&bundle).await.unwrap_err();
        let LoadError::Fetch { bundle, source } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(bundle, "lost");
        assert_has(source, "this Bundle is pinned");
        assert!(error.is_terminal());
        assert!(!path.exists());
    }

    // The server does not answer.
    let mut bundle = pinned;
    drop(server);
    let error = load(&bundle).await.unwrap_err();
    assert!(matches!(error, LoadError::Fetch { .. }), "{error:?}");
    bundle.status.as_mut().unwrap().content_digest = None;
    let error = load(&bundle).await.unwrap_err();
    assert!(matches!(error, LoadError::NotUnpacked { .. }), "{error:?}");
}
