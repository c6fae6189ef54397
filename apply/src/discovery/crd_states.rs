//! State of each CRD as reported by the watch, for callers that wait until a CRD can be used.

use std::collections::HashMap;

use kube::{ResourceExt as _, runtime::watcher::Event};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::crd::PartialCrd;

/// States of all CRDs; empty until the initial list is complete.
#[derive(Debug, Default)]
pub(super) struct CrdStates {
    index: Mutex<CrdIndex>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct CrdIndex {
    latest: Option<HashMap<String, CrdState>>,
    listing: HashMap<String, CrdState>,
}

/// State of a CRD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrdState {
    pub(crate) uid: String,
    /// The resourceVersion as a number that can be compared; 0 if it is not a number.
    pub(crate) version: u64,
    pub(crate) established: bool,
    /// Message of the condition NamesAccepted if its status is False; otherwise `None`.
    pub(crate) names_not_accepted: Option<String>,
}

// === impl CrdStates ===

impl CrdStates {
    /// Reports whether the initial list of CRDs is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.index.lock().latest.is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<CrdState> {
        self.index.lock().latest.as_ref()?.get(name).cloned()
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn record(&self, event: &Event<PartialCrd>) {
        let mut index = self.index.lock();
        match event {
            Event::Init => index.listing.clear(),
            Event::InitApply(crd) => {
                let state = CrdState::from_crd(crd);
                index.listing.insert(crd.name_any(), state);
            }
            Event::InitDone => index.latest = Some(std::mem::take(&mut index.listing)),
            Event::Apply(crd) => {
                let state = CrdState::from_crd(crd);
                let latest = index.latest.get_or_insert_default();
                latest.insert(crd.name_any(), state);
            }
            Event::Delete(crd) => {
                let latest = index.latest.get_or_insert_default();
                latest.remove(&crd.name_any());
            }
        }
        drop(index);
        self.changes.send_replace(());
    }
}

// === impl CrdState ===

impl CrdState {
    pub(crate) fn from_crd(crd: &PartialCrd) -> Self {
        let status = crd.status.as_ref();
        let names = status.and_then(|status| status.condition("NamesAccepted"));
        let version = crd.metadata.resource_version.as_deref();
        Self {
            uid: crd.uid().unwrap_or_default(),
            version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
            established: status.is_some_and(|status| status.is("Established")),
            names_not_accepted: names
                .filter(|names| names.status == "False")
                .map(|names| names.message.clone()),
        }
    }
}
