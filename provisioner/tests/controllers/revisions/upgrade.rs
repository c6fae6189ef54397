//! Objects that an upgrade removes. The test of `bundle_instance::model` covers that the old revision is complete until the
//! new one is active.

use super::*;

// An object that left the bundle and waits for a finalizer is watched: the other objects are not applied again, and
// Progressing does not change in the meantime.
#[tokio::test]
async fn terminating_object_causes_no_write_of_other_objects() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "held").await;
    let objects = [fixture.map("kept", "1"), fixture.map("held", "1")];
    fixture.install(&objects).await;
    fixture.set_finalizers("held", json!([FINALIZER])).await;
    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    fixture.is_terminating("held").await;
    let progressing = async || fixture.condition("Progressing").await;
    let is_over = |(reason, _): &(String, String)| reason != "Applying";
    becomes("end of the rollout", progressing, is_over).await;
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
    assert_eq!(writes.count(), 0, "{requests}");
    assert_eq!(progressing.len(), 1, "{progressing:?}");

    fixture.set_finalizers("held", Value::Null).await;
    wait_deleted(fixture.maps(), "held").await;
    fixture.uninstall().await;
}
