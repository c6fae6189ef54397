//! Uploads in the cluster, and damage to their ConfigMaps.

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use manifests::api::bundle::Bundle;
use provisioner::controllers::bundle::upload::{self, Error, StoreResult};
use serde_json::json;
use unpacker::{
    Digest, Options, Store, Tree,
    store::{Budget, Stored},
};

use super::support::{Site, digest, noise, packed, saying};
use super::uploads::maps;
use crate::support::{create, delete, unique};

fn stored(site: &Site, content: &manifests::content::Content) -> Stored {
    site.store
        .put(&Tree::from_content(content.clone()))
        .unwrap()
}

async fn persist(site: &Site, bundle: &Bundle, content: &Stored) -> Result<StoreResult, Error> {
    let (client, settings, store) = (&site.client, &site.settings, &site.store);
    let none = unpacker::SkippedEntries::default();
    upload::persist(client, settings, store, bundle, content, &none).await
}

/// Stores content and records it as the upload of a Bundle.
async fn upload_of(
    site: &Site,
    bundle: &Bundle,
    content: &manifests::content::Content,
) -> StoreResult {
    persist(site, bundle, &stored(site, content)).await.unwrap()
}

/// Returns the digest of the content that is recorded for a Bundle.
async fn restored(site: &Site, bundle: &Bundle) -> Option<Digest> {
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
    an_upload_survives_the_loss_of_the_store(&site).await;
    damage_is_noticed_and_another_upload_heals_it(&site).await;
    config_maps_of_others_are_left_alone(&site).await;
    Box::pin(large_uploads_are_kept_in_a_lasting_store()).await;
}

async fn an_upload_survives_the_loss_of_the_store(site: &Site) {
    let bundle = site.waiting().await;
    let content = noise(2 << 20);
    assert_eq!(
        upload_of(site, &bundle, &content).await,
        StoreResult::Stored
    );
    for number in 0..3 {
        let name = format!("{}-upload-{number}", bundle.name_any());
        let map = site.config_maps().get(&name).await.unwrap();
        assert_eq!(map.immutable, Some(true));
        let owner = &map.owner_references()[0];
        assert_eq!(
            (owner.kind.as_str(), &owner.uid),
            ("Bundle", &bundle.uid().unwrap())
        );
        assert_eq!(owner.block_owner_deletion, None);
    }
    let dir = tempfile::tempdir().unwrap();
    let budget = Budget {
        disk: 1 << 30,
        memory: 0,
    };
    let empty = Store::open(dir.path(), budget).unwrap();
    let upload = restore(site, &bundle).await.unwrap().unwrap();
    let back = upload.store(&empty, &Options::default()).unwrap();
    assert_eq!(back.digest, digest(&content));
    assert_eq!(
        upload_of(site, &bundle, &content).await,
        StoreResult::AlreadyStored
    );

    // Another upload replaces a longer or incomplete one.
    let short = saying("short");
    upload_of(site, &bundle, &short).await;
    assert_eq!(restored(site, &bundle).await, Some(digest(&short)));
    for number in 1..3 {
        let name = format!("{}-upload-{number}", bundle.name_any());
        let left = site.config_maps().get_opt(&name).await.unwrap();
        assert_eq!(left, None, "{name}");
    }
    // The process was killed before the index was written.
    let index = format!("{}-upload", bundle.name_any());
    delete(&site.config_maps(), &index).await;
    assert_eq!(restored(site, &bundle).await, None);
    let second = saying("second");
    assert_eq!(upload_of(site, &bundle, &second).await, StoreResult::Stored);
    assert_eq!(restored(site, &bundle).await, Some(digest(&second)));

    // Without a garbage collector, the ConfigMaps of a deleted Bundle stay. They do not belong to its successor.
    delete(&site.bundles(), &bundle.name_any()).await;
    let successor = Bundle::new(&bundle.name_any(), bundle.spec.clone());
    let successor = create(&site.bundles(), &successor).await;
    assert_eq!(restored(site, &successor).await, None);
    assert_eq!(
        upload_of(site, &successor, &second).await,
        StoreResult::Stored
    );
    assert_eq!(restored(site, &successor).await, Some(digest(&second)));
}

async fn damage_is_noticed_and_another_upload_heals_it(site: &Site) {
    let bundle = site.waiting().await;
    let content = noise(1 << 20);
    let maps = site.config_maps();
    let chunk = format!("{}-upload-1", bundle.name_any());

    upload_of(site, &bundle, &content).await;
    let mut changed = maps.get(&chunk).await.unwrap();
    delete(&maps, &chunk).await;
    let error = restore(site, &bundle).await.unwrap_err();
    assert!(
        matches!(error, Error::Damaged { .. }) && error.to_string().contains(&chunk),
        "{error}"
    );

    changed.metadata.resource_version = None;
    let data = changed.binary_data.as_mut().unwrap();
    data.get_mut("archive").unwrap().0[0] ^= 1;
    create(&maps, &changed).await;
    let error = restore(site, &bundle).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("its bytes differ from the upload"),
        "{error}"
    );

    // The index already lists this content, so only other content is written.
    let other = saying("other");
    upload_of(site, &bundle, &other).await;
    assert_eq!(restored(site, &bundle).await, Some(digest(&other)));
}

async fn config_maps_of_others_are_left_alone(site: &Site) {
    for suffix in ["upload", "upload-0"] {
        let bundle = site.waiting().await;
        let name = format!("{}-{suffix}", bundle.name_any());
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": unique("b")}});
        let maps = site.config_maps();
        let (params, theirs) = (PatchParams::apply("somebody"), Patch::Apply(&theirs));
        let before = maps.patch(&name, &params, &theirs).await.unwrap();
        let content = stored(site, &saying("x"));
        let error = persist(site, &bundle, &content).await.unwrap_err();
        let message = format!("ConfigMap {}/{name} already exists", site.namespace);
        assert!(error.to_string().starts_with(&message), "{error}");
        assert_eq!(maps.get(&name).await.unwrap(), before);
        assert_eq!(restored(site, &bundle).await, None);
    }
}

async fn large_uploads_are_kept_in_a_lasting_store() {
    let site = Site::with(|settings| settings.persistent_store = true).await;
    let token = site.token(&["bundle-uploader"]).await;
    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let content = noise(9 << 20);
    let answer = site.put(&name, &token, packed(&content)).await;
    assert_eq!(answer.status, 201, "{:?}", answer.refusal());
    assert_eq!(maps(&site).await, [format!("{name}-upload")]);
    let restored = upload::restore(&site.client, &site.settings, &bundle).await;
    let restored = restored.unwrap().unwrap();
    assert_eq!(
        (restored.digest(), restored.archive()),
        (digest(&content), None)
    );
    let options = unpacker::Options::default();
    let path = format!("/uploads/{name}.tgz");
    assert_eq!(site.get(&path, &token).await.content(), content);
    assert_eq!(
        restored.store(&site.store, &options).unwrap().digest,
        digest(&content)
    );

    site.store.remove(&digest(&content)).unwrap();
    let lost = restored.store(&site.store, &options).unwrap_err();
    assert!(
        lost.is_terminal()
            && lost
                .to_string()
                .contains("the content store lost the upload"),
        "{lost}"
    );
}
