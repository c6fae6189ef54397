//! Objects as the API server stores them.

use manifests::api::{
    bundle_instance::BundleInstance,
    limits,
    platform_operator::{PlatformOperator, RightsApproval, UpgradeApproval},
};

use super::{
    platform::{defined, operator, put, sources::source},
    *,
};

// parity: rukpak-49
#[tokio::test]
async fn objects_are_stored_as_written() {
    // As `kubectl get -o yaml` prints them: the Go structs are not pointers.
    let git = json!({"repository": "https://git.example.com/a", "ref": {"branch": "main"}, "auth": {"secret": {}}});
    let mut object = instance("old", &json!({"type": "git", "git": git}));
    object["spec"]["template"]["metadata"] = json!({"labels": {"app": "a"}, "name": "ignored"});
    let stored = put(&object, true).await.unwrap();
    let stored: BundleInstance = serde_json::from_value(stored).unwrap();
    tests::assert_rows!(stored.spec.template.spec.source.git.unwrap().auth.unwrap().secret.unwrap().name => "");
    assert!(stored.spec.service_account.is_none() && !stored.spec.paused);

    // The API server stores what the types write.
    let mut object = instance("round", &image());
    object["spec"]["config"] = json!({"deploymentConfig": {"env": [{"name": "A", "value": "b"}], "anything": {"deep": [1, null]}}});
    object["spec"]["preflight"] = json!({"crdUpgradeSafety": "Off"});
    let typed: BundleInstance = serde_json::from_value(object).unwrap();
    let object = serde_json::to_value(&typed).unwrap();
    let stored = put(&object, true).await.unwrap();
    let stored: BundleInstance = serde_json::from_value(stored).unwrap();
    assert_eq!(stored.spec, typed.spec);

    let spec = json!({"package": {"name": "etcd"}});
    let stored = put(&operator("good", &spec), true).await.unwrap();
    assert_eq!(stored["spec"]["upgradeApproval"], "WithCluster");
    let stored: PlatformOperator = serde_json::from_value(stored).unwrap();
    assert_eq!(stored.spec.upgrade_approval, UpgradeApproval::WithCluster);
    assert_eq!(stored.spec.approve_new_rights, RightsApproval::Automatic);
    assert_eq!(stored.check(), Ok(()));

    // The API server drops unknown options at any depth, in both forms, and kubectl names them.
    let deep = || (0..200).fold(json!(1), |inner, _| json!({"a": inner}));
    let valid = json!({"affinity": {"podAffinity": {}}, "tolerations": [{}], "memoryTarget": 5});
    let more = json!({
        "affinity": {"podAffinity": {"later": deep()}, "a": deep()}, "tolerations": [{"a": deep()}], "memoryTarget": 5,
        "later": deep(),
    });
    let forms = |options: &Value| {
        tests::rows![
            json!({"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": options}})
                => "spec.catalogImageSource.podSpecOverrides";
            json!({"sourceType": "grpc", "image": "r/c:v1", "grpcPodConfig": options}) => "spec.grpcPodConfig";
        ]
    };
    for ((spec, field), (taken, _)) in forms(&more).into_iter().zip(forms(&valid)) {
        let object = source("deep", &spec);
        assert_eq!(put(&object, true).await.unwrap()["spec"], taken);
        let apply = ["apply", "--dry-run=server", "--filename", "-"];
        let rejected = kubectl(defined().await, &apply, &object.to_string()).await;
        let warning = format!("unknown field \"{field}.later\"");
        assert_has(rejected.unwrap_err(), &warning);
    }

    let client = installed().await.client().unwrap();
    store(&client, &bundle("conditions", &image())).await;
    let api = api(client, "Bundle");
    let write = async |manager: &str, type_: &str, length: u32| {
        let status = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "conditions"},
            "status": {"conditions": [{
                "type": type_, "status": "True", "reason": "Because", "message": "a".repeat(length as usize),
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]},
        });
        let (params, status) = (PatchParams::apply(manager), Patch::Apply(&status));
        api.patch_status("conditions", &params, &status).await
    };
    let longest = limits::MESSAGE;
    write("rukpak", "Unpacked", longest).await.unwrap();
    let bundle = write("another", "Seen", 0).await.unwrap();
    let conditions = bundle.data["status"]["conditions"].as_array().unwrap();
    tests::assert_rows!(conditions.iter().map(|condition| &condition["type"]).collect::<Vec<_>>() => ["Unpacked", "Seen"]);

    let written = write("rukpak", "Unpacked", longest + 1).await;
    assert_has(written.unwrap_err(), "message: Too long");
}
