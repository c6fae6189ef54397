//! The options of a catalog's pod: what Kubernetes knows, in either form, and nothing that goes without end.

use super::*;

/// Both ways to say them, and where they are said.
fn said(options: &Value) -> [(Value, &'static str); 2] {
    let mut new = image();
    new["catalogImageSource"]["podSpecOverrides"] = options.clone();
    [
        (new, "spec.catalogImageSource.podSpecOverrides"),
        (
            and(&by_image(), &json!({"grpcPodConfig": options})),
            "spec.grpcPodConfig",
        ),
    ]
}

/// Nested more often than clients read.
fn deep() -> Value {
    (0..200).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[tokio::test]
async fn options_of_a_pod_are_those_of_kubernetes() {
    let terms = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
    for (options, below, words) in [
        (json!("none"), "", "must be of type object: \"string\""),
        (
            json!({"securityContextConfig": "bogus"}),
            ".securityContextConfig",
            "Unsupported value: \"bogus\": supported values: \"legacy\", \"restricted\"",
        ),
        (
            json!({"extractContent": {}}),
            ".extractContent.catalogDir",
            "Required value",
        ),
        (
            json!({"tolerations": "all"}),
            ".tolerations",
            "must be of type array: \"string\"",
        ),
        (
            json!({"tolerations": [{"key": 7}]}),
            ".tolerations[0].key",
            "must be of type string: \"integer\"",
        ),
        (
            json!({"tolerations": vec![json!({"operator": "Exists"}); 65]}),
            ".tolerations",
            "must have at most 64 items",
        ),
        (
            json!({"memoryTarget": {}}),
            ".memoryTarget",
            "must be of type integer,string: \"object\"",
        ),
        (
            json!({"memoryTarget": "lots"}),
            ".memoryTarget",
            "should match",
        ),
        (
            json!({"nodeSelector": {"a": deep()}}),
            ".nodeSelector.a",
            "must be of type string: \"object\"",
        ),
        (
            json!({"priorityClassName": ["a"]}),
            ".priorityClassName",
            "must be of type string: \"array\"",
        ),
        (
            terms(json!({})),
            ".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            "Required value",
        ),
        (
            terms(json!({"nodeSelectorTerms": "any"})),
            ".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            "must be of type array: \"string\"",
        ),
    ] {
        for (spec, field) in said(&options) {
            let message = put(&source("bad", &spec), true).await.unwrap_err();
            let place = format!("{field}{below}: ");
            assert!(
                message.contains(&place) && message.contains(words),
                "{options}: {message}"
            );
        }
    }
}

/// What nobody knows is dropped, as deep as it may be, and told to who asks for that.
#[tokio::test]
async fn options_that_nobody_knows_are_dropped() {
    let known = json!({"affinity": {"podAffinity": {}}, "tolerations": [{}], "memoryTarget": 5});
    let more = json!({
        "affinity": {"podAffinity": {"later": deep()}, "a": deep()}, "tolerations": [{"a": deep()}], "memoryTarget": 5,
        "later": deep(),
    });
    for ((spec, field), (taken, _)) in said(&more).into_iter().zip(said(&known)) {
        let stored = put(&source("deep", &spec), true).await.unwrap();
        assert_eq!(stored["spec"], taken);
        let apply = ["apply", "--dry-run=server", "--filename", "-"];
        let text = source("deep", &spec).to_string();
        let refused = kubectl(defined().await, &apply, &text).await.unwrap_err();
        let words = format!("unknown field \"{field}.later\"");
        assert!(refused.contains(&words), "{refused}");
    }
}
