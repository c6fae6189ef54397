//! Bounds, patterns and rules between fields that rukpak's tests know nothing of.

use manifests::api::{bounds, instance::BundleInstance};
use serde_json::json;

use super::*;

#[tokio::test]
async fn what_is_too_long_is_refused_by_name() {
    let long = |length: u32| "a".repeat(length as usize + 1);
    let many: Vec<Value> = (0..=bounds::CONFIG_MAPS)
        .map(|index| json!({"configMap": {"name": format!("a{index}")}}))
        .collect();
    for (source, message) in [
        (
            json!({"type": "image", "image": {"ref": long(bounds::REFERENCE)}}),
            "{source}.image.ref: Too long: may not be more than 1024 bytes",
        ),
        (
            json!({"type": "image", "image": {"ref": "a", "pullSecret": long(253)}}),
            "{source}.image.pullSecret: Too long",
        ),
        (
            json!({"type": "image", "image": {"ref": "a", "certificateData": long(bounds::CERTIFICATES)}}),
            "{source}.image.certificateData: Too long",
        ),
        (
            git(&json!({"branch": long(bounds::GIT_REF)})),
            "{source}.git.ref.branch: Too long",
        ),
        (
            json!({"type": "http", "http": {"url": format!("https://{}", long(bounds::URL))}}),
            "{source}.http.url: Too long",
        ),
        (
            json!({"type": "configMaps", "configMaps": many}),
            "{source}.configMaps: Too many: 65: must have at most 64 items",
        ),
        (
            json!({"type": "configMaps", "configMaps": []}),
            "{source}.configMaps in body should have at least 1 items",
        ),
    ] {
        refused(&source, message).await;
    }
}

#[tokio::test]
async fn hostile_values_are_refused_by_name() {
    for (source, message) in [
        (
            json!({"type": "image", "image": {"ref": ""}}),
            "{source}.image.ref in body should be at least 1 chars",
        ),
        (
            json!({"type": "image", "image": {"ref": "a\nb"}}),
            "{source}.image.ref in body should match",
        ),
        (
            json!({"type": "image", "image": {"ref": "a\u{202e}b"}}),
            "{source}.image.ref in body should match",
        ),
        (
            json!({"type": "image", "image": {"ref": "a", "pullSecret": "../a"}}),
            "{source}.image.pullSecret in body should match",
        ),
        (
            json!({"type": "image", "image": {"ref": 1}}),
            "{source}.image.ref in body must be of type string",
        ),
        (
            json!({"type": "Image", "image": {"ref": "a"}}),
            r#"{source}.type: Unsupported value: "Image": supported values: "image", "git", "http", "configMaps", "upload""#,
        ),
        (
            json!({"type": "http", "http": {"url": "file:///etc/passwd"}}),
            "{source}.http.url in body should match",
        ),
        (
            git(&json!({"commit": "main"})),
            "{source}.git.ref.commit in body should match",
        ),
        (
            git(&json!({"branch": "a b"})),
            "{source}.git.ref.branch in body should match",
        ),
        (
            json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a/b"}}]}),
            "{source}.configMaps[0].configMap.name in body should match",
        ),
    ] {
        refused(&source, message).await;
    }
}

#[tokio::test]
async fn null_is_no_member_of_a_union() {
    let source = json!({"type": "image", "image": null});
    refused(&source, "(oneOf). Found none valid").await;
    let mut source = image();
    source["git"] = Value::Null;
    for object in both(&source) {
        let stored = offer(&object).await;
        assert!(stored.is_ok(), "{stored:?}");
    }
}

