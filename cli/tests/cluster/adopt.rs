//! `rukpak adopt`.

use kube::api::{Patch, PatchParams};
use manifests::api::labels;
use serde_json::{Value, json};

use crate::environment::{Rukpak as _, Run, eventually, plain, text, unique, world};

// parity: rukpak-43
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_tools_are_adopted_with_their_fields() {
    let world = world().await;
    let name = unique("adopt");
    let maps = world.maps();
    let apply = async |manager: &str, annotations: Value, data: Value| {
        let metadata = json!({"name": name, "annotations": annotations});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        let (params, patch) = (PatchParams::apply(manager), Patch::Apply(object));
        maps.patch(&name, &params, &patch).await.unwrap();
    };
    let release =
        json!({"meta.helm.sh/release-name": "tides", "meta.helm.sh/release-namespace": "sea"});
    apply("helm", release, json!({"text": "old", "left": "over"})).await;
    // A field of another manager that is not a deployment tool.
    apply("injector", json!({}), json!({"injected": "yes"})).await;

    let dir = plain(&[&name], "new");
    let bundle = text(&dir);
    tests::assert_runs! { world;
        "install {name} {bundle}" => 1, "", "the Helm release sea/tides";
        "adopt {name} --dry-run=server" => 0, [
            "ConfigMap default/{name} belongs to the Helm release sea/tides\n",
            "fields of helm are transferred to the bundle\n", ".data.left", "-  text: old\n+  text: new\n",
            "1 object: annotated for adoption (server dry run)\n"
        ];
        "adopt {name} --dry-run=server --field-manager injector" => 0, [".data.injected"];
        "adopt {name}" => 1, _, "use --yes to confirm";
    }
    let dry = world.ok(&format!("adopt {name} --dry-run=server"));
    dry.out_lacks(".data.injected");
    assert_eq!(maps.get(&name).await.unwrap().data.unwrap()["text"], "old");

    // A reader that closes the pipe early does not prevent the adoption.
    let mut child = world.spawn(&format!("adopt {name} --yes"));
    drop(child.stdout.take());
    Run::from(child.wait_with_output().unwrap()).exits(0);
    eventually("adopted", async || {
        let data = json!(maps.get(&name).await.unwrap().data);
        let is_adopted = data == json!({"text": "new", "injected": "yes"});
        is_adopted.then_some(()).ok_or_else(|| data.to_string())
    })
    .await;
    tests::assert_runs! { world;
        "install {name} {bundle}" => 0, _;
        "adopt {name}" => 0, _, "no objects to adopt for BundleInstance";
    }
    let instance = world.instances().get(&name).await.unwrap();
    let annotations = instance.metadata.annotations.unwrap();
    assert!(annotations.contains_key(labels::RETRY));
    assert_eq!(instance.metadata.generation, Some(1), "it was not paused");

    let other = unique("other");
    tests::assert_runs! { world;
        "install {other} {bundle}" => 1, _;
        "adopt {other} --yes" => 1, _, "ConfigMap default/{name} belongs to BundleInstance {name}";
        "adopt no-such --yes" => 1, _, "not found";
    }
    world.remove(&other);
    world.remove(&name);
}
