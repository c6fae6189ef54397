//! Publishes Events. Best effort: failures are only logged.
//!
//! Equal events in a row become one Event with a count. The recorder of kube also treats events with different notes as
//! equal, and keeps showing the first note. So this module decides which events are equal.

use std::{num::NonZeroUsize, time::Duration};

use apply::api_error;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    runtime::events::EventType,
};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::debug;

/// Value of `reportingController`.
const CONTROLLER: &str = "core.rukpak.io/provisioner";
/// Limits of the API server, in bytes.
const MAX_NOTE: usize = 1024;
const MAX_NAME: usize = 128;
/// Maximum number of cached series.
const CACHE_CAPACITY: NonZeroUsize = match NonZeroUsize::new(1024) {
    Some(number) => number,
    None => NonZeroUsize::MIN,
};
/// Maximum time since the last event of a series. Later events start a new series.
const SERIES_TTL: Duration = Duration::from_secs(360);
/// Minimum interval between updates of the count of a series.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time that publishing may delay a reconcile.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(3);

/// Publisher of Events.
pub struct EventRecorder {
    client: Client,
    reporter: String,
    series: Mutex<LruCache<SeriesKey, SeriesState>>,
}

/// Identity of an event: events with equal keys form a series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SeriesKey {
    /// Uid, kind and name of the object.
    about: String,
    reason: String,
    note: String,
}

/// A series of equal events.
#[derive(Debug, Clone)]
struct SeriesState {
    name: String,
    count: i32,
    last: Instant,
    /// Time of the last request to the API server.
    reported_at: Instant,
}

/// Request to the API server for an event.
#[derive(Debug, PartialEq, Eq)]
enum EventAction {
    /// Create a new Event.
    Create,
    /// Update the series of the Event with this name to this count.
    Count(String, i32),
    /// Send no request for now.
    Skip,
}

impl EventRecorder {
    /// Returns a publisher. `reporter` is the name of the pod.
    pub fn new(client: Client, reporter: Option<String>) -> Self {
        let reporter = reporter.filter(|name| !name.is_empty());
        let reporter = reporter.unwrap_or_else(|| "provisioner".to_owned());
        Self {
            client,
            reporter: truncate(&reporter, MAX_NAME).to_owned(),
            series: Mutex::new(LruCache::new(CACHE_CAPACITY)),
        }
    }

    /// Publishes an event about an object. Equal events are counted instead of repeated. Never fails, and returns after a
    /// timeout at the latest.
    pub async fn publish(
        &self,
        about: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let note = truncate(note, MAX_NOTE);
        let key = SeriesKey {
            about: [&about.uid, &about.kind, &about.name]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("/"),
            reason: reason.to_owned(),
            note: note.to_owned(),
        };
        let publish = async {
            match self.next(&key, Instant::now()) {
                EventAction::Skip => Ok(()),
                EventAction::Count(name, count) => self.count(about, &name, count).await,
                EventAction::Create => {
                    let event = self.event(about, type_, reason, action, note);
                    let event = self
                        .api(about)
                        .create(&PostParams::default(), &event)
                        .await?;
                    self.insert(key.clone(), event.name_any(), Instant::now());
                    Ok(())
                }
            }
        };
        match timeout(PUBLISH_TIMEOUT, publish).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = api_error::chain(&error);
                debug!(reason, error, "failed to publish an event");
                // The Event may have been deleted: the next one starts a new series.
                self.forget(&key);
            }
            Err(_) => debug!(reason, "failed to publish an event in time"),
        }
    }

    /// Returns the API for the events of an object. Events of cluster-scoped objects are in `default`.
    fn api(&self, about: &ObjectReference) -> Api<Event> {
        let namespace = about.namespace.as_deref().unwrap_or("default");
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn count(
        &self,
        about: &ObjectReference,
        name: &str,
        count: i32,
    ) -> Result<(), kube::Error> {
        let series = EventSeries {
            count,
            last_observed_time: MicroTime(Timestamp::now()),
        };
        let patch = Patch::Merge(json!({"series": series}));
        self.api(about)
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    fn event(
        &self,
        about: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) -> Event {
        let now = Timestamp::now();
        let name = about.name.as_deref().unwrap_or("rukpak");
        let number = now.as_nanosecond().unsigned_abs() ^ u128::from(fastrand::u32(..));
        Event {
            action: Some(truncate(action, MAX_NAME).to_owned()),
            event_time: Some(MicroTime(now)),
            metadata: ObjectMeta {
                name: Some(format!("{}.{number:x}", truncate(name, 200))),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            note: Some(note.to_owned()),
            reason: Some(truncate(reason, MAX_NAME).to_owned()),
            regarding: Some(about.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.reporter.clone()),
            type_: Some(
                match type_ {
                    EventType::Normal => "Normal",
                    EventType::Warning => "Warning",
                }
                .to_owned(),
            ),
            ..Event::default()
        }
    }

    fn next(&self, key: &SeriesKey, now: Instant) -> EventAction {
        let mut series = self.series.lock();
        let Some(state) = series.get_mut(key) else {
            return EventAction::Create;
        };
        if now.saturating_duration_since(state.last) > SERIES_TTL {
            series.pop(key);
            return EventAction::Create;
        }
        state.last = now;
        state.count = state.count.saturating_add(1);
        if now.saturating_duration_since(state.reported_at) < MIN_UPDATE_INTERVAL && state.count > 2
        {
            return EventAction::Skip;
        }
        state.reported_at = now;
        EventAction::Count(state.name.clone(), state.count)
    }

    fn insert(&self, key: SeriesKey, name: String, now: Instant) {
        let state = SeriesState {
            name,
            count: 1,
            last: now,
            reported_at: now,
        };
        self.series.lock().put(key, state);
    }

    fn forget(&self, key: &SeriesKey) {
        self.series.lock().pop(key);
    }
}

/// Returns the longest prefix of a text that has at most `max` bytes and ends between characters.
pub(crate) fn truncate(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
