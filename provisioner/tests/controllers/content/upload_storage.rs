//! Uploads in the cluster, and damage to their ConfigMaps.

use kube::ResourceExt;
use manifests::{api::bundle::Bundle, content::Content};
use provisioner::controllers::bundle::upload::{
    self, Error,
    StoreResult::{self, AlreadyStored, Stored},
};
use tests::assert_has;
use unpacker::{Digest, Options, SkippedEntries, Store, Tree, store::Budget};

use super::support::{Site, digest, noise, saying};
use super::uploads::maps;
use crate::support::{config_map, create, delete, unique};

/// Stores content, and records it as the upload of a Bundle.
async fn persist(site: &Site, bundle: &Bundle, content: &Content) -> Result<StoreResult, Error> {
    let stored = site.store.put(&Tree::from_content(content.clone()));
    let (content, none) = (stored.unwrap(), SkippedEntries::default());
    let (client, settings, store) = (&site.client, &site.settings, &site.store);
    upload::persist(client, settings, store, bundle, &content, &none).await
}

async fn upload_of(site: &Site, bundle: &Bundle, content: &Content) -> StoreResult {
    persist(site, bundle, content).await.unwrap()
}

pub(super) async fn restored(site: &Site, bundle: &Bundle) -> Option<Digest> {
    let upload = restore(site, bundle).await.unwrap();
    upload.map(|upload| upload.digest())
}

async fn restore(site: &Site, bundle: &Bundle) -> Result<Option<upload::Upload>, Error> {
    upload::restore(&site.client, &site.settings, bundle).await
}

// parity: b19, g5, rukpak-15, rukpak-22, complaint-16
#[tokio::test]
async fn uploads_outlast_the_store_and_damage_is_noticed() {
    let site = Site::new().await;
    let bundle = site.waiting().await;
    let content = noise(2 << 20);
    assert_eq!(upload_of(&site, &bundle, &content).await, Stored);
    for number in 0..3 {
        let name = format!("{}-upload-{number}", bundle.name_any());
        let map = site.config_maps().get(&name).await.unwrap();
        assert_eq!(map.immutable, Some(true));
        let owner = &map.owner_references()[0];
        assert_eq!(owner.kind, "Bundle");
        assert_eq!(Some(&owner.uid), bundle.metadata.uid.as_ref());
        assert_eq!(owner.block_owner_deletion, None);
    }
    let dir = tempfile::tempdir().unwrap();
    let (disk, memory) = (1 << 30, 0);
    let empty = Store::open(dir.path(), Budget { disk, memory }).unwrap();
    let upload = restore(&site, &bundle).await.unwrap().unwrap();
    tests::assert_rows!(upload.store(&empty, &Options::default()).unwrap().digest => digest(&content));
    assert_eq!(upload_of(&site, &bundle, &content).await, AlreadyStored);

    // Another upload replaces a longer or incomplete one.
    let short = saying("short");
    upload_of(&site, &bundle, &short).await;
    assert_eq!(restored(&site, &bundle).await, Some(digest(&short)));
    for number in 1..3 {
        let name = format!("{}-upload-{number}", bundle.name_any());
        tests::assert_rows!(site.config_maps().get_opt(&name).await.unwrap() => None, "{name}");
    }
    // The process was killed before the index was written.
    let index = format!("{}-upload", bundle.name_any());
    delete(&site.config_maps(), &index).await;
    assert_eq!(restored(&site, &bundle).await, None);
    let second = saying("second");
    assert_eq!(upload_of(&site, &bundle, &second).await, Stored);
    assert_eq!(restored(&site, &bundle).await, Some(digest(&second)));

    // Without a garbage collector, the ConfigMaps of a deleted Bundle remain. They do not belong to its successor.
    delete(&site.bundles(), &bundle.name_any()).await;
    let successor = Bundle::new(&bundle.name_any(), bundle.spec.clone());
    let successor = create(&site.bundles(), &successor).await;
    assert_eq!(restored(&site, &successor).await, None);
    assert_eq!(upload_of(&site, &successor, &second).await, Stored);
    assert_eq!(restored(&site, &successor).await, Some(digest(&second)));

    // Damaged content is detected, and another upload replaces it.
    let bundle = site.waiting().await;
    let content = noise(1 << 20);
    let maps = site.config_maps();
    let chunk = format!("{}-upload-1", bundle.name_any());
    upload_of(&site, &bundle, &content).await;
    let mut changed = maps.get(&chunk).await.unwrap();
    delete(&maps, &chunk).await;
    let error = restore(&site, &bundle).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_has(error, &chunk);

    changed.metadata.resource_version = None;
    let data = changed.binary_data.as_mut().unwrap();
    data.get_mut("archive").unwrap().0[0] ^= 1;
    create(&maps, &changed).await;
    let error = restore(&site, &bundle).await.unwrap_err();
    assert_has(error, "its bytes differ from the upload");

    // The same content replaces damaged content, and so does other content.
    assert_eq!(upload_of(&site, &bundle, &content).await, Stored);
    assert_eq!(restored(&site, &bundle).await, Some(digest(&content)));
    delete(&maps, &chunk).await;
    let other = saying("other");
    upload_of(&site, &bundle, &other).await;
    assert_eq!(restored(&site, &bundle).await, Some(digest(&other)));

    // Foreign ConfigMaps are not changed.
    for suffix in ["upload", "upload-0"] {
        let bundle = site.waiting().await;
        let name = format!("{}-{suffix}", bundle.name_any());
        let foreign = config_map(&site.namespace, &name, &unique("foreign"));
        let before = create(&maps, &serde_json::from_value(foreign).unwrap()).await;
        let error = persist(&site, &bundle, &saying("x")).await.unwrap_err();
        let message = format!("ConfigMap {}/{name} already exists", site.namespace);
        assert!(error.to_string().starts_with(&message), "{error}");
        assert_eq!(maps.get(&name).await.unwrap(), before);
        assert_eq!(restored(&site, &bundle).await, None);
    }
    Box::pin(large_uploads_are_kept_in_a_persistent_store()).await;
}

async fn large_uploads_are_kept_in_a_persistent_store() {
    let site = Site::with_store(true).await;
    let token = site.token(&["bundle-uploader"]).await;
    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let content = noise(9 << 20);
    let answer = site.upload(&name, &token, &content).await;
    assert_eq!(answer.status, 201, "{:?}", answer.rejection());
    assert_eq!(maps(&site).await, [format!("{name}-upload")]);
    let upload = restore(&site, &bundle).await.unwrap().unwrap();
    tests::assert_rows!((upload.digest(), upload.archive()) => (digest(&content), None));
    tests::assert_rows!(site.get(&format!("/uploads/{name}.tgz"), &token).await.content() => content);
    // Content that a value holds cannot be removed.
    let stored = upload.store(&site.store, &Options::default()).unwrap();
    assert_eq!(stored.digest, digest(&content));
    drop(stored);

    site.store.remove(&digest(&content)).unwrap();
    let lost = upload.store(&site.store, &Options::default()).unwrap_err();
    assert!(lost.is_terminal(), "{lost}");
    assert_has(lost, "the content store lost the upload");
}
