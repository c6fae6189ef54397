//! `rukpak uninstall`.

use std::fs;

use kube::api::{Patch, PatchParams};
use manifests::api::bundle_instance::CrdDeletionPolicy;
use serde_json::{Value, json};

use crate::environment::{Rukpak as _, World, crd, plain, text, unique, world};

// parity: rukpak-41
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_deleted_only_after_confirmation() {
    let world = world().await;
    let name = unique("crd");
    let dir = plain(&[&name], "one");
    let bundle = text(&dir);
    let file = dir.path().join("manifests/crd.yaml");
    fs::write(&file, crd(&name).to_string()).unwrap();
    world.ok(&format!("install {name} {bundle}"));
    let tide = json!({
        "apiVersion": format!("{name}.example.com/v1"), "kind": "Tide",
        "metadata": {"name": "high", "namespace": "default"},
    });
    world.apply(tide).await;
    let crd = format!("CustomResourceDefinition tides.{name}.example.com");
    let policy = |policy: &str| json!({"spec": {"crdDeletionPolicy": policy}});
    world.patch(&name, policy("Delete")).await;
    tests::assert_runs! { world;
        "uninstall {name} --cascade foreground" => 1, "", "use --yes to confirm";
        "uninstall {name} --dry-run=server" => 0, _, "{crd} and 1 custom resource will be deleted";
    }
    tests::assert_rows!(world.instances().get(&name).await.unwrap().metadata.deletion_timestamp => None);
    world.patch(&name, policy("Retain")).await;
    rejected_deletion_keeps_the_policy(world, &name).await;
    let uninstall = format!("uninstall {name} --crd-deletion-policy delete");
    tests::assert_runs! { world; "{uninstall}" => 1, "", "{crd} and 1 custom resource will be deleted", "use --yes to confirm"; }
    let run = world.ok(&format!("{uninstall} --yes"));
    tests::assert_rows!(run.out => format!("bundleinstance.core.rukpak.io/{name} deleted\n"));
    run.err_lacks(" kept\n");
    tests::assert_runs! { world;
        "uninstall {name}" => 1, "", "not found";
        "uninstall {name} --ignore-not-found" => 0, _;
    }
    fs::remove_file(&file).unwrap();
    removal_that_is_held_up_is_reported(world, &name, bundle).await;

    tests::assert_runs! { world;
        "install {name} {bundle}" => 0, _;
        "uninstall {name} --cascade orphan" => 0, _, "all objects will be kept";
    }
    // The tests of the provisioner cover orphaned objects.
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
}

async fn rejected_deletion_keeps_the_policy(world: &World, name: &str) {
    let verbs = ["get", "list", "watch", "patch"];
    let rules = json!([{"apiGroups": ["core.rukpak.io"], "resources": ["bundleinstances"], "verbs": verbs}]);
    let version = "rbac.authorization.k8s.io/v1";
    world.apply(json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}))
        .await;
    let editor = world.kubeconfig(&unique("editor"), Some(name)).await;
    let editor = editor.path().display();
    tests::assert_runs! { world;
        "uninstall {name} --crd-deletion-policy delete --yes --kubeconfig {editor}"
            => 1, "", "failed to delete BundleInstance {name}", "is forbidden";
    }
    let spec = world.instances().get(name).await.unwrap().spec;
    assert_eq!(spec.crd_deletion_policy, CrdDeletionPolicy::Retain);
}

async fn removal_that_is_held_up_is_reported(world: &World, name: &str, bundle: &str) {
    world.ok(&format!("install {name} {bundle}"));
    let (maps, params) = (world.maps(), PatchParams::default());
    let hold = async |finalizers: Value| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        maps.patch(name, &params, &patch).await.unwrap();
    };
    hold(json!(["example.com/hold"])).await;
    tests::assert_runs! { world; "uninstall {name} --timeout 20s" => 1, "", "timed out after 20s", "example.com/hold"; }
    hold(Value::Null).await;
    world.ok(&format!("uninstall {name} --ignore-not-found"));
}
