//! Repair acts on each object from the revision that the object belongs to, and depends on nothing else.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use manifests::api::instance::ServiceAccountRef;
use tokio::time::sleep;

use super::*;
use crate::{
    faults::stage::{empty, stage},
    support::{Line, Options, Provisioner, define, operator},
};

/// A Deployment without pods.
fn deployment(fixture: &Fixture<'_>) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": fixture.namespace(), "labels": {"version": "1"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
            },
        },
    })
}

/// The definition of OperatorConditions: where they are served, an operator's Deployment names its own.
fn operator_conditions() -> Value {
    let mut definition = crate::support::crd("operators.coreos.com", "OperatorCondition");
    definition["spec"]["versions"][0]["name"] = json!("v2");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    definition
}

// The repair of an object continues while another object of the same instance cannot be applied.
#[tokio::test]
async fn denied_object_stops_no_repair_of_other_objects() {
    let fixture = Fixture::new(running().await, "denied").await;
    let objects = [
        fixture.map("denied", "1"),
        fixture.map("other", "1"),
        deployment(&fixture),
    ];
    fixture.install(&objects).await;
    let is_other = "object.metadata.name != 'denied'";
    let policy = Policy::new(&fixture, is_other, &fixture.maps(), "denied").await;
    delete(&fixture.maps(), "denied").await;
    fixture.reports(DENIED).await;

    // The provisioner applies workloads after configuration.
    let deployments: Api<Deployment> = Api::namespaced(fixture.world.client(), fixture.namespace());
    let altered = json!({"metadata": {"labels": {"version": "altered"}}});
    patch(&deployments, "web", "another-client", &altered).await;
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
    let bundle = plain(&[fixture.map("before", "1"), fixture.map("after", "1")]);
    let pushed = world.push(&format!("{}:v1", fixture.name), &bundle).await;
    let mut line = Line::new(world.registry.host()).await;
    let source = image(&pushed.replace(world.registry.host(), &line.host()));
    fixture
        .create(instance(&fixture.name, "plain", source))
        .await;

    provisioner.signal("TERM").await;
    provisioner.ended().await;
    drop(provisioner);
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

// A change of the cluster renders the bundle anew. As long as the content is lost and cannot be fetched, the installation
// stays as recorded.
#[tokio::test]
async fn lost_content_after_platform_change_changes_no_condition() {
    let (cluster, _audit, _lease) = empty().await;
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let world = World::bare(cluster);
    let fixture = Fixture::new(&world, "unrendered").await;
    let map = config_map(fixture.namespace(), "kept", "1");
    let bundle = operator(&fixture.name, "1.0.0", &[("manifests/map.yaml", map)]);
    let pushed = world.push(&format!("{}:v1", fixture.name), &bundle).await;
    let mut line = Line::new(world.registry.host()).await;
    let source = image(&pushed.replace(world.registry.host(), &line.host()));
    let mut declared = instance(&fixture.name, "registry", source);
    declared.spec.install_namespace = Some(fixture.namespace().to_owned());
    world.create(&declared).await;
    world
        .wait_instance(&fixture.name, "Installed", "True")
        .await;

    provisioner.signal("TERM").await;
    provisioner.ended().await;
    drop(provisioner);
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

// A change of the cluster or of the provisioner that renders the bundle anew never gates repair, also where the new
// revision is refused.
#[tokio::test]
async fn refused_platform_change_stops_no_repair() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "platform").await;
    let map = config_map(fixture.namespace(), "kept", "1");
    let bundle = operator(&fixture.name, "1.0.0", &[("manifests/map.yaml", map)]);
    let pushed = stage
        .world
        .push(&format!("{}:v1", fixture.name), &bundle)
        .await;
    let mut declared = instance(&fixture.name, "registry", image(&pushed));
    declared.spec.install_namespace = Some(fixture.namespace().to_owned());
    stage.world.create(&declared).await;
    stage
        .world
        .wait_instance(&fixture.name, "Installed", "True")
        .await;

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

// A revision is repaired with its own ServiceAccount, also after the spec names another one that is refused.
#[tokio::test]
async fn refused_service_account_repairs_nothing() {
    let fixture = Fixture::new(running().await, "account").await;
    let namespace = fixture.namespace();
    for name in ["first", "second"] {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace},
        });
        fixture.world.apply(&account).await;
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "first", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "first", "namespace": namespace}],
    });
    fixture.world.apply(&binding).await;
    let mut declared = fixture.declare(&[fixture.map("kept", "1")]).await;
    declared.spec.service_account = Some(ServiceAccountRef {
        name: "first".to_owned(),
        namespace: namespace.to_owned(),
    });
    fixture.create(declared).await;

    let second = json!({"name": "second", "namespace": namespace});
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
