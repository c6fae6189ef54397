//! Whose a package is, whose a BundleInstance is, and what comes back when somebody meddles.

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::DeleteParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::api::{instance::BundleInstance, labels, platform::PlatformOperator};
use serde_json::{Value, json};

use super::stage::{Platform, packages};
use crate::{
    aggregator::define,
    support::{delete, gone, list, operator, until, wait_for},
};

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
async fn a_package_and_an_instance_belong_to_one_alone() {
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
    // All of this is there before the provisioner is, which must not be quicker than what it has to know.
    let wanted = json!({"name": "surf", "source": "mine", "sourceNamespace": "catalogs"});
    let subscription = olm("Subscription", "mine", &json!({}), &wanted);
    platform.world.apply(&subscription).await;
    let csv = |name: &str, package: &str, labels: &Value| {
        let metadata = json!({"annotations": properties(package), "labels": labels});
        let spec = json!({"displayName": package, "install": {"strategy": "deployment"}});
        olm("ClusterServiceVersion", name, &metadata, &spec)
    };
    platform.apply(&csv("sand.v1", "sand", &json!({}))).await;
    // The copy of one in another namespace manages nothing.
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
    // Created in another second, so that there is a first one.
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
    for (name, reason, words) in tests::rows![
        "second", "SourceFailed" => "package tide already belongs to PlatformOperator tide; delete PlatformOperator \
                                     tide or second";
        "surf", "SourceFailed" => "package surf is managed by OLM (Subscription catalogs/mine)";
        "sand", "SourceFailed" => "package sand is managed by OLM (ClusterServiceVersion catalogs/sand.v1)";
        "gull", "UnpackFailed" => "does not support the AllNamespaces install mode";
        "moon", "InstallFailed" => "BundleInstance moon already exists and does not belong to this PlatformOperator";
    ] {
        platform.becomes(name, "False", reason, words).await;
    }
    let instances = platform.instances();
    let theirs = instances.get("moon").await.unwrap();
    assert!(theirs.owner_references().is_empty());
    assert_eq!(theirs.spec.provisioner_class_name, "example.com-other");
    for name in ["second", "surf", "sand"] {
        assert!(instances.get_opt(name).await.unwrap().is_none(), "{name}");
    }

    // What is free is taken.
    remove(&platform, "Subscription", "mine").await;
    remove(&platform, "ClusterServiceVersion", "sand.v1").await;
    platform.delete::<BundleInstance>("moon").await;
    for name in ["surf", "sand", "moon"] {
        platform.has(name, "1.0.0").await;
    }
    meddling_is_undone(&platform).await;
    an_operator_goes_with_all_it_has_installed(&platform).await;
    server.stop().await;
}

/// What is the operator's to say comes back; what an admin says besides stays.
async fn meddling_is_undone(platform: &Platform) {
    let digest = format!("sha256:{}", "1".repeat(64));
    let entry =
        |reason: &str| json!({"constraint": "minKubeVersion", "digest": digest, "reason": reason});
    let surf = platform.instances().get("surf").await.unwrap();
    let was = surf.spec.template.spec.source.image.unwrap().reference;
    // Without its label and without a word of what was chosen.
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
    wait_for(platform.instances(), "surf", "as declared", |it| {
        let source = it.spec.template.spec.source.image.as_ref()?;
        let is_back = source.reference == was
            && it.labels().contains_key(labels::PLATFORM_OPERATOR)
            && it.annotations().contains_key(labels::CHOSEN_BUNDLE);
        is_back.then_some(())
    })
    .await;
    let kept = platform.instances().get("surf").await.unwrap();
    assert!(kept.annotations().contains_key("mine"));
    assert_eq!(kept.spec.overrides.len(), 1);

    // What the operator says goes into the instance, and leaves it again.
    let says = |overrides: Value| json!({"spec": {"bundle": {"overrides": overrides}}});
    for (overrides, expected) in [(json!([entry("ours")]), 1), (json!([]), 0)] {
        let patch = says(overrides);
        platform.patch::<PlatformOperator>("sand", patch).await;
        wait_for(platform.instances(), "sand", "as said", |it| {
            (it.spec.overrides.len() == expected).then_some(())
        })
        .await;
    }
}

async fn an_operator_goes_with_all_it_has_installed(platform: &Platform) {
    let deployments: Api<Deployment> = Api::all(platform.world.client());
    let has = async |name: &str| {
        let all = list(&deployments).await;
        let name = format!("{name}-operator");
        all.iter().any(|it| it.name_any() == name)
    };
    assert!(has("tide").await && has("moon").await);
    let definitions: Api<CustomResourceDefinition> = platform.world.api();
    // Whoever waits for the end of what is deleted gets it, too.
    let (operators, params) = (platform.operators(), DeleteParams::foreground());
    operators.delete("moon", &params).await.unwrap();
    gone(operators, "moon").await;
    gone(platform.instances(), "moon").await;
    gone(definitions, "widgets.moon.example.com").await;
    assert!(!has("moon").await);
    // The package is free, and the one that waited has it.
    platform.delete::<PlatformOperator>("tide").await;
    platform.has("second", "1.0.0").await;
    gone(platform.instances(), "tide").await;
    let has_tide = async || has("tide").await;
    until("tide of the second operator", has_tide, |has| *has).await;
}

/// Publishes an operator that wants a namespace to itself.
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
