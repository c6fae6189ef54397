//! `rukpak content`.

use std::fs;

use crate::world::{plain, text, unique, world};

// parity: platform-18, k4
#[tokio::test(flavor = "multi_thread")]
async fn content_is_printed_and_written() {
    let world = world().await;
    let name = unique("content");
    let second = format!("{name}-b");
    let bundle = plain(&[&name, &second], "one");
    world.ok(&format!("install {name} {}", text(&bundle)));
    let installed = world.instances().get(&name).await.unwrap();
    let installed = installed.status.unwrap().installed_bundle_name.unwrap();

    let run = world.ok(&format!("content {installed}"));
    let maps = manifests::yaml::documents(run.out.as_bytes()).map(Result::unwrap);
    let maps = maps.filter(|it| it["kind"] == "ConfigMap");
    let names: Vec<String> = maps
        .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, [second, name.clone()], "{run:?}");

    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("bundle");
    let to = to.to_str().unwrap();
    world.ok(&format!("content {installed} --original -o {to}"));
    let read = |root: &str| fs::read(format!("{root}/manifests/{name}.yaml")).unwrap();
    assert_eq!(read(to), read(text(&bundle)));

    // The name of the instance is the wrong one, and the right one is told.
    world
        .fail(&format!("content {name}"))
        .says("content command failed")
        .says(&format!("bundles.core.rukpak.io \"{name}\" not found"))
        .says(&installed);
    world.remove(&name);
}

// parity: k5
#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_content_says_why() {
    let world = world().await;
    world
        .fail("content badname")
        .says("content command failed: bundles.core.rukpak.io \"badname\" not found");
    let name = unique("empty");
    let image = world.registry.image("nowhere:v1");
    world.fail(&format!("install {name} {image} --tls-verify=false"));
    let bundles = world
        .bundles()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let bundle = bundles
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .find(|it| it.starts_with(&name))
        .unwrap();
    world
        .fail(&format!("content {bundle}"))
        .says("content command failed: error: url is not available")
        .says("is Failing");
    world.remove(&name);
}
