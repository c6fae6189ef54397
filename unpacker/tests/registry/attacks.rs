//! Registries that provide false images.

use crate::*;

fn artifact(title: &str, kind: &str, bytes: &[u8]) -> Store {
    let mut store = Store::default();
    let config = store.blob(b"{}".to_vec(), "application/vnd.oci.empty.v1+json");
    let mut part = store.blob(bytes.to_vec(), kind);
    part["annotations"] = json!({"org.opencontainers.image.title": title});
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/x",
        "config": config, "layers": [part]});
    store.manifest("v1", &manifest);
    store
}

/// Changes a store: `wrap COUNT` in indexes, `repeat POINTER COUNT` for an element of a list of the manifest,
/// `set POINTER JSON`, and `blob POINTER BYTES` for the blob of the descriptor at the pointer.
fn change(store: &mut Store, edit: &Cell) {
    let text = String::from_utf8_lossy(&edit.bytes()).into_owned();
    let mut parts = text.splitn(3, ' ');
    let [verb, place, value] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let mut manifest = store.tagged("v1");
    match verb {
        "wrap" => {
            for _ in 0..place.parse().unwrap() {
                let (kind, bytes) = &store.manifests["v1"];
                store.manifest("v1", &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(kind, bytes)]}));
            }
            return;
        }
        "repeat" => {
            let list = manifest.pointer_mut(place).unwrap();
            *list = json!(vec![list[0].clone(); value.parse().unwrap()]);
        }
        "set" => *manifest.pointer_mut(place).unwrap() = value.parse::<Value>().unwrap(),
        "blob" => {
            let digest = manifest.pointer(place).unwrap()["digest"].as_str().unwrap();
            let mut bytes = edit.bytes()[verb.len() + place.len() + 2..].to_vec();
            bytes.resize(store.blobs[digest].len(), b' ');
            store.blobs.insert(digest.to_owned(), bytes);
            return;
        }
        _ => panic!("{text}"),
    }
    store.manifest("v1", &manifest);
}

fn store(name: &str) -> Store {
    let lower = layer(&[("manifests/b.yaml", b"kind: B")]);
    let upper = layer(&[("manifests/a.yaml", b"kind: A")]);
    match name {
        "small" => Store::small(),
        "two layers" => Store::image(&[lower, upper]),
        "noise" => Store::image(&[noise(1, 5000)]),
        "artifact" => artifact("manifests/a.yaml", "application/yaml", b"kind: A"),
        "artifact, layer" => artifact("a.yaml", LAYER, b"kind: A"),
        "artifact, archive" => {
            let archive = layer(&[("b/manifests/a.yaml", b"1")]);
            artifact("bundle.tar.gz", LAYER, &archive)
        }
        "artifact, path out" => artifact("../../etc/passwd", "text/plain", b"x"),
        "artifact, long path" => artifact(&"d/".repeat(600), "text/plain", b"x"),
        _ => panic!("{name}"),
    }
}

// parity: rukpak-47
#[tokio::test]
async fn images_are_accepted_only_if_their_digests_match() {
    let manifest = Store::small().tagged("v1");
    let size = manifest["layers"][0]["size"].as_u64().unwrap();
    let lower = layer(&[("manifests/b.yaml", b"kind: B")]);
    let changed = [&lower[..lower.len() - 1], &[lower[lower.len() - 1] ^ 1]].concat();
    let values = Values::default()
        .with("other", layer(&[("manifests/a.yaml", b"kind: B")]))
        .with("empty", layer(&[]))
        .with("changed", changed)
        .with("more", (size + 1).to_string())
        .with("less", (size - 1).to_string())
        .with("noise", digest(&noise(1, 5000)));
    let rows = r"
        # store, changes
        honest           | small | | | manifests/a.yaml=kind: A
        other layer      | small | blob /layers/0 {other} | | ContentMismatch*digest mismatch for*
        empty layer      | small | blob /layers/0 {empty} | | ContentMismatch*digest mismatch for*
        other lower layer | two layers | blob /layers/0 {changed} | | ContentMismatch*digest mismatch for*
        other configuration | small | blob /config \x20 | | ContentMismatch*the configuration of*
        fewer bytes      | small | set /layers/0/size {more} | | ContentMismatch*fewer than*
        more bytes       | small | set /layers/0/size {less} | | ContentMismatch*more than*
        index of an index | small | wrap 2 | | manifests/a.yaml=kind: A
        nine indexes     | small | wrap 9 | | LimitExceeded*
        size in an index | small | wrap 1 | set /manifests/0/size 7 | ContentMismatch*more than the declared 7 bytes*
        many in an index | small | wrap 1 | repeat /manifests 1001 | LimitExceeded*1001 entries*
        large layers     | small | set /layers/0/size 9663676416 | repeat /layers 3 | LimitExceeded*layers of*
        huge layers      | small | set /layers/0/size 9223372036854775807 | repeat /layers 3 | LimitExceeded*layers of*
        no archive       | noise | | | UnknownFormat*{noise}*
        artifact         | artifact | | | manifests/a.yaml=kind: A
        file as a layer  | artifact, layer | | | a.yaml=kind: A
        archive          | artifact, archive | | | manifests/a.yaml=1
        path out         | artifact, path out | | | *../../etc/passwd*
        long path        | artifact, long path | | | LimitExceeded*
    ";
    table::check(rows, &values, async |[name, first, second]: &[Cell; 3]| {
        let (mut store, edits) = (store(name.raw()), [first, second].into_iter());
        for edit in edits.filter(|edit| !edit.raw().is_empty()) {
            change(&mut store, edit);
        }
        Registry::honest(store).pulled(&Registry::access()).await
    })
    .await;
}