#[tokio::test]
async fn the_directory_stays_in_the_repository() {
    let with = |directory: &str| {
        let mut source = git(&json!({"branch": "main"}));
        source["git"]["directory"] = directory.into();
        source
    };
    for directory in ["..", "../a", "../../a"] {
        refuse(
            &bundle("directory", &with(directory)),
            r#"bundle.spec.source.git.directory begins with "../": directory must define path within the repository"#,
        )
        .await;
        refused(
            &with(directory),
            r#"{source}.git.directory begins with "../""#,
        )
        .await;
    }
    for directory in ["./..", "a/../..", "a/../b"] {
        refused(
            &with(directory),
            r#"{source}.git.directory contains "..": directory must"#,
        )
        .await;
    }
    for directory in ["", ".", "./a/b/", "a..b/..c/d..", "..."] {
        for object in both(&with(directory)) {
            offer(&object).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_path_of_a_config_map_stays_in_the_bundle() {
    let with = |path: &str| json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": path}]});
    for path in ["..", "../a", "a/../../b", "/a"] {
        let message = format!(
            "{{source}}.configMaps[0]: Invalid value: path is invalid: \"{path}\" is outside bundle root"
        );
        refused(&with(path), &message).await;
    }
    for object in both(&with("manifests/a..b")) {
        offer(&object).await.unwrap();
    }
}

#[tokio::test]
async fn the_parts_of_an_instance_are_checked() {
    let with = |pointer: &str, value: Value| {
        let mut object = instance("parts", &image());
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        object
    };
    let labels: Value = (0..=bounds::LABELS)
        .map(|index| (format!("l{index}"), json!("v")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (object, message) in [
        (
            with("/spec/installNamespace", json!("A")),
            "spec.installNamespace in body should match",
        ),
        (
            with("/spec/installNamespace", json!("a".repeat(64))),
            "spec.installNamespace: Too long",
        ),
        (
            with("/spec/serviceAccount", json!({"name": "a"})),
            "spec.serviceAccount.namespace: Required value",
        ),
        (
            with(
                "/spec/serviceAccount",
                json!({"name": "a:b", "namespace": "a"}),
            ),
            "spec.serviceAccount.name in body should match",
        ),
        (
            with("/spec/crdDeletionPolicy", json!("Never")),
            r#"spec.crdDeletionPolicy: Unsupported value: "Never": supported values: "Retain", "DeleteIfUnused", "Delete""#,
        ),
        (
            with("/spec/rollback", json!("Always")),
            "spec.rollback: Unsupported value",
        ),
        (
            with("/spec/preflight", json!({"crdUpgradeSafety": "off"})),
            "spec.preflight.crdUpgradeSafety: Unsupported value",
        ),
        (
            with("/spec/config", json!({"deploymentConfig": "a"})),
            "spec.config.deploymentConfig in body must be of type object",
        ),
        (
            with("/spec/template/metadata", json!({"labels": labels})),
            "spec.template.metadata.labels: Too many: 65: must have at most 64 items",
        ),
        (
            with("/spec/template/metadata", json!({"labels": {"a": "b c"}})),
            "spec.template.metadata.labels.a in body should match",
        ),
        (
            with(
                "/spec/template/metadata",
                json!({"labels": {"a": "b".repeat(64)}}),
            ),
            "spec.template.metadata.labels.a: Too long",
        ),
        (
            with("/spec/paused", json!("yes")),
            "spec.paused in body must be of type boolean",
        ),
    ] {
        refuse(&object, message).await;
    }
}

#[tokio::test]
async fn the_install_namespace_can_be_set_once() {
    let client = installed().await.client().unwrap();
    create(client.clone(), &instance("namespace", &image()), false)
        .await
        .unwrap();
    let to = |value: Value| {
        change(
            client.clone(),
            "BundleInstance",
            "namespace",
            json!({"spec": {"installNamespace": value}}),
        )
    };
    to(json!("one")).await.unwrap();
    for value in [json!("two"), Value::Null] {
        let said = to(value).await.unwrap_err();
        assert!(
            said.contains("spec.installNamespace is immutable once set"),
            "{said}"
        );
    }
    to(json!("one")).await.unwrap();
}

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
    let instance: BundleInstance = stored.try_parse().unwrap();
    let git = instance.spec.template.spec.source.git.unwrap();
    assert_eq!(git.auth.unwrap().secret.unwrap().name, "");
    assert!(instance.spec.service_account.is_none() && !instance.spec.paused);
}

#[tokio::test]
async fn what_the_types_write_is_what_the_apiserver_keeps() {
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
