//! From one revision to the next: the old one is complete until the new one is healthy.

use std::collections::BTreeSet;

use kube::api::PostParams;
use manifests::api::instance::CrdDeletionPolicy;
use tokio::time::sleep;

use super::*;
use crate::{
    faults::stage::stage,
    support::{Options, crd, until},
};

/// The finalizer of a client that never removes the finalizer.
const FINALIZER: &str = "example.com/held";

// When an admin deletes an object whose upgrade changes an immutable field, the next attempt starts at once and creates
// the object in its new form.
#[tokio::test]
async fn deleted_immutable_object_takes_its_new_form() {
    let fixture = Fixture::new(running().await, "immutable").await;
    let objects = |text: &str| {
        let mut fixed = fixture.map("fixed", text);
        fixed["immutable"] = json!(true);
        [fixed, fixture.map("other", text)]
    };
    fixture.install(&objects("1")).await;
    fixture.upgrade("v2", &objects("2")).await;
    fixture.reports("fixed").await;
    assert_eq!(fixture.text("other").await.as_deref(), Some("1"));

    delete(&fixture.maps(), "fixed").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "fixed", "2").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "other", "2").await;
    fixture
        .has_reason("Installed", "InstallationSucceeded")
        .await;
    fixture.uninstall().await;
}

// An object that left the bundle is pruned once the new revision is active, and not before.
#[tokio::test]
async fn removed_object_exists_until_the_upgrade_is_healthy() {
    let fixture = Fixture::new(running().await, "removed").await;
    let objects = |version: &str, size: u8| {
        vec![
            crd(&fixture.group(), "Widget"),
            fixture.custom_resource("Widget", "operand", size),
            fixture.map("kept", version),
        ]
    };
    let mut first = objects("1", 1);
    first.push(fixture.map("removed", "1"));
    fixture.install(&first).await;
    fixture
        .observe("operand", json!({"observedGeneration": 1}))
        .await;
    let uid = fixture.maps().get("removed").await.unwrap().uid();

    // The operator has not observed the new generation yet.
    fixture.upgrade("v2", &objects("2", 2)).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "2").await;
    fixture.has_generation("operand", 2).await;
    observe(OBSERVATION, async || {
        let found = fixture.maps().get_opt("removed").await.unwrap();
        let is_left_alone = found
            .as_ref()
            .is_some_and(|found| found.uid() == uid && found.metadata.deletion_timestamp.is_none());
        assert!(
            is_left_alone,
            "deleted before the new version is healthy: {found:?}"
        );
    })
    .await;

    fixture
        .observe("operand", json!({"observedGeneration": 2}))
        .await;
    within(
        ROLLOUT_TIMEOUT,
        "deletion of ConfigMap removed",
        async || match fixture.text("removed").await {
            Some(text) => Err(text),
            None => Ok(()),
        },
    )
    .await;
    fixture.uninstall().await;
}

// An upgrade never deletes a definition that still has custom resources: spec.crdDeletionPolicy is for the removal of the
// instance.
#[tokio::test]
async fn upgrade_deletes_no_custom_resource() {
    let fixture = Fixture::new(running().await, "precious").await;
    let objects = [crd(&fixture.group(), "Widget"), fixture.map("kept", "1")];
    let mut declared = fixture.declare(&objects).await;
    declared.spec.crd_deletion_policy = CrdDeletionPolicy::Delete;
    fixture.create(declared).await;
    let precious = fixture.custom_resource("Widget", "precious", 1);
    let precious = serde_json::from_value(precious).unwrap();
    let params = PostParams::default();
    let created = fixture.widgets().create(&params, &precious).await.unwrap();

    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "2").await;
    observe(OBSERVATION, async || {
        let found = fixture.widgets().get_opt("precious").await;
        let found = found.map_err(|error| error.to_string());
        let is_left_alone = matches!(&found, Ok(Some(found)) if found.uid() == created.uid()
            && found.metadata.deletion_timestamp.is_none());
        assert!(is_left_alone, "deleted by an upgrade: {found:?}");
    })
    .await;
    fixture.uninstall().await;
    let definitions: Api<CustomResourceDefinition> = fixture.world.api();
    let name = format!("widgets.{}", fixture.group());
    if definitions.get_opt(&name).await.unwrap().is_some() {
        delete(&definitions, &name).await;
    }
}

// An object that left the bundle and waits for a finalizer is watched: the other objects are not applied again, and
// Progressing does not change in the meantime.
#[tokio::test]
async fn terminating_object_causes_no_write_of_other_objects() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "held").await;
    let objects = [fixture.map("kept", "1"), fixture.map("held", "1")];
    fixture.install(&objects).await;
    let finalizers = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    merge(&fixture.maps(), "held", &finalizers(json!([FINALIZER]))).await;
    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    let is_terminating = async || {
        let held = fixture.maps().get("held").await.unwrap();
        held.metadata.deletion_timestamp.is_some()
    };
    until("terminating", is_terminating, |is_terminating| {
        *is_terminating
    })
    .await;
    within(ROLLOUT_TIMEOUT, "end of the rollout", async || {
        let found = fixture.condition("Progressing").await;
        (found.0 != "Applying").then_some(()).ok_or(found.1)
    })
    .await;
    // The status follows the deletion.
    sleep(Duration::from_secs(1)).await;

    let mark = stage.audit.mark();
    let mut progressing = BTreeSet::new();
    observe(2 * OBSERVATION, async || {
        progressing.insert(fixture.condition("Progressing").await.0);
    })
    .await;
    let path = format!("/namespaces/{}/configmaps/kept", fixture.namespace());
    let requests = stage.audit.since(&mark);
    let writes = requests.all.iter().filter(|request| {
        request.verb != "get" && request.uri.contains(&path) && !request.uri.contains("dryRun")
    });
    let writes = writes.count();
    assert!(
        writes == 0 && progressing.len() == 1,
        "{writes} writes of ConfigMap kept in {:?}; Progressing: {progressing:?}",
        2 * OBSERVATION
    );

    merge(&fixture.maps(), "held", &finalizers(Value::Null)).await;
    gone(fixture.maps(), "held").await;
    fixture.uninstall().await;
}
