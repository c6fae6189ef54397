//! Owners of packages and BundleInstances, and repairs of changes by other clients.

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::DeleteParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::api::{
    bundle_instance::BundleInstance, labels, platform_operator::PlatformOperator,
};
use serde_json::{Value, json};

use super::support::{Platform, packages};
use crate::cluster_operator::define;
use crate::support::{delete, list, operator, until, wait_deleted, wait_for};

fn olm(kind: &str, name: &str, metadata: &Value, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
    });
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = "catalogs".into();
    object
}

fn properties(package: &str) -> Value {
    let properties = json!({"properties": [
        {"type": "olm.gvk", "value": {"group": "a", "kind": "B", "version": "v1"}},
        {"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}},
    ]});
    json!({"operatorframework.io/properties": properties.to_string()})
}

async fn remove(platform: &Platform, kind: &str, name: &str) {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", kind);
    let (client, kind) = (platform.world.client(), ApiResource::from_gvk(&kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client, "catalogs", &kind);
    delete(&api, name).await;
}

// parity: platform-7, platform-8, openshift-3, openshift-8, openshift-9, openshift-10, openshift-11, openshift-16
#[tokio::test]
async fn package_and_instance_have_exactly_one_owner() {
    let platform = Platform::new().await;
    for plural in ["subscriptions", "clusterserviceversions"] {
        define(platform.world.cluster, plural).await;
    }
    let mut all = Vec::new();
    for name in ["tide", "surf", "moon", "sand", "reef"] {
        all.push((name, platform.bundles(name, &["1.0.0"]).await));
    }
    let mut gull = platform.bundles("gull", &["1.0.0"]).await;
    gull[0]["image"] = own_namespace(&platform, "gull").await.into();
    all.push(("gull", gull));
    let server = platform.serve_mine(&packages(&all)).await;
    // All of these exist before the provisioner starts, so that it cannot act before it has read them.
    let subscription_spec =
        json!({"name": "surf", "source": "mine", "sourceNamespace": "catalogs"});
    let subscription = olm("Subscription", "mine", &json!({}), &subscription_spec);
    platform.world.apply(&subscription).await;
    let csv = |name: &str, package: &str, labels: &Value| {
        let metadata = json!({"annotations": properties(package), "labels": labels});
        let spec = json!({"displayName": package, "install": {"strategy": "deployment"}});
        olm("ClusterServiceVersion", name, &metadata, &spec)
    };
    platform.apply(&csv("sand.v1", "sand", &json!({}))).await;
    // A copy of a CSV in another namespace manages no package.
    let copied = json!({"olm.copiedFrom": "elsewhere"});
    platform.world.apply(&csv("reef.v1", "reef", &copied)).await;
    let stranger = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "metadata": {"name": "moon"},
        "spec": {"provisionerClassName": "example.com-other", "template": {"spec": {
            "provisionerClassName": "example.com-other",
            "source": {"type": "image", "image": {"ref": "example.com/theirs:v1"}},
        }}},
    });
    platform.world.apply(&stranger).await;
    for package in ["tide", "surf", "moon", "sand", "reef", "gull"] {
        platform.want(json!({"package": {"name": package}})).await;
    }
    wait_for(platform.operators(), "tide", "there", |_| Some(())).await;
    // The creation times differ by a second, so that one operator is first.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let tide = json!({"package": {"name": "tide"}});
    platform.want_as("second", tide).await;
    let _provisioner = platform.start().await;

    platform.has("tide", "1.0.0").await;
    platform.succeeds("tide", "Successfully applied").await;
    let tide = platform.operators().get("tide").await.unwrap();
    assert_eq!(tide.active_instance(), Some("tide"));
    let chosen = tide.status.unwrap().chosen_bundle.unwrap();
    assert_eq!(chosen.name, "tide.v1.0.0");
    platform.has("reef", "1.0.0").await;
    for (name, reason, part) in tests::rows![
        "second", "SourceFailed" => "package tide already belongs to PlatformOperator tide; delete PlatformOperator \
                                     tide or second";
        "surf", "SourceFailed" => "package surf is managed by OLM (Subscription catalogs/mine)";
        "sand", "SourceFailed" => "package sand is managed by OLM (ClusterServiceVersion catalogs/sand.v1)";
        "gull", "UnpackFailed" => "does not support the AllNamespaces install mode";
        "moon", "InstallFailed" => "BundleInstance moon already exists and does not belong to this PlatformOperator";
    ] {
        platform.becomes(name, "False", reason, part).await;
    }
    let instances = platform.instances();
    let theirs = instances.get("moon").await.unwrap();
    assert!(theirs.owner_references().is_empty());
    assert_eq!(theirs.spec.provisioner_class_name, "example.com-other");
    for name in ["second", "surf", "sand"] {
        assert!(instances.get_opt(name).await.unwrap().is_none(), "{name}");
    }

    // A package without an owner is installed.
    remove(&platform, "Subscription", "mine").await;
    remove(&platform, "ClusterServiceVersion", "sand.v1").await;
    platform.delete::<BundleInstance>("moon").await;
    for name in ["surf", "sand", "moon"] {
        platform.has(name, "1.0.0").await;
    }
    changes_of_others_are_repaired(&platform).await;
    deleted_operator_removes_its_objects(&platform).await;
    server.stop().await;
}

