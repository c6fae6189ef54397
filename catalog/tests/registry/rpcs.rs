//! What the comparison with opm leaves open: the order of answers, ignored fields, and custom schemas, asked by a client that was
//! made from the file of the API.

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

/// `channel bundle replaces`.
fn edges(answers: &[Value]) -> Vec<String> {
    let edge = |answer: &Value| {
        let fields = ["channelName", "bundleName", "replaces"];
        let fields = fields.map(|field| answer[field].as_str().unwrap_or("-"));
        fields.join(" ")
    };
    answers.iter().map(edge).collect()
}

// parity: grpc-3
#[tokio::test]
async fn answers_have_an_order() {
    let (_served, client) = served().await;
    // The plural is ignored.
    let api = json!({"group": "sea.example.com", "version": "v1", "kind": "Anchor", "plural": "whatever"});
    let replaced = |name: &str| json!({"csvName": name});
    for (rpc, asked, expected) in tests::rows![
        // The second only skips it, and says what it really replaces.
        "GetChannelEntriesThatReplace", replaced("anchor.v1.0.0") => &[
            "stable anchor.v1.1.0 anchor.v1.0.0",
            "stable anchor.v2.0.0 anchor.v1.1.0",
        ][..];
        "GetChannelEntriesThatReplace", replaced("anchor.v1.1.0") => &[
            "alpha anchor.v2.0.0 anchor.v1.1.0",
            "stable anchor.v2.0.0 anchor.v1.1.0",
        ];
        "GetChannelEntriesThatProvide", api.clone() => &[
            "alpha anchor.v2.0.0 anchor.v1.1.0",
            "stable anchor.v1.1.0 anchor.v1.0.0",
            "stable anchor.v1.1.0 anchor.v1.0.1",
            "stable anchor.v2.0.0 anchor.v1.1.0",
            "stable anchor.v2.0.0 anchor.v1.0.0",
            "stable anchor.v2.0.0 anchor.v0.9.0",
            "stable buoy.v1.0.0 -",
        ];
        "GetLatestChannelEntriesThatProvide", api => &[
            "alpha anchor.v2.0.0 anchor.v1.1.0",
            "stable anchor.v2.0.0 anchor.v1.1.0",
            "stable anchor.v2.0.0 anchor.v1.0.0",
            "stable buoy.v1.0.0 -",
        ];
    ] {
        let answers = client.call(&format!("api.Registry/{rpc}"), asked).await;
        assert_eq!(edges(&answers.unwrap()), expected, "{rpc}");
    }
}

// parity: load-2, grpc-6
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
