//! Properties that the comparison with opm does not cover: the order of answers, ignored fields, and custom schemas.
//! The client is generated from the API file.

use crate::dynamic::Dynamic;
use crate::fixture::{Served, bundle, dir};
use crate::testing::{chained, starts};
use crate::*;

/// Formats an entry as `channel bundle replaces`.
fn edges(answers: &[Value]) -> Vec<String> {
    let edge = |answer: &Value| {
        let fields = ["channelName", "bundleName", "replaces"];
        let fields = fields.map(|field| answer[field].as_str().unwrap_or("-"));
        fields.join(" ")
    };
    answers.iter().map(edge).collect()
}

// parity: grpc-1
#[tokio::test]
async fn null_values_of_properties_are_served() {
    let types = ["olm.deprecated", "olm.constraint", "example.com/any"];
    let properties = types.map(|type_| json!({"type": type_, "value": null}));
    let package = chained("cork", "c", &[bundle("cork", "1.0.0", &properties)]);
    let catalog = dir(&[("c.json", &package)]);
    let served = Served::start(catalog.path()).await;
    let client = Dynamic::connect(served.address).await;
    let requested = json!({"pkgName": "cork", "channelName": "c", "csvName": "cork.v1.0.0"});
    let answers = client.call("GetBundle", requested).await.unwrap();
    let found = answers[0]["properties"].as_array().unwrap();
    for type_ in types {
        let property = json!({"type": type_, "value": "null"});
        assert!(found.contains(&property), "{found:?}");
    }
}

// parity: grpc-3
#[tokio::test]
async fn answers_have_an_order() {
    let served = Served::both().await;
    let client = Dynamic::connect(served.address).await;
    // The plural is ignored.
    let api = json!({"group": "sea.example.com", "version": "v1", "kind": "Anchor", "plural": "-"});
    let replaced = |name: &str| json!({"csvName": name});
    assert_each!(|rpc, asked, expected| edges(&client.call(rpc, asked).await.unwrap()) => expected;
        // The second bundle only skips it, and names the one that it replaces.
        "GetChannelEntriesThatReplace", replaced("anchor.v1.0.0") => &[
            "stable anchor.v1.1.0 anchor.v1.0.0", "stable anchor.v2.0.0 anchor.v1.1.0",
        ][..];
        "GetChannelEntriesThatReplace", replaced("anchor.v1.1.0") => &[
            "alpha anchor.v2.0.0 anchor.v1.1.0", "stable anchor.v2.0.0 anchor.v1.1.0",
        ];
        "GetChannelEntriesThatProvide", api.clone() => &[
            "alpha anchor.v2.0.0 anchor.v1.1.0", "stable anchor.v1.1.0 anchor.v1.0.0", "stable anchor.v1.1.0 anchor.v1.0.1",
            "stable anchor.v2.0.0 anchor.v1.1.0", "stable anchor.v2.0.0 anchor.v1.0.0", "stable anchor.v2.0.0 anchor.v0.9.0",
            "stable buoy.v1.0.0 -",
        ];
        "GetLatestChannelEntriesThatProvide", api => &[
            "alpha anchor.v2.0.0 anchor.v1.1.0", "stable anchor.v2.0.0 anchor.v1.1.0", "stable anchor.v2.0.0 anchor.v1.0.0",
            "stable buoy.v1.0.0 -",
        ];
    );
}

// parity: load-2, grpc-6
#[tokio::test]
async fn custom_schemas_need_an_explicit_request() {
    const RPC: &str = "api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
    let served = Served::both().await;
    let client = Dynamic::connect(served.address).await;
    let asked = json!({"schema": "example.charts", "packageName": "anchor"});
    let key = "x-acknowledge-experimental";
    for headers in [
        &[(key, "True")][..],
        &[(key, "1")],
        &[("x-other", "true")],
        &[],
    ] {
        assert_rows!(client.call_with(RPC, asked.clone(), headers).await.unwrap() => [] as [Value; 0]);
    }
    let knowing = [(key, "true")];
    let ask = |asked: Value| client.call_with(RPC, asked, &knowing);
    let first = json!({"schema": "example.charts", "package": "anchor", "name": "a", "deep": {"list": [1.0, "two", null, true]}});
    assert_each!(|asked, expected| ask(asked).await.unwrap() => expected;
        asked => vec![first, json!({"schema": "example.charts", "package": "anchor", "name": "b"})];
        json!({"schema": "example.charts"}) => vec![json!({"schema": "example.charts", "name": "everyone's"})];
        json!({"schema": "absent.s", "packageName": "anchor"}) => vec![];
    );

    for (asked, problem) in tests::rows![
        json!({"packageName": "anchor"}) => "schema is required";
        json!({"schema": "../x"}) => "invalid custom schema query: ";
        json!({"schema": "a", "packageName": ".b"}) => "invalid custom schema query: ";
        json!({"schema": "ä"}) => "invalid custom schema query: ";
    ] {
        let status = ask(asked).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        starts(status.message(), problem);
    }
}
