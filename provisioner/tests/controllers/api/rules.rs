//! What the API server stores of an object.

use manifests::api::{bounds, instance::BundleInstance};
use serde_json::json;

use super::*;

// parity: rukpak-49
#[tokio::test]
async fn objects_of_rukpak_are_read_as_they_were() {
    // As `kubectl get -o yaml` shows them: the Go structs are no pointers.
    let mut object = instance(
        "old",
        &json!({"type": "git", "git": {
        "repository": "https://git.example.com/a", "ref": {"branch": "main"}, "auth": {"secret": {}}}}),
    );
    object["spec"]["template"]["metadata"] = json!({"labels": {"app": "a"}, "name": "ignored"});
    let stored = offer(&object).await.unwrap();
    let stored: BundleInstance = stored.try_parse().unwrap();
    let git = stored.spec.template.spec.source.git.unwrap();
    assert_eq!(git.auth.unwrap().secret.unwrap().name, "");
    assert!(stored.spec.service_account.is_none() && !stored.spec.paused);

    // The API server stores what the types write.
    let mut object = instance("round", &image());
    object["spec"]["config"] = json!({"deploymentConfig": {"env": [{"name": "A", "value": "b"}], "anything": {"deep": [1, null]}}});
    object["spec"]["preflight"] = json!({"crdUpgradeSafety": "Off"});
    let ours: BundleInstance = serde_json::from_value(object).unwrap();
    let stored = offer(&serde_json::to_value(&ours).unwrap()).await.unwrap();
    let stored: BundleInstance = stored.try_parse().unwrap();
    assert_eq!(stored.spec, ours.spec);
}

#[tokio::test]
async fn conditions_of_several_writers_live_side_by_side() {
    let client = installed().await.client().unwrap();
    create(client.clone(), &bundle("conditions", &image()), false)
        .await
        .unwrap();
    let write = |manager: &'static str, type_: &'static str, message: String| {
        let api = api(client.clone(), "Bundle");
        let status = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "conditions"},
            "status": {"conditions": [{
                "type": type_, "status": "True", "reason": "Because", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]},
        });
        async move {
            api.patch_status(
                "conditions",
                &PatchParams::apply(manager),
                &Patch::Apply(&status),
            )
            .await
        }
    };
    write("rukpak", "Unpacked", "a".repeat(bounds::MESSAGE as usize))
        .await
        .unwrap();
    let bundle = write("somebody", "Seen", String::new()).await.unwrap();
    let types: Vec<_> = bundle.data["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["type"].clone())
        .collect();
    assert_eq!(types, ["Unpacked", "Seen"]);

    let error = write(
        "rukpak",
        "Unpacked",
        "a".repeat(bounds::MESSAGE as usize + 1),
    )
    .await
    .unwrap_err();
    assert!(error.to_string().contains("message: Too long"), "{error}");
}
