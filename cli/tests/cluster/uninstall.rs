//! `rukpak uninstall`.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::world::{plain, text, unique, world};

/// A plain bundle with a definition, and a resource of it, which is the bundle's own.
fn definition(name: &str) -> TempDir {
    let bundle = plain(&[name], "one");
    let group = format!("{name}.example.com");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("tides.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": "Tide", "listKind": "TideList", "plural": "tides", "singular": "tide"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    fs::write(
        bundle.path().join("manifests/definition.yaml"),
        definition.to_string(),
    )
    .unwrap();
    bundle
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_not_lost_without_a_yes() {
    let world = world().await;
    let name = unique("crd");
    let bundle = definition(&name);
    world.run(&["install", &name, text(&bundle)]).exits(0);
    world
        .apply(&json!({
            "apiVersion": format!("{name}.example.com/v1"),
            "kind": "Tide",
            "metadata": {"name": "high", "namespace": "default"},
        }))
        .await;
    let stays = format!("CustomResourceDefinition tides.{name}.example.com");
    world
        .run(&["uninstall", &name, "--crd-deletion-policy", "delete"])
        .exits(1)
        .says(&format!("{stays} goes, and 1 custom resource with it"))
        .says("agree with --yes");
    let policy = |policy| kube::api::Patch::Merge(json!({"spec": {"crdDeletionPolicy": policy}}));
    let instances = world.instances();
    let params = kube::api::PatchParams::default();
    instances
        .patch(&name, &params, &policy("Delete"))
        .await
        .unwrap();
    world
        .run(&["uninstall", &name, "--cascade", "foreground"])
        .exits(1)
        .says("agree with --yes");
    instances
        .patch(&name, &params, &policy("DeleteIfUnused"))
        .await
        .unwrap();
    world
        .run(&["uninstall", &name, "--dry-run=server"])
        .exits(0)
        .says(&format!("{stays} stays, with 1 custom resource"));
    let instance = world.instances().get(&name).await.unwrap();
    assert_eq!(instance.metadata.deletion_timestamp, None);
    let run = world.run(&["uninstall", &name]).exits(0);
    assert_eq!(
        run.out,
        format!("bundleinstance.core.rukpak.io/{name} deleted\n")
    );
    run.says(&format!("{stays} has stayed"));

    // It is taken up again, and goes with everything at last.
    world.run(&["install", &name, text(&bundle)]).exits(0);
    let run = world
        .run(&[
            "uninstall",
            &name,
            "--crd-deletion-policy",
            "delete",
            "--yes",
        ])
        .exits(0);
    assert!(!run.err.contains("has stayed"), "{run:?}");
    world.run(&["uninstall", &name]).exits(1).says("not found");
    world
        .run(&["uninstall", &name, "--ignore-not-found"])
        .exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_can_be_left_in_the_cluster() {
    let world = world().await;
    let name = unique("orphan");
    let bundle = plain(&[&name], "one");
    world.run(&["install", &name, text(&bundle)]).exits(0);
    world
        .run(&["uninstall", &name, "--cascade", "orphan"])
        .exits(0)
        .says("all objects stay in the cluster");
    // What the garbage collector makes of it is tried in the provisioner's tests.
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_a_removal_up_is_told() {
    let world = world().await;
    let name = unique("held");
    let bundle = plain(&[&name], "one");
    world.run(&["install", &name, text(&bundle)]).exits(0);
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
        world.cluster.client().unwrap(),
        "default",
    );
    let hold = |finalizers| {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        kube::api::Patch::Merge(patch)
    };
    let params = kube::api::PatchParams::default();
    maps.patch(&name, &params, &hold(json!(["example.com/hold"])))
        .await
        .unwrap();
    world
        .run(&["uninstall", &name, "--timeout", "3s"])
        .exits(1)
        .says("is still there after 3s")
        .says("example.com/hold");
    maps.patch(&name, &params, &hold(json!(null)))
        .await
        .unwrap();
    world
        .run(&["uninstall", &name, "--ignore-not-found"])
        .exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_platform_operator_would_make_anew_is_not_deleted() {
    let world = world().await;
    let name = unique("platform");
    let [operators, _] = manifests::api::definitions::foreign();
    world
        .apply(&serde_json::to_value(&operators).unwrap())
        .await;
    let definition = operators.metadata.name.unwrap();
    world.cluster.wait_established(&definition).await.unwrap();
    world
        .apply(&json!({
            "apiVersion": "platform.openshift.io/v1alpha1",
            "kind": "PlatformOperator",
            "metadata": {"name": name},
            "spec": {"package": {"name": name}},
        }))
        .await;
    let client = world.cluster.client().unwrap();
    let operators = kube::Api::<manifests::api::platform::PlatformOperator>::all(client);
    let operator = operators.get(&name).await.unwrap();
    world
        .apply(&json!({
            "apiVersion": "core.rukpak.io/v1alpha1",
            "kind": "BundleInstance",
            "metadata": {"name": name, "ownerReferences": [{
                "apiVersion": "platform.openshift.io/v1alpha1",
                "kind": "PlatformOperator",
                "name": name,
                "uid": operator.metadata.uid,
            }]},
            "spec": {
                "provisionerClassName": "core-rukpak-io-plain",
                "template": {"spec": {"source": {"type": "upload", "upload": {}}}},
            },
        }))
        .await;
    world
        .run(&["uninstall", &name])
        .exits(1)
        .says("which would make it anew; nothing was deleted")
        .says(&format!("kubectl delete platformoperator {name}"));
    let instance = world.instances().get(&name).await.unwrap();
    assert_eq!(instance.metadata.deletion_timestamp, None);
    let params = kube::api::DeleteParams::default();
    operators.delete(&name, &params).await.unwrap();
}