#[tokio::test]
async fn manifests_match_the_pinned_or_declared_digest() {
    let (store, other) = (Store::small(), Store::image(&[layer(&[])]));
    let pinned = digest(&other.manifests["v1"].1);
    let (kind, body) = store.manifests["v1"].clone();
    let mismatch = |found: String, digest: &str| {
        assert_rows!(found.starts_with("ContentMismatch") && found.contains(digest) => true, "{found}");
    };
    let mut lying = store.clone();
    let manifest = (kind.clone(), body.clone());
    lying.manifests.insert(pinned.clone(), manifest);
    let registry = Registry::honest(lying);
    let image = registry.image(&format!("app@{pinned}"));
    mismatch(outcome(pull(&image, &Registry::access()).await), &pinned);

    let values = Values::default()
        .with("pinned", pinned)
        .with("kind", kind)
        .with("body", body);
    let rules =
        "/manifests/ => 200; Content-Type: {kind}; Docker-Content-Digest: {pinned} << {body}";
    let registry = Registry::with_rules(store, rules, &values);
    mismatch(registry.pulled(&Registry::access()).await, "");

    // An index that contains itself would have to contain its own digest.
    let promised = digest(b"any");
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{
        "mediaType": INDEX, "digest": promised, "size": 3}]});
    let mut store = Store::default();
    store.manifest("v1", &index);
    store.manifest(&promised, &index);
    let registry = Registry::honest(store);
    mismatch(registry.pulled(&Registry::access()).await, &promised);
}

#[tokio::test]
async fn platforms_are_chosen_and_attestations_are_not() {
    let mut store = Store::default();
    let mut entries = Vec::new();
    for (platform, text) in pairs("linux/arm64 arm, linux/amd64 amd, unknown/unknown none") {
        let one = Store::image(&[layer(&[("manifests/a.yaml", text.as_bytes())])]);
        let mut entry = descriptor(MANIFEST, &one.manifests["v1"].1);
        let (os, architecture) = platform.split_once('/').unwrap();
        entry["platform"] = json!({"os": os, "architecture": architecture});
        entries.push(entry);
        store.blobs.extend(one.blobs);
        store.manifests.extend(one.manifests);
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    let named = store.manifest("v1", &index);
    let registry = Registry::honest(store);
    for (platform, expected) in [
        (None, "manifests/a.yaml=amd"),
        (Some("linux/arm64"), "manifests/a.yaml=arm"),
        (Some("windows/amd64"), "PlatformMissing, "),
    ] {
        let image =
            with!(source(&registry.image("app:v1")) => platform: platform.map(str::to_owned));
        let (options, progress) = (Options::default(), Progress::default());
        let fetched = image::fetch(&image, &Registry::access(), &options, &progress).await;
        if let Ok(fetched) = &fetched {
            // The digest of the tag, not of the chosen image.
            let named = named["digest"].as_str().unwrap();
            assert_rows!(fetched.resolved.to_string() => registry.image(&format!("app@{named}")));
            assert_eq!(fetched.digest.unwrap().to_string(), named);
        }
        let found = outcome(fetched);
        assert!(found.starts_with(expected), "{found}");
    }
}
