//! Accepted objects that cause warnings.

use super::*;

/// Deprecated fields are accepted with a warning, as `kubectl` prints it.
// parity: source-5
#[tokio::test]
async fn deprecated_fields_are_warned_of_and_the_new_form_is_not() {
    let cluster = defined().await;
    let file = manifests("optional/catalogsource-deprecations.yaml");
    let apply = ["apply", "--server-side", "--filename", &file];
    kubectl(cluster, &apply, "").await.unwrap();
    // A warning fails only the command; the object is stored all the same.
    let warned = async |object: &Value| {
        let apply = ["apply", "--warnings-as-errors", "--filename", "-"];
        kubectl(cluster, &apply, &object.to_string()).await.err()
    };
    let probe = source("probe", &json!({"sourceType": "grpc", "image": "r/c:v1"}));
    let begun = std::time::Instant::now();
    while warned(&probe).await.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no warning");
        run("delete catsrc probe").await;
    }
    let pod = json!({
        "nodeSelector": {"a": "b"}, "tolerations": [], "affinity": {}, "priorityClassName": "",
        "securityContextConfig": "legacy", "memoryTarget": "1Mi", "extractContent": {"catalogDir": "/configs"},
    });
    for (index, (spec, expected)) in tests::rows![
        json!({"sourceType": "grpc", "image": "r/c:v1", "grpcPodConfig": {}})
            => Some("sourceType, image, grpcPodConfig: deprecated, use catalogImageSource instead");
        json!({"sourceType": "grpc", "address": "a:1"})
            => Some("sourceType, address: deprecated, use catalogServiceSource instead");
        json!({"sourceType": "internal", "configMap": "m"})
            => Some("sourceType, configMap: deprecated, use configMapSource instead");
        json!({"sourceType": "grpc", "address": "a:1", "updateStrategy": {}})
            => Some("updateStrategy: ignored, because only images are polled in a registry");
        json!({"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": pod}})
            => None;
        json!({"sourceType": "configmap", "configMap": "m", "secrets": ["s"]})
            => Some("secrets: ignored, because only images are pulled with secrets");
        json!({"catalogImageSource": {"catalogImage": "r/c@sha256:0123"}, "updateStrategy": {"registryPoll": {"interval": "30m"}}})
            => Some("updateStrategy: ignored, because an image with a digest never changes");
        json!({"catalogImageSource": {"catalogImage": "r/c:v1"}, "updateStrategy": {"registryPoll": {"interval": "30m"}}, "secrets": ["s"]})
            => None;
        json!({"catalogServiceSource": {"address": "a:1"}}) => None;
        json!({"configMapSource": {"configMap": "m"}}) => None;
    ]
    .iter()
    .enumerate()
    {
        let object = source(&format!("warned-{index}"), spec);
        match (warned(&object).await, expected) {
            (None, None) => {}
            (Some(warning), Some(expected)) => assert!(warning.contains(expected), "{warning}"),
            (warning, expected) => panic!("{spec}: {warning:?} where it should be {expected:?}"),
        }
        let again = put(&object, true).await.unwrap_err();
        assert!(again.contains("already exists"), "{again}");
    }
    // A change of labels does not warn about fields.
    let name = "warned-0";
    let label = ["label", "catsrc", name, "a=b", "--warnings-as-errors"];
    kubectl(cluster, &label, "").await.unwrap();
}
