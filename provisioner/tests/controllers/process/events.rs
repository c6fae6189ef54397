//! Events against the real API server, which validates them strictly.

use k8s_openapi::api::{core::v1::ObjectReference, events::v1::Event};
use kube::{Api, runtime::events::EventType};
use provisioner::runtime::events::EventRecorder;

use crate::support::{delete, list, unique, world};

async fn publish(events: &EventRecorder, name: &str, reason: &str, action: &str, note: &str) {
    let text = |text: &str| Some(text.to_owned());
    let about = tests::with!(ObjectReference, api_version: text("core.rukpak.io/v1alpha1"),
        kind: text("BundleInstance"), name: text(name), uid: text(name));
    let kind = match reason {
        "InstallFailed" => EventType::Warning,
        _ => EventType::Normal,
    };
    events.publish(&about, kind, reason, action, note).await;
}

async fn published(api: &Api<Event>, name: &str) -> Vec<Event> {
    let mut found = list(api).await;
    found.retain(|event| {
        let regarding = event.regarding.as_ref();
        regarding.is_some_and(|about| about.name.as_deref() == Some(name))
    });
    found.sort_by_key(|event| event.event_time.clone());
    found
}

#[tokio::test]
async fn events_are_counted_truncated_and_published_again() {
    let world = world().await;
    let api: Api<Event> = Api::namespaced(world.client(), "default");
    let name = unique("events");
    let events = EventRecorder::new(world.client(), Some("core-1".to_owned()));
    for note in ["no rights", "no rights", "no such kind"] {
        publish(&events, &name, "InstallFailed", "Install", note).await;
    }
    let found = published(&api, &name).await;
    let found = found.iter().map(|event| {
        let count = event.series.as_ref().map(|series| series.count);
        (event.note.as_deref().unwrap(), count)
    });
    tests::assert_rows!(found.collect::<Vec<_>>() => [("no rights", Some(2)), ("no such kind", None)]);

    let name = unique("events");
    let events = EventRecorder::new(world.client(), Some("p".repeat(500)));
    let (reason, action) = ("R".repeat(500), "A".repeat(500));
    publish(&events, &name, &reason, &action, &"🌊".repeat(1000)).await;
    let found = published(&api, &name).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].note.as_deref(), Some("🌊".repeat(256).as_str()));

    let name = unique("events");
    let events = EventRecorder::new(world.client(), None);
    publish(&events, &name, "Installed", "Install", "done").await;
    let first = published(&api, &name).await.remove(0).metadata.name;
    delete(&api, first.as_ref().unwrap()).await;
    for _ in 0..2 {
        publish(&events, &name, "Installed", "Install", "done").await;
    }
    let found = published(&api, &name).await;
    assert_eq!(found.len(), 1);
    assert_ne!(found[0].metadata.name, first);
}
