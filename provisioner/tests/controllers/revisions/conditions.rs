//! Ready, Reconciling and Stalled, as clients that wait for a BundleInstance read them.

use std::sync::atomic::{AtomicI64, Ordering};

use apply::health::{self, Health};
use manifests::api::{bundle_instance::BundleInstanceStatus, condition::find};

use super::*;
use crate::support::message;

/// An event of the watch: the generation, the observed generation, and the verdict of kstatus.
type Event = (i64, i64, &'static str);

/// Evaluates a BundleInstance as kstatus does.
fn verdict(instance: &BundleInstance, allowed: i64) -> Event {
    let generation = instance.metadata.generation.unwrap();
    let status = instance.status.clone().unwrap_or_default();
    let [ready, reconciling, stalled] =
        ["Ready", "Reconciling", "Stalled"].map(|type_| find(&status.conditions, type_));
    assert!(reconciling.is_none() || stalled.is_none(), "{status:?}");
    for condition in reconciling.iter().chain(&stalled) {
        assert_eq!(condition.status, "True");
    }
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    tests::assert_rows!(is_ready && status.progressing_since.is_some() => false, "{status:?}");
    let found = match health::evaluate(&serde_json::to_value(instance).unwrap()) {
        Health::Current => "Current",
        Health::InProgress(_) => "InProgress",
        Health::Failed(_) | Health::TimedOut { .. } => "Failed",
    };
    assert!(
        found != "Current" || (generation <= allowed && is_ready),
        "done at generation {generation}, while {allowed} is the newest healthy one: {status:#?}"
    );
    let observed = status.observed_generation.unwrap_or_default();
    (generation, observed, found)
}

/// Returns objects with a Widget that is unhealthy until its operator has observed it.
fn objects(fixture: &Fixture<'_>, size: u8) -> [Value; 3] {
    let mut crd = fixture.widget_crd();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"]["default"] = json!({"observedGeneration": -1});
    let map = fixture.map("map", &size.to_string());
    [crd, fixture.widget("operand", size), map]
}

// Neither a new object nor one whose template, configuration or `spec.paused` has changed is done too early.
#[tokio::test]
async fn unfinished_generation_is_never_current() {
    let fixture = Fixture::new(running().await, "verdict").await;
    let declared = fixture.declare(&objects(&fixture, 1)).await;
    // The events since before the creation, and the newest generation whose objects are healthy.
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let allowed = Arc::<AtomicI64>::default();
    let (observed, newest) = (Arc::clone(&events), Arc::clone(&allowed));
    let observe = move |instance| {
        let found = verdict(&instance, newest.load(Ordering::SeqCst));
        observed.lock().unwrap().push(found);
    };
    let mut watch = fixture.follow(observe).await;
    let allow = |generation| allowed.store(generation, Ordering::SeqCst);
    let has_shown_done = async |generation: i64| {
        let events = async || events.lock().unwrap().clone();
        let is_done = |event: &Event| event.0 == generation && event.2 == "Current";
        let has_done = |events: &Vec<Event>| events.iter().any(is_done);
        becomes(&format!("done {generation}"), events, has_done).await;
    };
    fixture.world.create(&declared).await;
    fixture.has_reason("Ready WaitingForHealth").await;
    allow(1);
    fixture.observe_generation("operand", 1).await;
    has_shown_done(1).await;

    // Another template, and a third one before the second is healthy.
    fixture.upgrade("v2", &objects(&fixture, 2)).await;
    fixture.has_generation("operand", 2).await;
    fixture.has_reason("Ready WaitingForHealth").await;
    fixture.upgrade("v3", &objects(&fixture, 3)).await;
    fixture.has_generation("operand", 3).await;
    let newest = fixture.read().await.metadata.generation.unwrap();
    allow(newest);
    fixture.observe_generation("operand", 3).await;
    has_shown_done(newest).await;

    // A field that changes no object.
    allow(newest + 1);
    fixture.change(json!({"revisionHistoryLimit": 5})).await;
    has_shown_done(newest + 1).await;

    // Paused with the installed template, and with another template.
    allow(newest + 2);
    fixture.change(json!({"paused": true})).await;
    has_shown_done(newest + 2).await;
    fixture.upgrade("v4", &objects(&fixture, 4)).await;
    let observed = async || fixture.read().await.status.unwrap().observed_generation;
    let is_observed = |found: &Option<i64>| *found == Some(newest + 3);
    becomes("observed as paused", observed, is_observed).await;
    assert_eq!(fixture.condition("Ready").await.0, "Paused");

    // A panic of the watch is a panic of the test.
    watch.abort_all();
    if let Some(Err(error)) = watch.join_next().await
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
    let events = events.lock().unwrap().clone();
    let new = events.iter().find(|event| event.0 == 1);
    let default = (1, BundleInstanceStatus::NOT_OBSERVED, "InProgress");
    assert_eq!(new, Some(&default), "the default of a new object");
    let verdicts: BTreeSet<_> = events.iter().map(|event| event.2).collect();
    assert_eq!(verdicts, BTreeSet::from(["Current", "InProgress"]));
    fixture.uninstall().await;
}

// An obstacle in the cluster is retried until the progress deadline, and Stalled after it until the obstacle is removed.
#[tokio::test]
async fn blocked_generation_is_stalled_after_its_deadline() {
    let fixture = Fixture::new(running().await, "obstacle").await;
    let world = fixture.world;
    world.apply(&fixture.map("taken", "of others")).await;
    let declared = fixture.declare(&[fixture.map("taken", "1")]).await;
    let declared = tests::with!(declared => spec.progress_deadline_seconds: Some(10));
    world.create(&declared).await;
    fixture.has_reason("Reconciling ProgressingWithRetry").await;
    fixture.has_reason("Stalled ProgressDeadlineExceeded").await;
    let late = fixture.read().await;
    assert_eq!(verdict(&late, 0).2, "Failed");
    assert_has(message(&late, "Stalled"), "taken");

    delete(&fixture.maps(), "taken").await;
    let retry = json!({"metadata": {"annotations": {labels::RETRY: "1"}}});
    merge(&fixture.instances(), &fixture.name, &retry).await;
    tests::assert_rows!(verdict(&fixture.wait("Ready", "True").await, 1).2 => "Current");
    assert_eq!(fixture.condition("Stalled").await.0, "");
    fixture.uninstall().await;
}
