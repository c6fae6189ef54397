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

// parity: rukpak-41
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_not_lost_without_a_yes() {
    let world = world().await;
    let name = unique("crd");
    let bundle = definition(&name);
    world.ok(&format!("install {name} {}", text(&bundle)));
    world
        .apply(&json!({
            "apiVersion": format!("{name}.example.com/v1"),
            "kind": "Tide",
            "metadata": {"name": "high", "namespace": "default"},
        }))
        .await;
    let stays = format!("CustomResourceDefinition tides.{name}.example.com");
    world
        .fail(&format!("uninstall {name} --crd-deletion-policy delete"))
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
        .fail(&format!("uninstall {name} --cascade foreground"))
        .says("agree with --yes");
    instances
        .patch(&name, &params, &policy("DeleteIfUnused"))
        .await
        .unwrap();
    world
        .ok(&format!("uninstall {name} --dry-run=server"))
        .says(&format!("{stays} stays, with 1 custom resource"));
    let instance = world.instances().get(&name).await.unwrap();
    assert_eq!(instance.metadata.deletion_timestamp, None);
    let run = world.ok(&format!("uninstall {name}"));
    assert_eq!(
        run.out,
        format!("bundleinstance.core.rukpak.io/{name} deleted\n")
    );
    run.says(&format!("{stays} has stayed"));

    // It is taken up again, and goes with everything at last.
    world.ok(&format!("install {name} {}", text(&bundle)));
    let run = world.ok(&format!(
        "uninstall {name} --crd-deletion-policy delete --yes"
    ));
    assert!(!run.err.contains("has stayed"), "{run:?}");
    world.fail(&format!("uninstall {name}")).says("not found");
    world.ok(&format!("uninstall {name} --ignore-not-found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_can_be_left_in_the_cluster() {
    let world = world().await;
    let name = unique("orphan");
    let bundle = plain(&[&name], "one");
    world.ok(&format!("install {name} {}", text(&bundle)));
    world
        .ok(&format!("uninstall {name} --cascade orphan"))
        .says("all objects stay in the cluster");
    // What the garbage collector makes of it is tried in the provisioner's tests.
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_a_removal_up_is_told() {
    let world = world().await;
    let name = unique("held");
    let bundle = plain(&[&name], "one");
    world.ok(&format!("install {name} {}", text(&bundle)));
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
        .fail(&format!("uninstall {name} --timeout 3s"))
        .says("is still there after 3s")
        .says("example.com/hold");
    maps.patch(&name, &params, &hold(json!(null)))
        .await
        .unwrap();
    world.ok(&format!("uninstall {name} --ignore-not-found"));
}
