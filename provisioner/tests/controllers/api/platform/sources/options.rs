//! Unknown options of a catalog's pod.

use super::*;

/// Both ways to say them, and where they are said.
fn said(options: &Value) -> [(Value, &'static str); 2] {
    let mut new = image();
    new["catalogImageSource"]["podSpecOverrides"] = options.clone();
    tests::rows![
        new => "spec.catalogImageSource.podSpecOverrides";
        and(&by_image(), &json!({"grpcPodConfig": options})) => "spec.grpcPodConfig";
    ]
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
