//! What is done once, what happens when the store loses it, and what leaves it.

use manifests::api::bundle::UploadSource;
use provisioner::bundle::upload;

use super::*;
use crate::support::{Options, Provisioner, has, storage, with_controllers};

fn file(bundle: &Bundle) -> String {
    let digest = bundle.status.as_ref().unwrap().content_digest.as_ref();
    format!(
        "content/{}.tar",
        digest.unwrap().trim_start_matches("sha256:")
    )
}

/// Takes a Bundle's status away, and waits until it is there again: so that it is certain that it was looked at.
async fn wiped(name: &str) -> Bundle {
    let world = world().await;
    let api: Api<Bundle> = world.api();
    let before = api.get(name).await.unwrap();
    let wipe = json!({"status": {"phase": "Failing", "contentURL": null}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&wipe))
        .await
        .unwrap();
    wait_for(api, name, "as before", move |bundle: &Bundle| {
        (bundle.status == before.status).then_some(())
    })
    .await
}

// parity: rukpak-16
#[tokio::test]
async fn a_tag_that_moves_does_not_change_a_bundle() {
    let world = world().await;
    let name = unique("moved");
    let tag = world.push(&format!("{name}:v1"), &small(&name)).await;
    let before = unpacked(&name, image(&tag)).await;
    world
        .push(&format!("{name}:v1"), &small(&format!("{name} after")))
        .await;
    let after = wiped(&name).await;
    assert_eq!(before.status, after.status);
    let other = unpacked(&unique("moved"), image(&tag)).await;
    assert_ne!(
        other.status.unwrap().content_digest,
        after.status.unwrap().content_digest
    );
}

