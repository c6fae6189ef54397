//! Registries that lie about what they have.

use serde_json::json;
use unpacker::{Options, fetch::Progress, image};

use crate::{
    images::{INDEX, LAYER, MANIFEST, Registry, Store, descriptor, digest, layer, noise},
    outcome, pull,
    server::Answer,
    source,
};

/// What comes of pulling `v1` from a registry that has this.
async fn pulled(store: Store) -> Result<String, String> {
    let registry = Registry::but(store, |_| None).await;
    outcome(pull(&registry.image("app:v1"), &registry.access()).await)
}

fn assert_refused(outcome: Result<String, String>, parts: &[&str]) {
    let error = outcome.unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

#[tokio::test]
async fn an_honest_image_is_taken() {
    assert_eq!(
        pulled(Store::small()).await.unwrap(),
        "manifests/a.yaml=kind: A"
    );
}

#[tokio::test]
async fn a_layer_with_another_digest_is_refused() {
    for files in [&[("manifests/a.yaml", &b"kind: B"[..])][..], &[]] {
        let mut store = Store::small();
        let size = store.blobs[&store.top()].len();
        let mut other = layer(files);
        other.resize(size, 0);
        store.blobs.insert(store.top(), other);
        assert_refused(
            pulled(store).await,
            &["ContentMismatch", "is not what its digest"],
        );
    }
}

#[tokio::test]
async fn a_lower_layer_with_another_digest_is_refused() {
    let lower = layer(&[("manifests/b.yaml", b"kind: B")]);
    let mut store = Store::image(&[lower.clone(), layer(&[("manifests/a.yaml", b"kind: A")])]);
    let mut other = lower.clone();
    *other.last_mut().unwrap() ^= 1;
    store.blobs.insert(digest(&lower), other);
    assert_refused(
        pulled(store).await,
        &["ContentMismatch", "is not what its digest"],
    );
}

#[tokio::test]
async fn a_configuration_with_another_digest_is_refused() {
    let mut store = Store::small();
    let config = store.tagged("v1")["config"]["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    let size = store.blobs[&config].len();
    store.blobs.insert(config, vec![b' '; size]);
    assert_refused(
        pulled(store).await,
        &["ContentMismatch", "the configuration of"],
    );
}

#[tokio::test]
async fn layers_that_are_longer_or_shorter_than_announced_are_refused() {
    for (change, problem) in [(1, "fewer than"), (-1, "more than")] {
        let mut store = Store::small();
        let mut manifest = store.tagged("v1");
        let size = manifest["layers"][0]["size"].as_i64().unwrap();
        manifest["layers"][0]["size"] = json!(size + change);
        store.manifest("v1", &manifest);
        assert_refused(pulled(store).await, &["ContentMismatch", problem]);
    }
}

#[tokio::test]
async fn a_manifest_that_is_not_what_was_pinned_or_stated_is_refused() {
    let (store, other) = (Store::small(), Store::image(&[layer(&[])]));
    let pinned = digest(&other.manifests["v1"].1);
    let mut lying = store.clone();
    lying
        .manifests
        .insert(pinned.clone(), store.manifests["v1"].clone());
    let registry = Registry::but(lying, |_| None).await;
    let image = registry.image(&format!("app@{pinned}"));
    assert_refused(
        outcome(pull(&image, &registry.access()).await),
        &["ContentMismatch", &pinned],
    );

    let body = store.manifests["v1"].1.clone();
    let registry = Registry::but(store, move |seen| {
        let headers = [
            ("Content-Type", MANIFEST),
            ("Docker-Content-Digest", pinned.as_str()),
        ];
        seen.target
            .contains("/manifests/")
            .then(|| Answer::new("200 OK", &headers, &body))
    })
    .await;
    let image = registry.image("app:v1");
    assert_refused(
        outcome(pull(&image, &registry.access()).await),
        &["ContentMismatch"],
    );
}

#[tokio::test]
async fn a_manifest_of_100_mb_is_refused_before_it_is_read() {
    let stated =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {MANIFEST}\r\nContent-Length: 100000000\r\n\r\n");
    let endless = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {MANIFEST}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let chunk = [b"10000\r\n", vec![b' '; 0x10000].as_slice(), b"\r\n"].concat();
    for (head, part) in [(stated, vec![b' '; 1000]), (endless, chunk)] {
        let registry =
            Registry::start(move |_| Answer::Endless(head.clone().into_bytes(), part.clone()))
                .await;
        let outcome = outcome(pull(&registry.image("app:v1"), &registry.access()).await);
        assert_refused(outcome, &["LimitExceeded", "larger than 4194304 bytes"]);
    }
}

#[tokio::test]
async fn an_index_that_points_to_itself_is_refused() {
    let promised = digest(b"any");
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{
        "mediaType": INDEX, "digest": promised, "size": 3}]});
    let mut store = Store::default();
    store.manifest("v1", &index);
    store.manifest(&promised, &index);
    assert_refused(pulled(store).await, &["ContentMismatch", &promised]);
}

#[tokio::test]
async fn indexes_one_in_the_other_are_followed_only_so_far() {
    for (depth, taken) in [(2, true), (9, false)] {
        let mut store = Store::small();
        let mut inner = descriptor(MANIFEST, &store.manifests["v1"].1);
        for _ in 0..depth {
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [inner]});
            inner = store.manifest("v1", &index);
        }
        let outcome = pulled(store).await;
        assert_eq!(outcome.is_ok(), taken, "{depth}: {outcome:?}");
        if !taken {
            assert_refused(outcome, &["LimitExceeded"]);
        }
    }
}

