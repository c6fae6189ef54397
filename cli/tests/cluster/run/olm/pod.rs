//! The registry pod in a cluster without nodes.

use serde_json::json;

use super::{Operator, SPACE, Scene};
use crate::environment::{Rukpak as _, unique};

pub(super) async fn is_hardened_on_request_and_reported_if_not_ready(scene: &Scene) {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let metadata = json!({"name": SPACE, "labels": labels});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    scene.apply(&namespace).await;
    let operator = Operator::new(&unique("free"));
    let (name, image) = (&operator.name, operator.publish("0.0.1"));
    let bundle = format!("run bundle {image} --use-http --engine=olm");
    let run = scene.run(&bundle).exits(1);
    run.err_has("error: Failed to run bundle: create catalog: failed to create Pod ");
    run.err_has("violates PodSecurity \"restricted:latest\"");
    run.err_has("; run the same command again with --security-context-config=restricted");
    run.err_lacks("cluster admin");
    tests::assert_runs! { scene;
        "{bundle} --security-context-config=restricted --timeout=10s"
            => 1, "", "error: Failed to run bundle: create catalog: timed out after 10s: registry pod ", " is not ready; \
                                                                                                          the CatalogSource \
                                                                                                          was not changed",
            "Pod {SPACE}/";
    }
    // The CatalogSource gets no address before the pod is ready, and cleanup deletes the created objects.
    let catalog = format!("{name}-catalog");
    let source = scene
        .api_of_kind("CatalogSource")
        .get(&catalog)
        .await
        .unwrap();
    assert_eq!(source.data["spec"].get("address"), None, "{source:?}");
    tests::assert_runs! { scene;
        "cleanup {name} --engine=olm" => 0, "Operator \"{name}\" uninstalled\n";
    }
    scene.assert_empty().await;
}
