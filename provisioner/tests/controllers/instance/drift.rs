//! What is installed stays as it was declared; and nobody is asked for anything while it does.

mod rest;

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use tokio::time::Instant;

use super::*;

/// How long the quickest of some repairs took: the machine may be busy with other tests.
async fn quickest(mut attempt: impl AsyncFnMut(usize)) -> Duration {
    let mut best = Duration::MAX;
    for number in 0..3 {
        let began = Instant::now();
        attempt(number).await;
        best = best.min(began.elapsed());
    }
    best
}

// parity: rukpak-48
#[tokio::test]
async fn drift_is_repaired_within_a_second_unless_contested() {
    let world = running().await;
    let (name, space) = (
        unique("drift"),
        world.cluster.temp_namespace("drift").await.unwrap(),
    );
    let names: Vec<String> = ["changed", "removed", "deleted", "labels"]
        .iter()
        .flat_map(|kind| (0..3).map(move |number| format!("{kind}-{number}")))
        .chain(["fought", "other"].map(str::to_owned))
        .collect();
    let objects: Vec<Value> = names
        .iter()
        .map(|it| map(space.name(), it, &[("v", "1")]))
        .collect();
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Healthy", "True").await;

    let api = maps(world, space.name());
    let second = Duration::from_secs(1);
    let changed = quickest(async |number| {
        let object = format!("changed-{number}");
        meddle(&api, &object, json!({"data": {"v": "2"}})).await;
        has_value(world, space.name(), &object, "v", "1").await;
    })
    .await;
    assert!(changed < second, "a changed field: {changed:?}");
    let removed = quickest(async |number| {
        let object = format!("removed-{number}");
        meddle(&api, &object, json!({"data": {"v": null}})).await;
        has_value(world, space.name(), &object, "v", "1").await;
    })
    .await;
    assert!(removed < second, "a removed field: {removed:?}");
    let deleted = quickest(async |number| {
        let object = format!("deleted-{number}");
        api.delete(&object, &kube::api::DeleteParams::default())
            .await
            .unwrap();
        has_value(world, space.name(), &object, "v", "1").await;
    })
    .await;
    assert!(deleted < second, "a deleted object: {deleted:?}");
    let labels = quickest(async |number| {
        let object = format!("labels-{number}");
        let gone =
            json!({"metadata": {"labels": {labels::OWNER_NAME: null, labels::OWNER_KIND: null}}});
        meddle(&api, &object, gone).await;
        support::wait_for(maps(world, space.name()), &object, "labeled", |it| {
            (it.labels().get(labels::OWNER_NAME)? == &name).then_some(())
        })
        .await;
    })
    .await;
    assert!(labels < second, "removed labels: {labels:?}");
    contested_field_is_left_alone(world, &name, space.name()).await;
    delete(world, &name).await;
}

/// A field that another client changes repeatedly is left to that client for a while, and the client is named.
async fn contested_field_is_left_alone(world: &World, name: &str, namespace: &str) {
    let api = maps(world, namespace);
    let theirs = json!({"data": {"v": "theirs"}});
    for _ in 0..3 {
        meddle(&api, "fought", theirs.clone()).await;
        has_value(world, namespace, "fought", "v", "1").await;
    }
    let instance = wait_reason(world, name, "Progressing", "FieldConflict").await;
    let reported = message(&instance, "Progressing");
    for part in ["ConfigMap", "fought", ".data.v", "rival"] {
        assert!(reported.contains(part), "{part} is missing: {reported}");
    }
    // Other objects are repaired, the contested one is not.
    meddle(&api, "fought", theirs.clone()).await;
    meddle(&api, "other", theirs).await;
    has_value(world, namespace, "other", "v", "1").await;
    let fought = api.get("fought").await.unwrap();
    assert_eq!(fought.data.unwrap()["v"], "theirs");
    // The delay ends.
    has_value(world, namespace, "fought", "v", "1").await;
}

#[tokio::test]
async fn replicas_that_were_scaled_are_left_to_the_scaler() {
    let world = running().await;
    let (name, space) = (
        unique("scaled"),
        world.cluster.temp_namespace("scaled").await.unwrap(),
    );
    let of = |version| [deployment(space.name(), "web", 1, version, "works")];
    let source = publish(world, &format!("{name}:v1"), &of("v1")).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Installed", "True").await;

    let api = deployments(world, space.name());
    let params = PatchParams {
        field_manager: Some("autoscaler".to_owned()),
        ..PatchParams::default()
    };
    // The order of these two matters: when the label is back, the scaled replicas were looked at as well.
    api.patch_scale(
        "web",
        &params,
        &Patch::Merge(json!({"spec": {"replicas": 3}})),
    )
    .await
    .unwrap();
    meddle(
        &api,
        "web",
        json!({"metadata": {"labels": {"version": "meddled"}}}),
    )
    .await;
    let is_version = |version: &'static str| {
        move |it: &Deployment| (it.labels().get("version")? == version).then_some(())
    };
    let found = support::wait_for(
        deployments(world, space.name()),
        "web",
        "v1",
        is_version("v1"),
    )
    .await;
    assert_eq!(found.spec.unwrap().replicas, Some(3));

    upgrade(world, &name, "v2", &of("v2")).await;
    let found = support::wait_for(
        deployments(world, space.name()),
        "web",
        "v2",
        is_version("v2"),
    )
    .await;
    assert_eq!(found.spec.unwrap().replicas, Some(3));
    let progressing = read(world, &name).await;
    assert!(!message(&progressing, "Progressing").contains("again and again"));
    delete(world, &name).await;
}

#[tokio::test]
async fn paused_nothing_is_repaired_or_upgraded_and_it_can_be_deleted() {
    let world = running().await;
    let (paused, other) = (unique("paused"), unique("unpaused"));
    let space = world.cluster.temp_namespace("paused").await.unwrap();
    for (name, object) in [(&paused, "a"), (&other, "b")] {
        let objects = [map(space.name(), object, &[("v", "1")])];
        let source = publish(world, &format!("{name}:v1"), &objects).await;
        world.instance(name, "plain", source).await;
        world.wait_instance(name, "Healthy", "True").await;
    }
    change(world, &paused, json!({"spec": {"paused": true}})).await;
    let instance = wait_reason(world, &paused, "Progressing", "Paused").await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");

    let api = maps(world, space.name());
    for object in ["a", "b"] {
        meddle(&api, object, json!({"data": {"v": "2"}})).await;
    }
    // That of the other instance was changed later.
    has_value(world, space.name(), "b", "v", "1").await;
    assert_eq!(api.get("a").await.unwrap().data.unwrap()["v"], "2");

    upgrade(
        world,
        &paused,
        "v2",
        &[map(space.name(), "a", &[("v", "3")])],
    )
    .await;
    let seen = support::wait_for(world.api(), &paused, "seen", |it: &BundleInstance| {
        let seen = it.status.as_ref()?.observed_generation;
        (seen == it.metadata.generation).then_some(())
    })
    .await;
    assert_eq!(line(&seen, "Progressing"), "False Paused");
    assert_eq!(bundles(world, &paused).await.len(), 1);
    assert_eq!(api.get("a").await.unwrap().data.unwrap()["v"], "2");

    // Going on brings both.
    change(world, &paused, json!({"spec": {"paused": false}})).await;
    has_value(world, space.name(), "a", "v", "3").await;
    change(world, &paused, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &paused, "Progressing", "Paused").await;
    delete(world, &paused).await;
    support::gone(maps(world, space.name()), "a").await;
    delete(world, &other).await;
}
