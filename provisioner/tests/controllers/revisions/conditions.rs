//! Ready, Reconciling and Stalled, as clients that wait for a BundleInstance read them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use apply::health::{self, Health};
use futures::StreamExt as _;
use kube::runtime::watcher;
use manifests::api::{bundle_instance::BundleInstanceStatus, condition::find, labels};
use tokio::task::JoinHandle;

use super::*;
use crate::support::{crd, wait_for};

/// An event of the watch: the generation, the observed generation, and the verdict of kstatus.
type Event = (i64, i64, &'static str);

/// Follows a BundleInstance, from before its creation, and compares each of its versions with what the test allows.
struct Observer {
    /// The newest generation whose objects are healthy.
    allowed: Arc<AtomicI64>,
    events: Arc<Mutex<Vec<Event>>>,
    task: JoinHandle<()>,
}

impl Observer {
    fn new(fixture: &Fixture<'_>) -> Self {
        let (allowed, events) = (Arc::<AtomicI64>::default(), Arc::<Mutex<Vec<_>>>::default());
        let instances: Api<BundleInstance> = fixture.world.api();
        let name = fixture.name.clone();
        let task = tokio::spawn({
            let (allowed, events) = (Arc::clone(&allowed), Arc::clone(&events));
            async move {
                let mut changes = std::pin::pin!(watcher::watch_object(instances, &name));
                while let Some(change) = changes.next().await {
                    if let Ok(Some(instance)) = change {
                        let found = verdict(&instance, allowed.load(Ordering::SeqCst));
                        events.lock().unwrap().push(found);
                    }
                }
            }
        });
        Self {
            allowed,
            events,
            task,
        }
    }

    /// Allows this generation to be done from now on.
    fn allow(&self, generation: i64) {
        self.allowed.store(generation, Ordering::SeqCst);
    }

    /// Waits until the watch has reported a generation as done.
    async fn has_shown_done(&self, generation: i64) {
        let events = async || self.events.lock().unwrap().clone();
        becomes(&format!("done {generation}"), events, |events| {
            let is_done = |event: &Event| event.0 == generation && event.2 == "Current";
            events.iter().any(is_done)
        })
        .await;
    }

    /// Ends the watch. A panic of the watch is a panic of the test.
    async fn end(self) -> Vec<Event> {
        self.task.abort();
        if let Err(error) = self.task.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        self.events.lock().unwrap().clone()
    }
}

/// Evaluates a BundleInstance as kstatus does.
pub(super) fn verdict(instance: &BundleInstance, allowed: i64) -> Event {
    let generation = instance.metadata.generation.unwrap();
    let status = instance.status.clone().unwrap_or_default();
    let (ready, reconciling, stalled) = (
        find(&status.conditions, "Ready"),
        find(&status.conditions, "Reconciling"),
        find(&status.conditions, "Stalled"),
    );
    assert!(
        reconciling.is_none() || stalled.is_none(),
        "{:?}",
        status.conditions
    );
    for condition in reconciling.iter().chain(&stalled) {
        assert_eq!(condition.status, "True");
    }
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    assert!(
        !is_ready || status.progressing_since.is_none(),
        "{status:?}"
    );
    let found = match health::evaluate(&serde_json::to_value(instance).unwrap()) {
        Health::Current => "Current",
        Health::InProgress(_) => "InProgress",
        Health::Failed(_) => "Failed",
    };
    assert!(
        found != "Current" || (generation <= allowed && is_ready),
        "done at generation {generation}, while {allowed} is the newest healthy one: {status:#?}"
    );
    let observed = status.observed_generation.unwrap_or_default();
    (generation, observed, found)
}

/// Returns the CRD of Widgets that are unhealthy until their operator has observed them.
fn fixture_crd(fixture: &Fixture<'_>) -> Value {
    let mut definition = crd(&fixture.group(), "Widget");
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"]["default"] = json!({"observedGeneration": -1});
    definition
}

fn objects(fixture: &Fixture<'_>, size: u8) -> [Value; 3] {
    [
        fixture_crd(fixture),
        fixture.custom_resource("Widget", "operand", size),
        fixture.map("map", &size.to_string()),
    ]
}

async fn generation(fixture: &Fixture<'_>) -> i64 {
    fixture.read().await.metadata.generation.unwrap()
}

// A client that follows kstatus never treats a generation as done before it is installed and healthy: neither a new object,
// nor one whose template, configuration or pause has changed.
#[tokio::test]
async fn unfinished_generation_is_never_current() {
    let fixture = Fixture::new(running().await, "verdict").await;
    let declared = fixture.declare(&objects(&fixture, 1)).await;
    let observer = Observer::new(&fixture);
    fixture.world.create(&declared).await;
    fixture.has_reason("Ready", "WaitingForHealth").await;
    observer.allow(1);
    fixture.observe_generation("operand", 1).await;
    observer.has_shown_done(1).await;

    // Another template, and a third one before the second is healthy.
    fixture.upgrade("v2", &objects(&fixture, 2)).await;
    fixture.has_generation("operand", 2).await;
    fixture.has_reason("Ready", "WaitingForHealth").await;
    fixture.upgrade("v3", &objects(&fixture, 3)).await;
    fixture.has_generation("operand", 3).await;
    let newest = generation(&fixture).await;
    observer.allow(newest);
    fixture.observe_generation("operand", 3).await;
    observer.has_shown_done(newest).await;

    // A field that changes no object.
    observer.allow(newest + 1);
    fixture.change(json!({"revisionHistoryLimit": 5})).await;
    observer.has_shown_done(newest + 1).await;

    // A pause with the installed template, and one with another template.
    observer.allow(newest + 2);
    fixture.change(json!({"paused": true})).await;
    observer.has_shown_done(newest + 2).await;
    fixture.upgrade("v4", &objects(&fixture, 4)).await;
    let observed = async || fixture.read().await.status.unwrap().observed_generation;
    becomes("observed pause", observed, |found| {
        *found == Some(newest + 3)
    })
    .await;
    let (reason, _) = fixture.condition("Ready").await;
    assert_eq!(reason, "Paused");

    let events = observer.end().await;
    let new: Vec<_> = events.iter().filter(|event| event.0 == 1).collect();
    assert_eq!(
        *new[0],
        (1, BundleInstanceStatus::NOT_OBSERVED, "InProgress"),
        "the default of a new object"
    );
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
    let mut declared = fixture.declare(&[fixture.map("taken", "1")]).await;
    declared.spec.progress_deadline_seconds = Some(3);
    fixture.world.create(&declared).await;
    let instances: Api<BundleInstance> = fixture.world.api();
    let reason = |instance: &BundleInstance, type_: &str| {
        let conditions = &instance.status.as_ref()?.conditions;
        find(conditions, type_).map(|condition| condition.reason.clone())
    };
    let name = &fixture.name;
    let has = async |type_: &str, expected: &str| {
        let is_so =
            |instance: &BundleInstance| (reason(instance, type_)? == expected).then_some(());
        wait_for(instances.clone(), name, expected, is_so).await
    };
    let blocked = has("Reconciling", "ProgressingWithRetry").await;
    let since = blocked.status.unwrap().progressing_since;
    assert!(since.is_some());
    let late = has("Stalled", "ProgressDeadlineExceeded").await;
    assert_eq!(verdict(&late, 0).2, "Failed");
    assert_eq!(reason(&late, "Ready").as_deref(), Some("Blocked"));
    let status = late.status.unwrap();
    assert_eq!(status.progressing_since, since, "the same clock");
    let message = |type_| &find(&status.conditions, type_).unwrap().message;
    assert!(message("Stalled").contains("taken"), "{status:?}");
    assert_eq!(message("Stalled"), message("Ready"));
    assert_eq!(find(&status.conditions, "Ready").unwrap().status, "False");

    delete(&fixture.maps(), "taken").await;
    let retry = json!({"metadata": {"annotations": {labels::RETRY: "1"}}});
    merge(&instances, name, &retry).await;
    let well = fixture.wait("Ready", "True").await;
    assert_eq!(verdict(&well, 1).2, "Current");
    assert_eq!(reason(&well, "Stalled"), None);
    fixture.uninstall().await;
}

// The write that turns Ready to True depends on this.
#[tokio::test]
async fn status_with_an_old_resource_version_is_rejected() {
    let fixture = Fixture::new(running().await, "version").await;
    let before = fixture.install(&[fixture.map("map", "1")]).await;
    fixture.change(json!({"revisionHistoryLimit": 5})).await;
    let instances: Api<BundleInstance> = fixture.world.api();
    let body = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
        "metadata": {"name": fixture.name, "resourceVersion": before.resource_version()},
        "status": {"failedTemplateHash": "none"},
    });
    let params = PatchParams::apply("another-client").force();
    let patch = Patch::Apply(body);
    let refused = instances.patch_status(&fixture.name, &params, &patch);
    match refused.await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 409, "{status:?}"),
        other => panic!("{other:?}"),
    }
    fixture.uninstall().await;
}
