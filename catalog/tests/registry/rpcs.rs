//! Every rpc of the API, asked by a client that was made from its file.

use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::{dynamic::Dynamic, fixture::Served};

async fn served() -> (Served, Dynamic) {
    let served = Served::both().await;
    let client = Dynamic::connect(served.address).await;
    (served, client)
}

fn refusal(result: Result<Vec<Value>, Status>) -> (Code, String) {
    let status = result.unwrap_err();
    (status.code(), status.message().to_owned())
}

fn unknown(text: &str) -> (Code, String) {
    (Code::Unknown, text.to_owned())
}

fn edge(package: &str, channel: &str, bundle: &str, replaces: &str) -> Value {
    let mut edge = json!({"packageName": package, "channelName": channel, "bundleName": bundle});
    if !replaces.is_empty() {
        edge["replaces"] = replaces.into();
    }
    edge
}

#[tokio::test]
async fn packages_are_listed_by_name() {
    let (_served, client) = served().await;
    let packages = client
        .call("api.Registry/ListPackages", json!({}))
        .await
        .unwrap();
    assert_eq!(
        packages,
        [json!({"name": "anchor"}), json!({"name": "buoy"})]
    );
}

#[tokio::test]
async fn a_package_has_sorted_channels_with_their_heads() {
    let (_served, client) = served().await;
    let get = |name: &str| client.call("api.Registry/GetPackage", json!({"name": name}));
    let expected = json!({
        "name": "anchor",
        "channels": [
            {"name": "alpha", "csvName": "anchor.v2.0.0", "deprecation": {"message": "use stable"}},
            {"name": "stable", "csvName": "anchor.v2.0.0"},
        ],
        "defaultChannelName": "stable",
        "deprecation": {"message": "use buoy"},
    });
    assert_eq!(get("anchor").await.unwrap(), [expected]);
    assert_eq!(
        refusal(get("no \"such\"").await),
        unknown(r#"package "no \"such\"" not found"#)
    );
}

fn gvk(kind: &str) -> Value {
    json!({"group": "sea.example.com", "version": "v1", "kind": kind})
}

/// What the newest anchor says in all answers.
fn newest() -> Value {
    json!({
        "csvName": "anchor.v2.0.0",
        "packageName": "anchor",
        "channelName": "stable",
        "bundlePath": "registry.example.com/anchor:v2.0.0",
        "providedApis": [gvk("Anchor")],
        "requiredApis": [gvk("Chain")],
        "version": "2.0.0",
        "skipRange": ">=1.0.0 <2.0.0",
        "dependencies": [
            {"type": "olm.gvk", "value": r#"{"group":"sea.example.com","kind":"Chain","version":"v1"}"#},
            {"type": "olm.package", "value": r#"{"packageName":"chain","version":">1.0.0 <2.0.0"}"#},
        ],
        "properties": [
            {"type": "olm.package", "value": r#"{"packageName":"anchor","version":"2.0.0"}"#},
            {"type": "olm.gvk", "value": r#"{"group":"sea.example.com","kind":"Anchor","version":"v1"}"#},
            {"type": "olm.gvk.required", "value": r#"{"group":"sea.example.com","kind":"Chain","version":"v1"}"#},
            {"type": "olm.package.required", "value": r#"{"packageName":"chain","versionRange":">1.0.0 <2.0.0"}"#},
            {"type": "olm.maxOpenShiftVersion", "value": r#""4.20""#},
            {"type": "someone.else", "value": r#"{"a":"<&>","b":1,"n":1000}"#},
        ],
    })
}

/// What is made of its metadata.
fn made() -> Value {
    json!({
        "kind": "ClusterServiceVersion",
        "apiVersion": "operators.coreos.com/v1alpha1",
        "metadata": {"name": "anchor.v2.0.0", "annotations": {"capabilities": "Basic Install"}},
        "status": {"cleanup": {}},
        "spec": {
            "install": {"strategy": "deployment", "spec": {"deployments": null}},
            "version": "2.0.0",
            "cleanup": {"enabled": false},
            "customresourcedefinitions": {"owned": [{"kind": "Anchor", "name": "anchors.sea.example.com", "version": "v1"}]},
            "apiservicedefinitions": {},
            "minKubeVersion": "1.25.0",
            "displayName": "Anchor",
            "keywords": ["sea"],
            "provider": {"name": "Example"},
            "installModes": [{"supported": true, "type": "AllNamespaces"}],
            "relatedImages": [{"name": "", "image": format!("registry.example.com/anchor@sha256:{:064}", 1)}],
            "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}],
            "description": "Holds <ships> & boats.",
        },
    })
}

/// Takes the manifests out of a bundle, parsed.
fn manifests(bundle: &mut Value) -> (Value, Vec<Value>) {
    let parse = |text: &Value| serde_json::from_str(text.as_str().unwrap()).unwrap();
    let bundle = bundle.as_object_mut().unwrap();
    let csv = bundle
        .remove("csvJson")
        .map(|it| parse(&it))
        .unwrap_or_default();
    let objects = bundle
        .remove("object")
        .map(|it| it.as_array().unwrap().iter().map(parse).collect());
    (csv, objects.unwrap_or_default())
}

#[tokio::test]
async fn a_bundle_comes_with_manifests_and_without_edges() {
    let (_served, client) = served().await;
    let get = |package: &str, channel: &str, name: &str| {
        let asked = json!({"pkgName": package, "channelName": channel, "csvName": name});
        client.call("api.Registry/GetBundle", asked)
    };
    let mut bundle = get("anchor", "stable", "anchor.v2.0.0")
        .await
        .unwrap()
        .remove(0);
    assert_eq!(manifests(&mut bundle), (made(), vec![made()]));
    assert_eq!(bundle, newest());

    // No metadata, so nothing to make; and deprecated.
    let old = get("anchor", "stable", "anchor.v1.0.0")
        .await
        .unwrap()
        .remove(0);
    assert_eq!(old["deprecation"], json!({"message": "it rusts"}));
    assert_eq!(
        (&old["csvJson"], &old["object"]),
        (&Value::Null, &Value::Null)
    );

    let mut buoy = get("buoy", "stable", "buoy.v1.0.0")
        .await
        .unwrap()
        .remove(0);
    let (csv, objects) = manifests(&mut buoy);
    assert_eq!(csv["metadata"]["name"], "buoy.v1.0.0");
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["data"]["colour"], "red");
    assert_eq!(objects[1], csv);

    for (package, channel, name, text) in [
        ("no", "stable", "x", r#"package "no" not found"#),
        (
            "anchor",
            "no",
            "x",
            r#"package "anchor", channel "no" not found"#,
        ),
        (
            "anchor",
            "alpha",
            "anchor.v1.0.0",
            r#"package "anchor", channel "alpha", bundle "anchor.v1.0.0" not found"#,
        ),
    ] {
        assert_eq!(refusal(get(package, channel, name).await), unknown(text));
    }
}

#[tokio::test]
async fn the_bundle_of_a_channel_is_its_head() {
    let (_served, client) = served().await;
    let get = |package: &str, channel: &str| {
        let asked = json!({"pkgName": package, "channelName": channel});
        client.call("api.Registry/GetBundleForChannel", asked)
    };
    let mut bundle = get("anchor", "stable").await.unwrap().remove(0);
    manifests(&mut bundle);
    assert_eq!(bundle, newest());
    assert_eq!(
        refusal(get("no", "x").await),
        unknown(r#"package "no" not found"#)
    );
    assert_eq!(
        refusal(get("buoy", "no").await),
        unknown(r#"package "buoy", channel "no" not found"#)
    );
}

#[tokio::test]
async fn who_replaces_or_skips_is_found() {
    let (_served, client) = served().await;
    let entries = |name: &str| {
        client.call(
            "api.Registry/GetChannelEntriesThatReplace",
            json!({"csvName": name}),
        )
    };
    let found = entries("anchor.v1.0.0").await.unwrap();
    // The second only skips it, and says what it really replaces.
    let expected = [
        edge("anchor", "stable", "anchor.v1.1.0", "anchor.v1.0.0"),
        edge("anchor", "stable", "anchor.v2.0.0", "anchor.v1.1.0"),
    ];
    assert_eq!(found, expected);
    let found = entries("anchor.v1.1.0").await.unwrap();
    let both = ["alpha", "stable"].map(|it| edge("anchor", it, "anchor.v2.0.0", "anchor.v1.1.0"));
    assert_eq!(found, both);
    assert_eq!(
        refusal(entries("no").await),
        unknown("no channel entries found that replace no")
    );

    let bundle = |package: &str, channel: &str, name: &str| {
        let asked = json!({"pkgName": package, "channelName": channel, "csvName": name});
        client.call("api.Registry/GetBundleThatReplaces", asked)
    };
    let found = bundle("anchor", "stable", "anchor.v0.9.0")
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (&found["csvName"], &found["replaces"]),
        (&json!("anchor.v2.0.0"), &Value::Null)
    );
    for (package, channel, name, text) in [
        ("no", "stable", "x", "package no not found"),
        (
            "anchor",
            "no",
            "x",
            r#"package "anchor", channel "no" not found"#,
        ),
        (
            "anchor",
            "alpha",
            "anchor.v1.0.0",
            r#"no entry found for package "anchor", channel "alpha""#,
        ),
    ] {
        assert_eq!(refusal(bundle(package, channel, name).await), unknown(text));
    }
}

#[tokio::test]
async fn who_provides_an_api_is_found() {
    let (_served, client) = served().await;
    let ask = |rpc: &str, kind: &str| {
        // The plural is ignored.
        let asked = json!({"group": "sea.example.com", "version": "v1", "kind": kind, "plural": "whatever"});
        let rpc = format!("api.Registry/{rpc}");
        let client = &client;
        async move { client.call(&rpc, asked).await }
    };
    let all = ask("GetChannelEntriesThatProvide", "Anchor").await.unwrap();
    let expected = [
        edge("anchor", "alpha", "anchor.v2.0.0", "anchor.v1.1.0"),
        edge("anchor", "stable", "anchor.v1.1.0", "anchor.v1.0.0"),
        edge("anchor", "stable", "anchor.v1.1.0", "anchor.v1.0.1"),
        edge("anchor", "stable", "anchor.v2.0.0", "anchor.v1.1.0"),
        edge("anchor", "stable", "anchor.v2.0.0", "anchor.v1.0.0"),
        edge("anchor", "stable", "anchor.v2.0.0", "anchor.v0.9.0"),
        edge("buoy", "stable", "buoy.v1.0.0", ""),
    ];
    assert_eq!(all, expected);
    let latest = ask("GetLatestChannelEntriesThatProvide", "Anchor")
        .await
        .unwrap();
    let expected = [
        edge("anchor", "alpha", "anchor.v2.0.0", "anchor.v1.1.0"),
        edge("anchor", "stable", "anchor.v2.0.0", "anchor.v1.1.0"),
        edge("anchor", "stable", "anchor.v2.0.0", "anchor.v1.0.0"),
        edge("buoy", "stable", "buoy.v1.0.0", ""),
    ];
    assert_eq!(latest, expected);
    let mut best = ask("GetDefaultBundleThatProvides", "Anchor")
        .await
        .unwrap()
        .remove(0);
    manifests(&mut best);
    assert_eq!(best, newest());
    // Chains are only required.
    let none = r#"no channel entries found that provide group:"sea.example.com" version:"v1" kind:"Chain""#;
    for rpc in [
        "GetChannelEntriesThatProvide",
        "GetLatestChannelEntriesThatProvide",
        "GetDefaultBundleThatProvides",
    ] {
        assert_eq!(refusal(ask(rpc, "Chain").await), unknown(none), "{rpc}");
    }
}

#[tokio::test]
async fn lists_of_bundles_have_edges_and_manifests_only_without_an_image() {
    let (_served, client) = served().await;
    let bundles = client
        .call("api.Registry/ListBundles", json!({}))
        .await
        .unwrap();
    let order: Vec<_> = bundles
        .iter()
        .map(|it| ["channelName", "packageName", "csvName"].map(|key| it[key].as_str().unwrap()))
        .collect();
    let expected = [
        ["alpha", "anchor", "anchor.v2.0.0"],
        ["stable", "anchor", "anchor.v1.0.0"],
        ["stable", "anchor", "anchor.v1.1.0"],
        ["stable", "anchor", "anchor.v2.0.0"],
        ["stable", "buoy", "buoy.v1.0.0"],
    ];
    assert_eq!(order, expected);
    let mut listed = newest();
    listed["replaces"] = json!("anchor.v1.1.0");
    listed["skips"] = json!(["anchor.v1.0.0", "anchor.v0.9.0"]);
    assert_eq!(bundles[3], listed);
    let mut buoy = bundles[4].clone();
    let (csv, objects) = manifests(&mut buoy);
    assert_eq!(
        (csv["kind"].as_str(), objects.len()),
        (Some("ClusterServiceVersion"), 2)
    );
    assert_eq!(buoy.get("bundlePath"), None);
}

#[tokio::test]
async fn custom_schemas_are_for_those_who_know_what_they_ask_for() {
    const RPC: &str = "api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
    let (_served, client) = served().await;
    let asked = json!({"schema": "example.charts", "packageName": "anchor"});
    let key = "x-acknowledge-experimental";
    for headers in [
        &[] as &[_],
        &[(key, "True")],
        &[(key, "1")],
        &[("x-other", "true")],
    ] {
        assert_eq!(
            client.call_with(RPC, asked.clone(), headers).await.unwrap(),
            [] as [Value; 0]
        );
    }
    let knowing = [(key, "true")];
    let ask = |asked: Value| client.call_with(RPC, asked, &knowing);
    let first = json!({"schema": "example.charts", "package": "anchor", "name": "a", "deep": {"list": [1.0, "two", null, true]}});
    let second = json!({"schema": "example.charts", "package": "anchor", "name": "b"});
    assert_eq!(ask(asked).await.unwrap(), [first, second]);
    let without = json!({"schema": "example.charts", "name": "everyone's"});
    assert_eq!(
        ask(json!({"schema": "example.charts"})).await.unwrap(),
        [without]
    );
    assert_eq!(
        ask(json!({"schema": "nobody.s", "packageName": "anchor"}))
            .await
            .unwrap(),
        [] as [Value; 0]
    );

    let (code, text) = refusal(ask(json!({"packageName": "anchor"})).await);
    assert_eq!(
        (code, &*text),
        (Code::InvalidArgument, "schema is required")
    );
    for asked in [
        json!({"schema": "../x"}),
        json!({"schema": "a", "packageName": ".b"}),
        json!({"schema": "ä"}),
    ] {
        let (code, text) = refusal(ask(asked).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.starts_with("invalid custom schema query: "), "{text}");
    }
}
