//! How far each definition is, as their watch tells, for whoever waits until one can be used.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::{ResourceExt as _, runtime::watcher::Event};
use tokio::sync::watch;

use super::definition::Definition;

/// All definitions, as soon as they were listed.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    known: Mutex<Known>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    latest: Option<HashMap<String, State>>,
    listing: HashMap<String, State>,
}

/// How far a definition is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) uid: String,
    /// Its resourceVersion, to compare.
    pub(crate) version: u64,
    pub(crate) established: bool,
    /// The reason why its names are not accepted, where that is so.
    pub(crate) refused: Option<String>,
}

// === impl Definitions ===

impl Definitions {
    /// Reports whether the watch tells of definitions at all.
    pub(super) fn are_told(&self) -> bool {
        self.known().latest.is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<State> {
        self.known().latest.as_ref()?.get(name).cloned()
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn note(&self, event: &Event<Definition>) {
        let mut known = self.known();
        match event {
            Event::Init => known.listing.clear(),
            Event::InitApply(definition) => {
                let state = State::of(definition);
                known.listing.insert(definition.name_any(), state);
            }
            Event::InitDone => known.latest = Some(std::mem::take(&mut known.listing)),
            Event::Apply(definition) => {
                let state = State::of(definition);
                let latest = known.latest.get_or_insert_default();
                latest.insert(definition.name_any(), state);
            }
            Event::Delete(definition) => {
                let latest = known.latest.get_or_insert_default();
                latest.remove(&definition.name_any());
            }
        }
        drop(known);
        self.changes.send_replace(());
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    pub(crate) fn of(definition: &Definition) -> Self {
        let status = definition.status.as_ref();
        let names = status.and_then(|status| status.condition("NamesAccepted"));
        let version = definition.metadata.resource_version.as_deref();
        Self {
            uid: definition.uid().unwrap_or_default(),
            version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
            established: status.is_some_and(|status| status.is("Established")),
            refused: names
                .filter(|names| names.status == "False")
                .map(|names| names.message.clone()),
        }
    }
}
