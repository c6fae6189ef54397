use http::Uri;

use super::*;

/// Returns a publisher without a cluster: decisions before a request need none.
fn events() -> EventRecorder {
    let config = kube::Config::new(Uri::from_static("http://127.0.0.1:1"));
    EventRecorder::new(Client::try_from(config).unwrap(), None)
}

fn key(note: &str) -> SeriesKey {
    SeriesKey {
        about: "uid".to_owned(),
        reason: "InstallFailed".to_owned(),
        note: note.to_owned(),
    }
}

#[test]
fn notes_are_truncated_between_characters() {
    assert_eq!(truncate("short", 1024), "short");
    assert_eq!(truncate("Gezeiten", 4), "Geze");
    assert_eq!(truncate("aüb", 2), "a");
    assert_eq!(truncate("🌊🌊", 7), "🌊");
    assert_eq!(truncate("🌊", 3), "");
    assert_eq!(truncate(&"ü".repeat(4000), MAX_NOTE).len(), MAX_NOTE);
}

#[tokio::test]
async fn equal_events_form_a_series() {
    let events = events();
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let count = |count| EventAction::Count("first".to_owned(), count);
    let next = |note, seconds| events.next(&key(note), after(seconds));
    assert_eq!(next("forbidden", 0), EventAction::Create);
    events.insert(key("forbidden"), "first".to_owned(), start);
    assert_each!(|note, seconds, expected| next(note, seconds) => expected;
        "forbidden", 1 => count(2);
        "no such kind", 1 => EventAction::Create;
        "forbidden", 2 => EventAction::Skip;
        "forbidden", 7 => count(4);
        "forbidden", 7 + 361 => EventAction::Create;
    );
}

#[tokio::test]
async fn event_cache_is_bounded() {
    let events = events();
    let now = Instant::now();
    for number in 0..10_000 {
        events.insert(key(&number.to_string()), "event".to_owned(), now);
    }
    assert_eq!(events.series.lock().len(), CACHE_CAPACITY.get());
}

#[tokio::test]
async fn unreachable_cluster_does_not_fail_publishing() {
    let about = with!(ObjectReference, name: Some("etcd".to_owned()));
    let publish = events();
    let (reason, action) = ("InstallFailed", "Install");
    let publish = publish.publish(&about, EventType::Warning, reason, action, "why");
    timeout(PUBLISH_TIMEOUT * 3, publish).await.unwrap();
}