/// Fields of the operator are repaired. Fields that an admin adds stay.
async fn changes_of_others_are_repaired(platform: &Platform) {
    let digest = format!("sha256:{}", "1".repeat(64));
    let entry =
        |reason: &str| json!({"constraint": "minKubeVersion", "digest": digest, "reason": reason});
    let surf = platform.instances().get("surf").await.unwrap();
    let was = surf.spec.template.spec.source.image.unwrap().reference;
    // Without its label and without the recorded choice.
    let patch = json!({
        "metadata": {
            "labels": {labels::PLATFORM_OPERATOR: null}, "annotations": {labels::CHOSEN_BUNDLE: null, "mine": "x"},
        },
        "spec": {
            "overrides": [entry("mine")],
            "template": {"spec": {"source": {"image": {"ref": "127.0.0.1:1/other:v1"}}}},
        },
    });
    platform.patch::<BundleInstance>("surf", patch).await;
    wait_for(platform.instances(), "surf", "as declared", |instance| {
        let source = instance.spec.template.spec.source.image.as_ref()?;
        let is_back = source.reference == was
            && instance.labels().contains_key(labels::PLATFORM_OPERATOR)
            && instance.annotations().contains_key(labels::CHOSEN_BUNDLE);
        is_back.then_some(())
    })
    .await;
    let repaired = platform.instances().get("surf").await.unwrap();
    assert!(repaired.annotations().contains_key("mine"));
    assert_eq!(repaired.spec.overrides.len(), 1);

    // Overrides of the operator are copied to the instance, and removed again.
    let to_patch = |overrides: Value| json!({"spec": {"bundle": {"overrides": overrides}}});
    for (overrides, expected) in [(json!([entry("ours")]), 1), (json!([]), 0)] {
        let patch = to_patch(overrides);
        platform.patch::<PlatformOperator>("sand", patch).await;
        wait_for(platform.instances(), "sand", "as said", |instance| {
            (instance.spec.overrides.len() == expected).then_some(())
        })
        .await;
    }
}

async fn deleted_operator_removes_its_objects(platform: &Platform) {
    let deployments: Api<Deployment> = Api::all(platform.world.client());
    let has = async |name: &str| {
        let all = list(&deployments).await;
        let name = format!("{name}-operator");
        all.iter().any(|deployment| deployment.name_any() == name)
    };
    assert!(has("tide").await && has("moon").await);
    let crds: Api<CustomResourceDefinition> = platform.world.api();
    // Foreground deletion waits for the objects.
    let (operators, params) = (platform.operators(), DeleteParams::foreground());
    operators.delete("moon", &params).await.unwrap();
    wait_deleted(operators, "moon").await;
    wait_deleted(platform.instances(), "moon").await;
    wait_deleted(crds, "widgets.moon.example.com").await;
    assert!(!has("moon").await);
    // The package is free, and the operator that waited gets the package.
    platform.delete::<PlatformOperator>("tide").await;
    platform.has("second", "1.0.0").await;
    wait_deleted(platform.instances(), "tide").await;
    let has_tide = async || has("tide").await;
    until("tide of the second operator", has_tide, |has| *has).await;
}

/// Publishes an operator that requires a namespace without other operators.
async fn own_namespace(platform: &Platform, name: &str) -> String {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v1.0.0")},
        "spec": {
            "displayName": name, "version": "1.0.0",
            "installModes": [
                {"type": "OwnNamespace", "supported": true},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": false},
            ],
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
        },
    });
    let content = operator(name, "1.0.0", &[("manifests/csv.yaml", csv)]);
    platform.push(&format!("{name}:own"), &content).await
}
