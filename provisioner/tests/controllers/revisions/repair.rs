//! Repair acts on each object from the revision that the object belongs to, and depends on nothing else.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use tokio::time::sleep;

use super::*;
use crate::faults::support::{empty, stage};
use crate::support::{Options, Provisioner, bind, define, operator_conditions, service_account};

// The repair of an object continues while another object of the same instance cannot be applied.
#[tokio::test]
async fn denied_object_stops_no_repair_of_other_objects() {
    let fixture = Fixture::new(running().await, "denied").await;
    let objects = [
        fixture.map("denied", "1"),
        fixture.map("other", "1"),
        fixture.web("web"),
    ];
    fixture.install(&objects).await;
    let is_other = "object.metadata.name != 'denied'";
    let policy = Policy::new(&fixture, is_other, &fixture.maps(), "denied").await;
    delete(&fixture.maps(), "denied").await;
    fixture.reports(DENIED).await;

    // The provisioner applies workloads after configuration.
    let deployments: Api<Deployment> = Api::namespaced(fixture.world.client(), fixture.namespace());
    let altered = json!({"metadata": {"labels": {"version": "altered"}}});
    patch_as(&deployments, "web", "another-client", &altered).await;
    fixture.alter("other").await;
    let mut missing = BTreeSet::from(["ConfigMap other", "Deployment web"]);
    let end = Instant::now() + REPAIR_TIMEOUT;
    while !missing.is_empty() && Instant::now() < end {
        sleep(Duration::from_millis(50)).await;
        if fixture.text("other").await.as_deref() == Some("1") {
            missing.remove("ConfigMap other");
        }
        if deployments.get("web").await.unwrap().labels()["version"] == "1" {
            missing.remove("Deployment web");
        }
    }
    let (_, installed) = fixture.condition("Installed").await;
    assert!(
        missing.is_empty(),
        "not repaired after {REPAIR_TIMEOUT:?}: {missing:?}; Installed: {installed}"
    );
    assert_eq!(fixture.text("denied").await, None);
    policy.remove().await;
    fixture.uninstall().await;
}

// An installed revision needs neither the content store nor the registry: the loss of both changes no condition and stops
// no repair.
#[tokio::test]
async fn lost_content_changes_no_condition_and_stops_no_repair() {
    let (cluster, _audit, _lease) = empty().await;
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let world = World::bare(cluster);
    let fixture = Fixture::new(&world, "lost").await;
    let objects = [fixture.map("before", "1"), fixture.map("after", "1")];
    let mut declared = fixture.declare(&objects).await;
    let mut line = Line::new(world.registry.host()).await;
    fixture.through(&line, &mut declared);
    fixture.create(declared).await;

    provisioner.stop().await;
    line.cut();
    fixture.alter("before").await;
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    fixture.alter("after").await;

    let expected = [
        ("HasValidBundle", "True UnpackSuccessful"),
        ("Installed", "True InstallationSucceeded"),
        ("Healthy", "True Healthy"),
    ];
    let mut changes = BTreeSet::new();
    observe(2 * OBSERVATION, async || {
        let status = fixture.read().await.status.unwrap_or_default();
        for (type_, expected) in expected {
            let found = condition(&status.conditions, type_).unwrap();
            let found = format!("{} {}", found.status, found.reason);
            if found != expected {
                changes.insert(format!("{type_} {found}"));
            }
        }
    })
    .await;
    let mut altered = BTreeSet::new();
    for name in ["before", "after"] {
        if fixture.text(name).await.as_deref() != Some("1") {
            altered.insert(name);
        }
    }
    assert!(
        changes.is_empty() && altered.is_empty(),
        "not repaired: {altered:?}; changed conditions: {changes:?}"
    );
    fixture.uninstall().await;
}

// A change of the cluster renders the bundle again. As long as the content is lost and cannot be fetched, the installation
// stays as recorded.
#[tokio::test]
async fn lost_content_after_platform_change_changes_no_condition() {
    let (cluster, _audit, _lease) = empty().await;
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let world = World::bare(cluster);
    let fixture = Fixture::new(&world, "unrendered").await;
    let map = ("manifests/map.yaml", fixture.map("kept", "1"));
    let mut declared = fixture.declare_operator(&[map]).await;
    let mut line = Line::new(world.registry.host()).await;
    fixture.through(&line, &mut declared);
    world.create(&declared).await;
    fixture.wait("Installed", "True").await;

    provisioner.stop().await;
    line.cut();
    define(cluster, &operator_conditions()).await;
    fixture.alter("kept").await;
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    let mut installed = BTreeSet::new();
    observe(2 * OBSERVATION, async || {
        let status = fixture.read().await.status.unwrap_or_default();
        let condition = condition(&status.conditions, "Installed").unwrap();
        installed.insert(format!("{} {}", condition.status, condition.reason));
    })
    .await;
    let text = fixture.text("kept").await;
    assert_eq!(text.as_deref(), Some("1"), "not repaired");
    assert_eq!(installed, ["True InstallationSucceeded".to_owned()].into());
    fixture.uninstall().await;
}

// A change of the cluster or of the provisioner that renders the bundle again never blocks repair, also where the new
// revision is rejected.
#[tokio::test]
async fn rejected_platform_change_stops_no_repair() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "platform").await;
    let map = ("manifests/map.yaml", fixture.map("kept", "1"));
    let declared = fixture.declare_operator(&[map]).await;
    stage.world.create(&declared).await;
    fixture.wait("Installed", "True").await;

    let deployments: Api<Deployment> = Api::namespaced(stage.world.client(), fixture.namespace());
    let deployment = format!("{}-operator", fixture.name);
    let policy = Policy::new(&fixture, "false", &deployments, &deployment).await;
    define(stage.cluster, &operator_conditions()).await;
    fixture.reports(DENIED).await;

    fixture.alter("kept").await;
    fixture.has_text(REPAIR_TIMEOUT, "kept", "1").await;
    policy.remove().await;
    fixture.uninstall().await;
}

// A revision is repaired with its own ServiceAccount, also after the spec names another one that is rejected.
#[tokio::test]
async fn rejected_service_account_repairs_nothing() {
    let fixture = Fixture::new(running().await, "account").await;
    let namespace = fixture.namespace();
    let (cluster, space) = (fixture.world.cluster, Some(namespace));
    let first = service_account(cluster, namespace, "first").await;
    let second = service_account(cluster, namespace, "second").await;
    bind(cluster, space, "first", "cluster-admin", &first).await;
    let mut declared = fixture.declare(&[fixture.map("kept", "1")]).await;
    declared.spec.service_account = Some(first);
    fixture.create(declared).await;

    fixture.change(json!({"serviceAccount": second})).await;
    fixture.reports(&format!("{namespace}/second")).await;
    // The provisioner's own account has permission to write the object, and must not do so.
    let first = format!("system:serviceaccount:{namespace}:first");
    let is_first = format!(
        "request.userInfo.username == '{first}' || !has(request.options.fieldManager) \
         || request.options.fieldManager != '{MANAGER}'"
    );
    let policy = Policy::new(&fixture, &is_first, &fixture.maps(), "kept").await;
    fixture.alter("kept").await;
    fixture.has_text(REPAIR_TIMEOUT, "kept", "1").await;
    policy.remove().await;
    fixture.uninstall().await;
}
