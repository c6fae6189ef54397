//! The pod of a catalog where no node runs one.

use serde_json::json;

use super::{Operator, SPACE, Scene};
use crate::world::unique;

pub(super) async fn is_hardened_on_request_and_reported_if_not_ready(scene: &Scene) {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let metadata = json!({"name": SPACE, "labels": labels});
    scene
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
        .await;
    let operator = Operator::new(&unique("free"));
    let (name, image) = (&operator.name, operator.publish("0.0.1"));
    let args = ["run", "bundle", &image, "--use-http", "--engine=olm"];
    let run = scene
        .run(&args)
        .exits(1)
        .says("error: Failed to run bundle: create catalog: failed to create Pod ")
        .says("violates PodSecurity \"restricted:latest\"")
        .says("; run the same command again with --security-context-config=restricted");
    assert!(!run.err.contains("administrator"), "{run:?}");
    let more = ["--security-context-config=restricted", "--timeout=10s"];
    let run = scene
        .run(&[&args[..], &more].concat())
        .exits(1)
        .says("error: Failed to run bundle: create catalog: registry pod ")
        .says(" did not become ready within 10s")
        .says(&format!("Pod {SPACE}/"));
    assert_eq!(run.out, "");

    // OLM learns of no server before one is ready, and what was made can be removed.
    let catalog = format!("{name}-catalog");
    let source = scene.of("CatalogSource").get(&catalog).await.unwrap();
    assert_eq!(source.data["spec"].get("address"), None, "{source:?}");
    let run = scene.run(&["cleanup", name, "--engine=olm"]).exits(0);
    assert_eq!(run.out, format!("Operator {name:?} uninstalled\n"));
    scene.assert_empty().await;
}
