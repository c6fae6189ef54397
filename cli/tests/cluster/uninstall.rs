//! `rukpak uninstall`.

use std::fs;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{World, definition, plain, text, unique, world};

// parity: rukpak-41
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_deleted_only_after_confirmation() {
    let world = world().await;
    let name = unique("crd");
    let bundle = plain(&[&name], "one");
    let file = bundle.path().join("manifests/definition.yaml");
    fs::write(&file, definition(&name).to_string()).unwrap();
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
    let policy = |policy| json!({"spec": {"crdDeletionPolicy": policy}});
    world.patch(&name, policy("Delete")).await;
    world
        .fail(&format!("uninstall {name} --cascade foreground"))
        .says("agree with --yes");
    world.patch(&name, policy("DeleteIfUnused")).await;
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

    // The next instance adopts the definition; its removal deletes everything.
    world.ok(&format!("install {name} {}", text(&bundle)));
    let run = world.ok(&format!(
        "uninstall {name} --crd-deletion-policy delete --yes"
    ));
    assert!(!run.err.contains("has stayed"), "{run:?}");
    world.fail(&format!("uninstall {name}")).says("not found");
    world.ok(&format!("uninstall {name} --ignore-not-found"));
    fs::remove_file(&file).unwrap();
    removal_that_is_held_up_is_reported(world, &name, &bundle).await;

    world.ok(&format!("install {name} {}", text(&bundle)));
    world
        .ok(&format!("uninstall {name} --cascade orphan"))
        .says("all objects stay in the cluster");
    // What the garbage collector makes of it is tried in the provisioner's tests.
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
}

async fn removal_that_is_held_up_is_reported(world: &World, name: &str, bundle: &TempDir) {
    world.ok(&format!("install {name} {}", text(bundle)));
    let (maps, params) = (world.maps(), PatchParams::default());
    let hold = async |finalizers: Value| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        maps.patch(name, &params, &patch).await.unwrap();
    };
    hold(json!(["example.com/hold"])).await;
    world
        .fail(&format!("uninstall {name} --timeout 3s"))
        .says("is still there after 3s")
        .says("example.com/hold");
    hold(Value::Null).await;
    world.ok(&format!("uninstall {name} --ignore-not-found"));
}
