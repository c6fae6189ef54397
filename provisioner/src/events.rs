//! Events for people, best effort: a cluster that refuses them is no reason to fail.
//!
//! Equal events in a row are one with a count. kube's own recorder takes events for equal whose notes differ, and would
//! go on showing the first note; so what is equal is decided here.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::Duration,
};

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
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::debug;

/// Who is said to report.
const CONTROLLER: &str = "core.rukpak.io/provisioner";
/// What the API server takes.
const MAX_NOTE: usize = 1024;
const MAX_NAME: usize = 128;
/// Of how many events it is remembered that they were published.
const REMEMBERED: NonZeroUsize = match NonZeroUsize::new(1024) {
    Some(number) => number,
    None => NonZeroUsize::MIN,
};
/// Until when an equal event is one more of a row, and not a new row.
const ROW: Duration = Duration::from_secs(360);
/// How often a row tells the API server how long it has become.
const PAUSE: Duration = Duration::from_secs(5);
/// How long publishing may hold a reconcile up.
const PATIENCE: Duration = Duration::from_secs(3);

/// Publishes events.
pub struct Events {
    client: Client,
    reporter: String,
    rows: Mutex<LruCache<Key, Row>>,
}

/// What makes events equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// The uid, or whatever names the object instead.
    about: String,
    reason: String,
    note: String,
}

/// Equal events.
#[derive(Debug, Clone)]
struct Row {
    name: String,
    count: i32,
    last: Instant,
    /// When the API server was told.
    told: Instant,
}

/// What to tell the API server.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Something new.
    Create,
    /// One more: the name of the row, and its length.
    Count(String, i32),
    /// Nothing for now.
    Nothing,
}

impl Events {
    /// `reporter` is the pod's name.
    pub fn new(client: Client, reporter: Option<String>) -> Self {
        let reporter = reporter.filter(|name| !name.is_empty());
        let reporter = reporter.unwrap_or_else(|| "provisioner".to_owned());
        Self {
            client,
            reporter: cut(&reporter, MAX_NAME).to_owned(),
            rows: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    /// Publishes an event about an object; equal ones in a row are counted, not repeated. Never fails, never blocks for
    /// long.
    pub async fn publish(
        &self,
        about: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let note = cut(note, MAX_NOTE);
        let key = Key {
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
                Next::Nothing => Ok(()),
                Next::Count(name, count) => self.count(about, &name, count).await,
                Next::Create => {
                    let event = self.event(about, type_, reason, action, note);
                    let event = self
                        .api(about)
                        .create(&PostParams::default(), &event)
                        .await?;
                    self.remember(key.clone(), event.name_any(), Instant::now());
                    Ok(())
                }
            }
        };
        match timeout(PATIENCE, publish).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                debug!(reason, %error, "failed to publish an event");
                // It may have been removed: the next one is a new row.
                self.forget(&key);
            }
            Err(_) => debug!(reason, "failed to publish an event in time"),
        }
    }

    /// Events of cluster-scoped objects are in `default`.
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
            action: Some(cut(action, MAX_NAME).to_owned()),
            event_time: Some(MicroTime(now)),
            metadata: ObjectMeta {
                name: Some(format!("{}.{number:x}", cut(name, 200))),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            note: Some(note.to_owned()),
            reason: Some(cut(reason, MAX_NAME).to_owned()),
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

    fn next(&self, key: &Key, now: Instant) -> Next {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(row) = rows.get_mut(key) else {
            return Next::Create;
        };
        if now.saturating_duration_since(row.last) > ROW {
            rows.pop(key);
            return Next::Create;
        }
        row.last = now;
        row.count = row.count.saturating_add(1);
        if now.saturating_duration_since(row.told) < PAUSE && row.count > 2 {
            return Next::Nothing;
        }
        row.told = now;
        Next::Count(row.name.clone(), row.count)
    }

    fn remember(&self, key: Key, name: String, now: Instant) {
        let row = Row {
            name,
            count: 1,
            last: now,
            told: now,
        };
        self.rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .put(key, row);
    }

    fn forget(&self, key: &Key) {
        self.rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop(key);
    }
}

/// The beginning of a text, as many whole characters as fit into so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
