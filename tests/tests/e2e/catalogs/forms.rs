//! The goals of the two forms of CatalogSources, as users see them: what they write, what they are answered, and what is
//! served then.

use std::{fs, process::Command};

use manifests::yaml;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{publish, source};
use crate::e2e::{
    day_0::MARKETPLACE,
    wait::{LONG, eventually},
    world::{SYSTEM, World, kubectl, world},
};

const POLICY: &str = "manifests/optional/catalogsource-deprecations.yaml";

/// Objects in a file.
fn file(objects: &[&Value]) -> NamedTempFile {
    let file = NamedTempFile::with_suffix(".yaml").unwrap();
    let texts: Vec<String> = objects.iter().map(ToString::to_string).collect();
    fs::write(file.path(), texts.join("\n---\n")).unwrap();
    file
}

/// What `kubectl apply` does with an object: whether it was taken, and what was said.
fn apply(world: &World, object: &Value, flags: &[&str]) -> (bool, String) {
    let file = file(&[object]);
    let mut command = Command::new("kubectl");
    command
        .args(["apply", "-f", file.path().to_str().unwrap()])
        .args(flags)
        .env("KUBECONFIG", world.cluster.kubeconfig_path());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // What it says is broken into lines of the terminal's width.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (output.status.success(), said)
}

#[tokio::test]
async fn deprecated_fields_of_a_catalog_source_work_and_warn_and_are_rewritten() {
    let world = world().await;
    let image = publish("tray:v1", "tray", &["1.0.0"]);
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let policy = format!("{policy}{POLICY}");
    kubectl(world.cluster, &["apply", "-f", &policy]);
    let spec = json!({"sourceType": "grpc", "image": image, "priority": -10});
    let legacy = source(SYSTEM, "tray", &spec);
    // A policy is not in force at once.
    eventually("a warning", LONG, async || {
        let (taken, said) = apply(world, &legacy, &["--dry-run=server"]);
        assert!(taken, "{said}");
        let warns = "sourceType, image: deprecated, write catalogImageSource instead";
        said.contains(warns).then_some(()).ok_or(said)
    })
    .await;
    assert!(apply(world, &legacy, &[]).0);
    let address = "tray.rukpak-system.svc:50051";
    world.served_at(SYSTEM, "tray", address).await;
    world.lists(SYSTEM, "tray", &["tray.v1.0.0"]).await;

    // As the warning says.
    let written = file(&[&legacy]);
    let mut convert = Command::new("rukpak");
    convert
        .args(["catalogsource", "convert", "-f"])
        .arg(written.path());
    let output = convert.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let renewed = yaml::documents(&output.stdout).next().unwrap().unwrap();
    let expected = json!({"catalogImageSource": {"catalogImage": image}, "priority": -10});
    assert_eq!(renewed["spec"], expected);
    let (taken, said) = apply(world, &renewed, &[]);
    assert!(taken && !said.contains("Warning"), "{said}");
    let stored = world.sources(SYSTEM).get("tray").await.unwrap();
    assert_eq!(serde_json::to_value(&stored.spec).unwrap(), expected);
    world.lists(SYSTEM, "tray", &["tray.v1.0.0"]).await;
    world.remove_source(SYSTEM, "tray").await;
    kubectl(world.cluster, &["delete", "-f", &policy]);
}

#[tokio::test]
async fn no_value_of_a_catalog_source_is_taken_and_then_ignored() {
    let world = world().await;
    let image = json!({"catalogImage": "quay.io/example/catalog:v1"});
    let address = json!({"address": "some.namespace.svc"});
    let poll = json!({"registryPoll": {"interval": "30m"}});
    for (spec, said) in [
        (
            json!({"catalogImageSource": image, "catalogServiceSource": address}),
            "more than one source: keep one of catalogImageSource, catalogServiceSource",
        ),
        (
            json!({"catalogImageSource": image, "grpcPodConfig": {"memoryTarget": "1Gi"}}),
            "remove grpcPodConfig: catalogImageSource says by itself where the catalog is",
        ),
        (
            json!({"catalogServiceSource": address, "updateStrategy": poll}),
            "only for catalogImageSource",
        ),
        (
            json!({"sourceType": "grpc", "image": "a", "address": "a:1"}),
            "spec.address: Forbidden: not read beside image",
        ),
        (
            json!({"sourceType": "foo", "image": "a"}),
            "unknown sourcetype: foo: must be grpc or configmap",
        ),
        (json!({"configMapSource": {}}), "Required value"),
        (json!({"displayName": "Mine"}), "no source"),
        // Nor what nobody knows.
        (
            json!({"catalogImageSource": image, "podSpecOverrides": {}}),
            "unknown field \"spec.podSpecOverrides\"",
        ),
    ] {
        let (taken, told) = apply(world, &source(SYSTEM, "odd", &spec), &[]);
        assert!(!taken && told.contains(said), "{spec}: {told}");
    }
    let stored = world.sources(SYSTEM).get_opt("odd").await.unwrap();
    assert_eq!(stored, None);
}

#[tokio::test]
async fn each_new_form_of_a_catalog_source_works_from_end_to_end() {
    let world = world().await;
    let image = publish("chest:v1", "chest", &["1.0.0"]);
    let spec = json!({"catalogImageSource": {"catalogImage": image}, "priority": -10});
    world.apply(source(SYSTEM, "chest", &spec)).await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "locker", "namespace": SYSTEM},
        "data": {
            "customResourceDefinitions": "",
            "clusterServiceVersions": "- metadata: {name: locker.v3.0.0}\n  spec: {version: 3.0.0}\n",
            "packages":
                "- packageName: locker\n  defaultChannel: stable\n  channels: [{name: stable, currentCSV: locker.v3.0.0}]\n",
        },
    });
    world.apply(map).await;
    let spec = json!({"configMapSource": {"configMap": "locker"}, "priority": -10});
    world.apply(source(SYSTEM, "locker", &spec)).await;
    for (name, bundle) in [("chest", "chest.v1.0.0"), ("locker", "locker.v3.0.0")] {
        let address = format!("{name}.rukpak-system.svc:50051");
        world.served_at(SYSTEM, name, &address).await;
        world.lists(SYSTEM, name, &[bundle]).await;
    }

    // The provisioner's own pod finds the one by its name, at the port that is not said.
    let spec = json!({
        "catalogServiceSource": {"address": "chest.rukpak-system.svc"}, "priority": -10,
    });
    world.apply(source(MARKETPLACE, "lid", &spec)).await;
    world
        .served_at(MARKETPLACE, "lid", "chest.rukpak-system.svc:50051")
        .await;
    world.remove_source(MARKETPLACE, "lid").await;
    for name in ["chest", "locker"] {
        world.remove_source(SYSTEM, name).await;
    }
}