// parity: rukpak-8, g2
#[tokio::test]
async fn g02_content_that_no_bundle_names_leaves_the_store() {
    let world = world().await;
    let (one, two) = (unique("g2"), unique("g2"));
    let tag = world.push(&format!("{one}:v1"), &small(&one)).await;
    let first = unpacked(&one, image(&tag)).await;
    let second = unpacked(&two, image(&tag)).await;
    assert_eq!(file(&first), file(&second));
    let api: Api<Bundle> = world.api();
    api.delete(&one, &DeleteParams::default()).await.unwrap();
    crate::support::gone::<Bundle>(api.clone(), &one).await;
    // The other one still names it.
    wiped(&two).await;
    assert!(is_stored(&second).await);
    api.delete(&two, &DeleteParams::default()).await.unwrap();
    eventually("removed", async || {
        if is_stored(&second).await {
            Err("it is still there".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
}

// parity: platform-23, rukpak-5
#[tokio::test]
async fn a_store_that_was_lost_is_filled_from_what_was_pinned() {
    let world = world().await;
    let provisioner = world.provisioner().await;
    let name = unique("lost");
    let tag = world.push(&format!("{name}:v1"), &small(&name)).await;
    let before = unpacked(&name, image(&tag)).await;
    world
        .push(&format!("{name}:v1"), &small(&format!("{name} moved")))
        .await;
    let path = provisioner.storage().join(file(&before));
    std::fs::remove_file(&path).unwrap();
    let after = wiped(&name).await;
    assert_eq!(before.status, after.status);
    assert!(path.exists());
}

// parity: rukpak-16
#[tokio::test]
async fn content_that_cannot_be_had_again_is_said_to_have_changed() {
    let world = world().await;
    let provisioner = world.provisioner().await;
    let name = unique("changed");
    let server = FileServer::start(None, None);
    let url = server.add("bundle.tgz", archive(&small(&name)));
    let before = unpacked(&name, http(&url)).await;
    server.add("bundle.tgz", archive(&small(&format!("{name} after"))));
    std::fs::remove_file(provisioner.storage().join(file(&before))).unwrap();
    let api: Api<Bundle> = world.api();
    // A change of the status that says nothing, so that the Bundle is reconciled.
    let touch = json!({"status": {"conversion": {"objects": 7}}});
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&touch))
        .await
        .unwrap();
    let after = wait_for(api, &name, "reported", |bundle: &Bundle| {
        let lost = condition(&bundle.status.as_ref()?.conditions, "ContentAvailable")?;
        let is_told = lost.message.contains("a Bundle does not change");
        (lost.status == "False" && is_told).then_some(())
    })
    .await;
    // What was unpacked stays unpacked: installed objects do not depend on the content.
    let (before, after) = (before.status.unwrap(), after.status.unwrap());
    assert_eq!(before.conditions[0], after.conditions[0]);
    assert_eq!(before.phase, after.phase);
    assert_eq!(before.content_digest, after.content_digest);
    assert_eq!(before.resolved_source, after.resolved_source);
}

/// In a cluster of its own: two provisioners would fill each other's gaps.
#[tokio::test]
async fn a_provisioner_that_comes_back_fetches_what_is_missing_and_nothing_else() {
    let cluster = with_controllers().await;
    let api: Api<Bundle> = Api::all(cluster.client().unwrap());
    let server = FileServer::start(None, None);
    let folder = storage();
    let start = async || {
        let options = Options {
            storage: Some(folder.path().to_owned()),
            flags: vec!["--controllers=bundle".to_owned()],
            ..Options::default()
        };
        Provisioner::start(&cluster, options).await
    };
    let first = start().await;
    let mut bundles = Vec::new();
    for name in ["one", "two"] {
        let url = server.add(name, archive(&small(name)));
        let spec = BundleSpec {
            provisioner_class_name: "core.rukpak.io/plain".to_owned(),
            source: http(&url),
        };
        let new = Bundle::new(name, spec);
        api.create(&PostParams::default(), &new).await.unwrap();
        let done = |bundle: &Bundle| {
            has(&bundle.status.as_ref()?.conditions, "Unpacked", "True").then_some(())
        };
        bundles.push(wait_for(api.clone(), name, "unpacked", done).await);
    }
    let [one, two] = bundles.as_slice() else {
        panic!("{bundles:?}");
    };
    first.signal("KILL").await;
    drop(first);

    // While nobody looks: a Bundle goes, and the server does, too.
    api.delete("two", &DeleteParams::default()).await.unwrap();
    let two = folder.path().join(file(two));
    assert!(two.exists());
    drop(server);
    let second = start().await;
    eventually("swept", async || {
        if two.exists() {
            Err(two.display().to_string())
        } else {
            Ok(())
        }
    })
    .await;
    let found = api.get("one").await.unwrap();
    assert_eq!(found.status, one.status);
    assert!(folder.path().join(file(one)).exists());
    drop(second);

    // An empty volume, and nowhere to fill it from: it is said, and what the Bundle was stays known.
    std::fs::remove_file(folder.path().join(file(one))).unwrap();
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
    drop(third);
}

#[tokio::test]
async fn a_bundle_that_is_deleted_while_it_is_fetched_leaves_nothing() {
    let world = world().await;
    world.provisioner().await;
    let api: Api<Bundle> = world.api();
    for _ in 0..5 {
        let name = unique("gone");
        let tag = world.push(&format!("{name}:v1"), &small(&name)).await;
        world.bundle(&name, "plain", image(&tag)).await;
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        crate::support::gone::<Bundle>(api.clone(), &name).await;
    }
    // Whatever was being written for them, the controller goes on.
    let name = unique("gone");
    unpacked(&name, config_maps_of(world, "gone").await).await;
}

// parity: b19
#[tokio::test]
async fn b19_what_was_uploaded_is_unpacked_wherever_it_came_in() {
    let world = world().await;
    world.provisioner().await;
    let name = unique("b19");
    let source = BundleSource {
        type_: "upload".to_owned(),
        upload: Some(UploadSource::default()),
        ..BundleSource::default()
    };
    let bundle = world.bundle(&name, "plain", source).await;
    let told = says(&name, "UnpackPending", "waiting for bundle to be uploaded").await;
    assert_eq!(told.status.unwrap().phase, Some(Phase::Pending));

    // Another replica takes it: the provisioner's own store has nothing, and gets it from the cluster.
    let folder = storage();
    let budget = unpacker::store::Budget {
        disk: 1 << 30,
        memory: 0,
    };
    let store = unpacker::Store::open(folder.path(), budget).unwrap();
    let tree = unpacker::Tree::from_content(small(&name));
    let content = store.put(&tree).unwrap();
    let settings = provisioner::settings::Settings::default();
    let none = unpacker::SkippedEntries::default();
    upload::keep(&world.client(), &settings, &store, &bundle, &content, &none)
        .await
        .unwrap();
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    assert!(is_stored(&bundle).await);
    let digest = bundle.status.as_ref().unwrap().content_digest.clone();
    assert_eq!(digest, Some(content.digest.to_string()));

    // And once more, when it has lost it.
    let path = world.provisioner().await.storage().join(file(&bundle));
    std::fs::remove_file(&path).unwrap();
    let after = wiped(&name).await;
    assert_eq!(after.status, bundle.status);
    assert!(path.exists());
}

#[tokio::test]
async fn an_upload_with_another_digest_is_not_unpacked() {
    let world = world().await;
    world.provisioner().await;
    let name = unique("digest");
    let folder = storage();
    let budget = unpacker::store::Budget {
        disk: 1 << 30,
        memory: 0,
    };
    let store = unpacker::Store::open(folder.path(), budget).unwrap();
    let tree = unpacker::Tree::from_content(small(&name));
    let content = store.put(&tree).unwrap();
    let expected = unpacker::Digest::of(b"other");
    let source = BundleSource {
        type_: "upload".to_owned(),
        upload: Some(UploadSource {
            digest: Some(expected.to_string()),
        }),
        ..BundleSource::default()
    };
    let mut bundle = world.bundle(&name, "plain", source).await;
    // As a provisioner did that did not know the field.
    bundle.spec.source.upload = Some(UploadSource::default());
    let settings = provisioner::settings::Settings::default();
    let none = unpacker::SkippedEntries::default();
    upload::keep(&world.client(), &settings, &store, &bundle, &content, &none)
        .await
        .unwrap();
    let problem = format!("the Bundle accepts only {expected}");
    let bundle = says(&name, "UnpackFailed", &problem).await;
    assert_eq!(bundle.status.unwrap().content_digest, None);
}
