//! What comes from clusters is somebody's text.

use std::{
    io::Read as _,
    process::{Command, Stdio},
};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{plain, text, unique, world};

/// Writes a status that no provisioner would write, to an instance that is none of ours.
async fn disguised(name: &str, status: Value) {
    let world = world().await;
    world
        .apply(&json!({
            "apiVersion": "core.rukpak.io/v1alpha1",
            "kind": "BundleInstance",
            "metadata": {"name": name},
            "spec": {
                "provisionerClassName": "somebody-elses",
                "template": {"spec": {"source": {"type": "upload", "upload": {}}}},
            },
        }))
        .await;
    // After the provisioner's own, that nobody serves the class.
    crate::world::eventually("looked at", async || {
        let instance = world.instances().get(name).await.unwrap();
        instance
            .status
            .map(|_| ())
            .ok_or_else(|| "no status".to_owned())
    })
    .await;
    let patch = json!({"status": status});
    world
        .instances()
        .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_cluster_moves_the_cursor() {
    let world = world().await;
    let name = unique("escape");
    let evil = "\u{1b}[2J\u{7}\u{9b}31m evil\r\nsecond\u{8} line";
    disguised(
        &name,
        json!({
            "version": evil,
            "installedBundleName": "x\u{1b}c",
            "installNamespace": evil,
            "waiting": [evil],
            "released": [evil],
            "inventory": {"count": 2, "kinds": [
                {"apiVersion": "v1", "kind": "Config\u{1b}Map", "objects": ["a\u{1b}[1m/b"]},
            ]},
            "conditions": [
                condition("Installed", "False", "InstallFailed", evil),
                condition("Healthy", "False", "Unhealthy", "(v1, Kind=Pod)(a/b): \u{1b}[31m"),
            ],
        }),
    )
    .await;
    for args in [
        &["status", &name][..],
        &["status"],
        &["status", &name, "--all"],
    ] {
        let run = world.ok(args);
        assert!(run.out.contains("evil"), "{run:?}");
        let bad = |c: char| c.is_control() && c != '\n';
        assert!(!run.out.contains(bad) && !run.err.contains(bad), "{run:?}");
    }
    // For programs every character is there, as JSON writes it.
    let summary = world.ok(&format!("status {name} -o json"));
    assert_eq!(summary.json()["version"], evil);
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_status_is_told_in_short() {
    let world = world().await;
    let name = unique("huge");
    let objects: Vec<String> = (0..4000).map(|at| format!("default/map-{at} -")).collect();
    disguised(
        &name,
        json!({
            "installedBundleName": "x",
            "inventory": {"count": 9000, "more": 2, "kinds": [
                {"apiVersion": "v1", "kind": "ConfigMap", "objects": objects},
            ]},
            "waiting": vec!["Thing example.com/v1 a/b"; 500],
            "conditions": [
                condition("Healthy", "False", "Unhealthy", "(v1, Kind=ConfigMap)(default/map-77): is odd\nand 5 more objects"),
            ],
        }),
    )
    .await;
    let run = world.ok(&format!("status {name}"));
    assert!(run.out.lines().count() < 100, "{}", run.out);
    assert!(
        run.out.contains("✗ ConfigMap default/map-77: is odd"),
        "{}",
        run.out
    );
    assert!(run.out.contains("? ConfigMap: 3999"), "{}", run.out);
    assert!(run.out.contains("and 5000 more"), "{}", run.out);
    let all = world.ok(&format!("status {name} --all"));
    assert!(all.out.lines().count() > 4000);
    let json = world.ok(&format!("status {name} -o json")).json();
    assert_eq!(json["objects"].as_array().unwrap().len(), 4000);

    // Whoever has seen enough closes the pipe.
    let mut child = world
        .command(world.cluster.kubeconfig_path(), &["status", &name, "--all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{error}");
    assert_eq!(error, "");
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_service_is_believed() {
    // A server with TLS, and a certificate of somebody else: the apiserver itself.
    let world = world().await;
    let name = unique("believed");
    let bundle = plain(&[&name], "one");
    let server = world.cluster.config().cluster_url.to_string();
    let output = Command::new(crate::world::binary())
        .args([
            "install",
            &name,
            text(&bundle),
            "--content-address",
            &server,
        ])
        .arg("--kubeconfig")
        .arg(world.cluster.kubeconfig_path())
        .output();
    crate::world::Run::from(output.unwrap())
        .exits(1)
        .says("the content service cannot be believed");
    world.remove(&name);
}
