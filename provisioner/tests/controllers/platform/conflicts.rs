//! Owners of packages and BundleInstances, and repairs of changes by other clients.

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::DeleteParams;

use super::support::{Platform, packages};
use super::*;
use crate::cluster_operator::{csv, define, olm_api, olm_object};
use crate::support::{image, instance};

// parity: platform-7, platform-8, openshift-3, openshift-8, openshift-9, openshift-10, openshift-11, openshift-16
#[tokio::test]
async fn package_and_instance_have_exactly_one_owner() {
    let platform = Platform::new().await;
    for plural in ["subscriptions", "clusterserviceversions"] {
        define(platform.world.cluster, plural).await;
    }
    let mut all = Vec::new();
    for name in ["tide", "surf", "moon", "sand", "gull"] {
        all.push((name, platform.bundles(name, &["1.0.0"]).await));
    }
    // It requires a namespace without other operators.
    let modes = json!([{"type": "OwnNamespace", "supported": true}]);
    let own = |csv: &mut Value| csv["spec"]["installModes"] = modes;
    all[4].1[0] = platform.push_changed("gull", "1.0.0", own).await;
    let _server = platform.serve_mine(&packages(&all)).await;
    // All of these exist before the provisioner starts, so that it cannot act before it has read them.
    let spec = json!({"name": "surf", "source": "mine", "sourceNamespace": "catalogs"});
    let subscription = olm_object("Subscription", ("catalogs", "mine"), &spec);
    let sand = csv(("catalogs", "sand.v1"), "sand", &[]);
    for object in [subscription, sand] {
        platform.world.apply(&object).await;
    }
    let mut theirs = instance("moon", "plain", image("example.com/theirs:v1"));
    theirs.spec.provisioner_class_name = "example.com-other".to_owned();
    platform.world.create(&theirs).await;
    for (package, _) in &all {
        let spec = json!({"package": {"name": package}});
        platform.declare(spec).await;
    }
    // The creation times differ by a second, so that one operator is first.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let tide = json!({"package": {"name": "tide"}});
    platform.declare_as("second", tide).await;
    let _provisioner = platform.start().await;

    platform.has("tide", "1.0.0").await;
    platform.succeeds("tide", "Successfully applied").await;
    let tide = platform.operators().get("tide").await.unwrap();
    assert_eq!(tide.active_instance(), Some("tide"));
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
    let csv = ("ClusterServiceVersion", "sand.v1");
    for (kind, name) in [("Subscription", "mine"), csv] {
        delete(&olm_api(&platform, "catalogs", kind), name).await;
    }
    delete(&instances, "moon").await;
    for name in ["surf", "sand", "moon"] {
        platform.has(name, "1.0.0").await;
    }
    changes_of_others_are_repaired(&platform).await;

    // A deleted operator removes its objects.
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
    wait_deleted(operators.clone(), "moon").await;
    wait_deleted(platform.instances(), "moon").await;
    wait_deleted(crds, "widgets.moon.example.com").await;
    assert!(!has("moon").await);
    // The package is free, and the operator that waited gets the package.
    delete(&operators, "tide").await;
    platform.has("second", "1.0.0").await;
    wait_deleted(platform.instances(), "tide").await;
    let has_tide = async || has("tide").await;
    until("tide of the second operator", has_tide, |has| *has).await;
}

/// Fields of the operator are repaired. Fields that an admin adds are kept.
async fn changes_of_others_are_repaired(platform: &Platform) {
    let digest = format!("sha256:{}", "1".repeat(64));
    let entry = json!({"constraint": "minKubeVersion", "digest": digest, "reason": "mine"});
    let instances = platform.instances();
    let template = instances.get("surf").await.unwrap().spec.template;
    // The label, the recorded choice, the template, and fields of the admin.
    let object = |label: Value, choice: Value, template: Value| {
        let annotations = json!({labels::CHOSEN_BUNDLE: choice, "mine": "x"});
        let labels = json!({labels::PLATFORM_OPERATOR: label});
        let metadata = json!({"labels": labels, "annotations": annotations});
        json!({"metadata": metadata, "spec": {"overrides": [entry], "template": template}})
    };
    let other = json!({"spec": {"source": {"image": {"ref": "127.0.0.1:1/other:v1"}}}});
    merge(&instances, "surf", &object(Value::Null, Value::Null, other)).await;
    let expected = object("surf".into(), "*".into(), json!(template));
    let repaired = wait_part(instances, "surf", expected).await;
    assert_eq!(repaired.spec.template, template);
    assert_eq!(repaired.spec.overrides.len(), 1);
}