#[tokio::test]
async fn an_index_entry_of_another_size_is_refused() {
    let mut store = Store::small();
    let mut entry = descriptor(MANIFEST, &store.manifests["v1"].1);
    entry["size"] = json!(7);
    store.manifest(
        "v1",
        &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}),
    );
    assert_refused(
        pulled(store).await,
        &["ContentMismatch", "more than the 7 bytes"],
    );
}

#[tokio::test]
async fn too_many_entries_layers_and_bytes_are_refused() {
    let mut store = Store::small();
    let entry = descriptor(MANIFEST, &store.manifests["v1"].1);
    let manifests = vec![entry; 1001];
    store.manifest(
        "v1",
        &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}),
    );
    assert_refused(pulled(store).await, &["LimitExceeded", "1001 entries"]);

    let mut store = Store::small();
    let mut manifest = store.tagged("v1");
    manifest["layers"] = json!(vec![manifest["layers"][0].clone(); 257]);
    store.manifest("v1", &manifest);
    assert_refused(pulled(store).await, &["LimitExceeded", "257 layers"]);

    for size in [9u64 << 30, u64::MAX / 2] {
        let mut store = Store::small();
        let mut manifest = store.tagged("v1");
        let mut huge = manifest["layers"][0].clone();
        huge["size"] = json!(size);
        manifest["layers"] = json!(vec![huge; 3]);
        store.manifest("v1", &manifest);
        assert_refused(pulled(store).await, &["LimitExceeded", "layers of"]);
    }
}

#[tokio::test]
async fn a_layer_that_is_no_archive_is_refused_and_named() {
    let bytes = noise(1, 5000);
    let store = Store::image(std::slice::from_ref(&bytes));
    assert_refused(pulled(store).await, &["UnknownFormat", &digest(&bytes)]);
}

#[tokio::test]
async fn files_of_artifacts_are_taken_by_their_title_and_bad_titles_refused() {
    let artifact = |title: &str, kind: &str, bytes: &[u8]| {
        let mut store = Store::default();
        let config = store.blob(b"{}".to_vec(), "application/vnd.oci.empty.v1+json");
        let mut part = store.blob(bytes.to_vec(), kind);
        part["annotations"] = json!({"org.opencontainers.image.title": title});
        store.manifest(
            "v1",
            &json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "artifactType": "application/vnd.example", "config": config, "layers": [part]}),
        );
        store
    };
    for (title, kind, bytes, expected) in [
        (
            "manifests/a.yaml",
            "application/yaml",
            &b"kind: A"[..],
            "manifests/a.yaml=kind: A",
        ),
        ("a.yaml", LAYER, b"kind: A", "a.yaml=kind: A"),
        (
            "bundle.tar.gz",
            LAYER,
            &layer(&[("b/manifests/a.yaml", b"1")]),
            "manifests/a.yaml=1",
        ),
    ] {
        assert_eq!(
            pulled(artifact(title, kind, bytes)).await.unwrap(),
            expected,
            "{title}"
        );
    }
    assert_refused(
        pulled(artifact("../../etc/passwd", "text/plain", b"x")).await,
        &["../../etc/passwd"],
    );
    let long = "d/".repeat(600);
    assert_refused(pulled(artifact(&long, "text/plain", b"x")).await, &[]);
}

#[tokio::test]
async fn a_platform_is_chosen_and_attestations_are_not() {
    let mut store = Store::default();
    let mut entries = Vec::new();
    for (platform, text) in [
        ("linux/arm64", "arm"),
        ("linux/amd64", "amd"),
        ("unknown/unknown", "none"),
    ] {
        let file = layer(&[("manifests/a.yaml", text.as_bytes())]);
        let one = Store::image(&[file]);
        let mut entry = descriptor(MANIFEST, &one.manifests["v1"].1);
        let (os, architecture) = platform.split_once('/').unwrap();
        entry["platform"] = json!({"os": os, "architecture": architecture});
        entries.push(entry);
        store.blobs.extend(one.blobs);
        store.manifests.extend(one.manifests);
    }
    let named = store.manifest(
        "v1",
        &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}),
    );
    let registry = Registry::but(store, |_| None).await;
    for (platform, expected) in [
        (None, Ok("manifests/a.yaml=amd")),
        (Some("linux/arm64"), Ok("manifests/a.yaml=arm")),
        (Some("windows/amd64"), Err("PlatformMissing")),
    ] {
        let mut image = source(&registry.image("app:v1"));
        image.platform = platform.map(str::to_owned);
        let (options, progress) = (Options::default(), Progress::default());
        let fetched = image::fetch(&image, &registry.access(), &options, &progress).await;
        if let Ok(fetched) = &fetched {
            // What the tag named, and not what was chosen.
            let named = named["digest"].as_str().unwrap();
            assert_eq!(
                fetched.resolved.to_string(),
                registry.image(&format!("app@{named}"))
            );
            assert_eq!(fetched.digest.unwrap().to_string(), named);
        }
        match (outcome(fetched), expected) {
            (Ok(files), Ok(expected)) => assert_eq!(files, expected),
            (found, Err(expected)) => assert_refused(found, &[expected]),
            (found, _) => panic!("{found:?}"),
        }
    }
}
