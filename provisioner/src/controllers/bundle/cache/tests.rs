use futures::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::condition;
use Event::{Apply, Delete, Init, InitApply, InitDone};

type Make = fn() -> Event<Bundle>;

fn unpacked() -> Digest {
    Digest::sha256(b"content")
}

/// Returns a Bundle with these metadata that refers to Secret s, or to ConfigMaps m and n, or to nothing because it is
/// unpacked.
fn bundle(name: &str, source: &str, mut metadata: Value) -> Bundle {
    let maps = ["m", "n"].map(|name| json!({"configMap": {"name": name}}));
    let spec = match source {
        "maps" => json!({"type": "configMaps", "configMaps": maps}),
        secret => json!({"type": "image", "image": {"ref": "a", "pullSecret": secret}}),
    };
    metadata["name"] = name.into();
    metadata["uid"] = format!("uid of {name}").into();
    let mut bundle = json!({"metadata": metadata, "spec": {"source": spec}});
    if source == "unpacked" {
        bundle["status"] = json!({
            "phase": "Unpacked", "contentDigest": unpacked().to_string(), "resolvedSource": {"type": "image"},
            "contentURL": "https://a", "conditions": [condition("Unpacked", "True", "UnpackSuccessful", "")],
        });
    }
    crate::fixtures::object(bundle)
}

fn from_source(name: &str, source: &str) -> Bundle {
    bundle(name, source, json!({}))
}

fn owned(name: &str, uid: &str) -> Bundle {
    let owner = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "name": "any", "uid": uid, "controller": true,
    });
    bundle(name, "other", json!({"ownerReferences": [owner]}))
}

fn released(name: &str, instance: &str) -> Bundle {
    let labels = json!({labels::OWNER_NAME: instance});
    bundle(name, "other", json!({"labels": labels}))
}

/// Returns the Bundles that refer to Secret s, to ConfigMap n, to the instances one (uid 1) and two (uid 2), and to the
/// content.
fn found(cache: &BundleCache) -> [String; 5] {
    let names = |bundles: Vec<Arc<Bundle>>| {
        let names: Vec<String> = bundles.iter().map(|bundle| bundle.name_any()).collect();
        names.join(" ")
    };
    [
        cache.of_secret("s").join(" "),
        cache.of_config_map("n").join(" "),
        names(cache.of_instance("1", "one")),
        names(cache.of_instance("2", "two")),
        if cache.names(unpacked()) { "named" } else { "" }.to_owned(),
    ]
}

#[test]
fn bundles_are_found_by_their_references_after_each_event() {
    let (cache, mut writer) = BundleCache::new();
    let apply = |event: Event<Bundle>, writer: &mut Writer<Bundle>| {
        writer.apply_watcher_event(&event);
        cache.apply(event);
    };
    let rows: [(Make, _); 21] = ::tests::rows![
        || Init => ["", "", "", "", ""];
        || InitApply(from_source("b", "s")) => ["", "", "", "", ""];
        || InitApply(from_source("a", "s")) => ["", "", "", "", ""];
        || InitApply(from_source("c", "maps")) => ["", "", "", "", ""];
        || InitApply(owned("y", "1")) => ["", "", "", "", ""];
        || InitApply(owned("x", "1")) => ["", "", "", "", ""];
        || InitDone => ["a b", "c", "x y", "", ""];
        || Apply(from_source("d", "unpacked")) => ["a b", "c", "x y", "", "named"];
        // An unpacked Bundle waits for nothing.
        || Apply(from_source("a", "unpacked")) => ["b", "c", "x y", "", "named"];
        || Delete(from_source("d", "unpacked")) => ["b", "c", "x y", "", "named"];
        || Delete(from_source("a", "unpacked")) => ["b", "c", "x y", "", ""];
        || Apply(from_source("b", "other")) => ["", "c", "x y", "", ""];
        // Another client changes the owner, and restores it.
        || Apply(owned("y", "2")) => ["", "c", "x", "y", ""];
        || Apply(owned("y", "1")) => ["", "c", "x y", "", ""];
        // The garbage collector releases Bundles.
        || Apply(released("x", "one")) => ["", "c", "y x", "", ""];
        || Apply(released("z", "two")) => ["", "c", "y x", "z", ""];
        || Delete(owned("y", "1")) => ["", "c", "x", "z", ""];
        || Init => ["", "c", "x", "z", ""];
        || InitApply(from_source("e", "s")) => ["", "c", "x", "z", ""];
        || InitApply(owned("g", "1")) => ["", "c", "x", "z", ""];
        || InitDone => ["e", "", "g", "", ""];
    ];
    for (event, expected) in rows {
        let event = event();
        let event_text = format!("{event:?}");
        apply(event, &mut writer);
        assert_eq!(found(&cache), expected.map(str::to_owned), "{event_text}");
    }
    assert!(cache.has("uid of e") && !cache.has("uid of b"));
    assert!(cache.get("e").is_some() && cache.get("b").is_none());
    for bundle in [from_source("e", "s"), owned("g", "1")] {
        apply(Event::Delete(bundle), &mut writer);
    }
    let state = cache.state.lock();
    assert!(state.index.references.is_empty() && state.index.names.is_empty());
}

#[test]
fn subscribers_receive_all_bundles_and_then_their_changes() {
    let (cache, mut writer) = BundleCache::new();
    let mut apply = |event: Event<Bundle>| {
        writer.apply_watcher_event(&event);
        cache.apply(event);
    };
    let received = |changes: &mut UnboundedReceiver<Change>| {
        let mut received = Vec::new();
        while let Some(Some(change)) = changes.next().now_or_never() {
            received.push(match change {
                Change::Listed(bundles) => {
                    let names = bundles.iter().map(|bundle| bundle.name_any());
                    let names: BTreeSet<_> = names.collect();
                    format!("listed {names:?}")
                }
                Change::Applied(bundle) => format!("applied {}", bundle.name_any()),
                Change::Deleted(bundle) => format!("deleted {}", bundle.name_any()),
            });
        }
        received.join(", ")
    };
    let mut early = cache.subscribe();
    apply(Init);
    apply(InitApply(from_source("a", "s")));
    assert_eq!(received(&mut early), "");
    apply(InitDone);
    assert_eq!(received(&mut early), r#"listed {"a"}"#);
    apply(Apply(from_source("b", "s")));
    let mut late = cache.subscribe();
    assert_eq!(received(&mut early), "applied b");
    assert_eq!(received(&mut late), r#"listed {"a", "b"}"#);
    drop(late);
    apply(Delete(from_source("a", "s")));
    assert_eq!(received(&mut early), "deleted a");
    assert_eq!(cache.state.lock().subscribers.len(), 1);

    // The watch was interrupted, and a Bundle has been deleted, or deleted and created again.
    for (uid, expected) in ::tests::rows![
        "1" => r#"deleted b, listed {"c"}"#;
        "2" => r#"deleted c, listed {"c"}"#;
        "2" => r#"listed {"c"}"#;
    ] {
        let relisted = with!(from_source("c", "s") => metadata.uid: Some(uid.to_owned()));
        apply(Init);
        apply(InitApply(relisted));
        apply(InitDone);
        assert_eq!(received(&mut early), expected);
    }
}
