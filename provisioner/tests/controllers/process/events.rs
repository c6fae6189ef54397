//! Events against the real API server, which validates them strictly.

use k8s_openapi::api::{core::v1::ObjectReference, events::v1::Event};
use kube::{Api, runtime::events::EventType};
use provisioner::runtime::events::EventRecorder;

use crate::support::{delete, list, unique, world};

fn about(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("core.rukpak.io/v1alpha1".to_owned()),
        kind: Some("BundleInstance".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

async fn published(name: &str) -> Vec<Event> {
    let client = world().await.client();
    let mut found: Vec<Event> = list(&Api::namespaced(client, "default")).await;
    found.retain(|event| {
        event
            .regarding
            .as_ref()
            .and_then(|object| object.name.as_deref())
            == Some(name)
    });
    found.sort_by_key(|event| event.event_time.clone());
    found
}

#[tokio::test]
async fn events_are_counted_truncated_and_published_again() {
    let world = world().await;
    let publish =
        async |events: &EventRecorder, name: &str, reason: &str, action: &str, note: &str| {
            let about = about(name);
            let kind = match reason {
                "InstallFailed" => EventType::Warning,
                _ => EventType::Normal,
            };
            events.publish(&about, kind, reason, action, note).await;
        };
    let name = unique("events");
    let events = EventRecorder::new(world.client(), Some("core-1".to_owned()));
    for note in ["no rights", "no rights", "no such kind"] {
        publish(&events, &name, "InstallFailed", "Install", note).await;
    }
    let found = published(&name).await;
    let counted = |event: &Event| {
        let count = event.series.as_ref().map(|series| series.count);
        (event.note.clone().unwrap(), count)
    };
    let found: Vec<_> = found.iter().map(counted).collect();
    let expected = [("no rights", Some(2)), ("no such kind", None)];
    assert_eq!(
        found,
        expected.map(|(note, count)| (note.to_owned(), count))
    );

    let name = unique("events");
    let events = EventRecorder::new(world.client(), Some("p".repeat(500)));
    let (reason, action) = ("R".repeat(500), "A".repeat(500));
    publish(&events, &name, &reason, &action, &"🌊".repeat(1000)).await;
    let found = published(&name).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].note.as_deref(), Some("🌊".repeat(256).as_str()));

    let name = unique("events");
    let events = EventRecorder::new(world.client(), None);
    publish(&events, &name, "Installed", "Install", "done").await;
    let first = published(&name).await.remove(0).metadata.name.unwrap();
    let api: Api<Event> = Api::namespaced(world.client(), "default");
    delete(&api, &first).await;
    for _ in 0..2 {
        publish(&events, &name, "Installed", "Install", "done").await;
    }
    let found = published(&name).await;
    assert_eq!(found.len(), 1);
    assert_ne!(found[0].metadata.name.as_ref(), Some(&first));
}
