//! `rukpak adopt`.

use kube::api::{Patch, PatchParams};
use manifests::api::labels;
use serde_json::json;

use crate::world::{eventually, plain, text, unique, world};

// parity: rukpak-43
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_tools_are_adopted_with_their_fields() {
    let world = world().await;
    let name = unique("adopt");
    let maps = world.maps();
    let map = |data| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "annotations": {"meta.helm.sh/release-name": "tides", "meta.helm.sh/release-namespace": "sea"},
            },
            "data": data,
        })
    };
    let params = PatchParams::apply("helm");
    let old = map(json!({"text": "old", "left": "over"}));
    maps.patch(&name, &params, &Patch::Apply(old))
        .await
        .unwrap();
    // Somebody else's, who is no deployer.
    let params = PatchParams::apply("injector");
    let injected = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"injected": "yes"},
    });
    maps.patch(&name, &params, &Patch::Apply(injected))
        .await
        .unwrap();

    let bundle = plain(&[&name], "new");
    world
        .fail(&format!("install {name} {}", text(&bundle)))
        .says("the Helm release sea/tides");
    let run = world.ok(&format!("adopt {name} --dry-run=server"));
    for line in [
        format!("ConfigMap default/{name} belongs to the Helm release sea/tides\n"),
        "fields of helm become the bundle's\n".to_owned(),
        ".data.left".to_owned(),
        "-  text: old\n+  text: new\n".to_owned(),
        "1 object: handed over (server dry run)\n".to_owned(),
    ] {
        run.out_has(line);
    }
    run.out_lacks(".data.injected");
    let named = format!("adopt {name} --dry-run=server --field-manager injector");
    let named = world.ok(&named);
    named.out_has(".data.injected");
    world
        .fail(&format!("adopt {name}"))
        .says("agree with --yes");
    let before = maps.get(&name).await.unwrap();
    assert_eq!(before.data.unwrap()["text"], "old");

    let run = world.ok(&format!("adopt {name} --yes"));
    assert!(run.out.ends_with("1 object: handed over\n"), "{run:?}");
    eventually("taken over", async || {
        let map = maps.get(&name).await.unwrap();
        let data = json!(map.data);
        if data == json!({"text": "new", "injected": "yes"}) {
            Ok(())
        } else {
            Err(data.to_string())
        }
    })
    .await;
    world.ok(&format!("install {name} {}", text(&bundle)));
    world
        .ok(&format!("adopt {name}"))
        .says("there is nothing for BundleInstance");
    let instance = world.instances().get(&name).await.unwrap();
    let annotations = instance.metadata.annotations.unwrap();
    assert!(annotations.contains_key(labels::RETRY));
    assert_eq!(instance.metadata.generation, Some(1), "it was not paused");

    let other = unique("other");
    world.fail(&format!("install {other} {}", text(&bundle)));
    world.fail(&format!("adopt {other} --yes")).says(&format!(
        "ConfigMap default/{name} belongs to BundleInstance {name}"
    ));
    world.fail("adopt no-such --yes").says("not found");
    world.remove(&other);
    world.remove(&name);
}
