//! `rukpak status`.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::world::{plain, text, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_told_as_a_tree_and_to_programs() {
    let world = world().await;
    let name = unique("tree");
    let bundle = plain(&[&name, &format!("{name}-b")], "one");
    world.ok(&format!("install {name} {}", text(&bundle)));
    let installed = world.instances().get(&name).await.unwrap();
    let installed = installed.status.unwrap().installed_bundle_name.unwrap();
    let run = world.ok(&format!("status {name}"));
    assert_eq!(
        run.out,
        format!(
            "BundleInstance {name} in default: Ready, installed, healthy\n\
             ├─ Bundle {installed} Unpacked, installed\n\
             │  └─ from upload\n\
             └─ 2 objects\n   \
                ├─ ✓ ConfigMap default/{name}\n   \
                └─ ✓ ConfigMap default/{name}-b\n"
        )
    );
    let summary = world.ok(&format!("status {name} -o json")).json();
    assert_eq!(summary["healthy"], true);
    assert_eq!(summary["phase"], "Ready");
    assert_eq!(summary["rollout"], serde_json::Value::Null);
    assert_eq!(summary["objects"][0]["name"], name);
    assert_eq!(summary["bundles"][0]["name"], installed);
    let all = world.ok("status -o json").json();
    let names = all.as_array().unwrap().iter().map(|it| &it["name"]);
    assert!({ names }.any(|it| *it == name));
    let table = world.ok("status").out;
    assert!(table.starts_with("NAME "), "{table}");
    let row = table.lines().find(|line| line.starts_with(&name)).unwrap();
    assert!(
        row.contains("installed") && row.contains(&installed),
        "{row}"
    );
    world.remove(&name);
    world.fail(&format!("status {name}")).says(&format!(
        "bundleinstances.core.rukpak.io \"{name}\" not found"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_problem_is_told_with_its_remedy() {
    let world = world().await;
    let name = unique("problem");
    let image = world.registry.image("nowhere:v1");
    world.fail(&format!("install {name} {image} --tls-verify=false"));
    let run = world.ok(&format!("status {name}"));
    assert!(
        run.out
            .contains("no good bundle, nothing is in the cluster"),
        "{run:?}"
    );
    assert!(run.out.contains("─ UnpackFailed: "), "{run:?}");
    let summary = world.ok(&format!("status {name} -o yaml"));
    assert!(summary.out.contains("reason: UnpackFailed"), "{summary:?}");
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_followed_to_the_end() {
    let world = world().await;
    let name = unique("follow");
    let bundle = plain(&[&name], "one");
    let mut child = world
        .command(
            world.cluster.kubeconfig_path(),
            &["status", &name, "--watch"],
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let found = lines.find(|line| line.as_ref().unwrap().contains(text));
        found.unwrap().unwrap();
    };
    wait_for("gone");
    world.ok(&format!("install {name} {}", text(&bundle)));
    wait_for("installed  yes");
    world.remove(&name);
    wait_for("gone");
    child.kill().unwrap();
    child.wait().unwrap();
}
