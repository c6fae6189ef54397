//! A catalog's place in the server, and what is done for as long as there is one: its Service and EndpointSlice are made,
//! repaired, and made again.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, AtomicU64},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kube::runtime::events::EventType;
use manifests::api::catalog_source::RegistryService;
use tokio::{
    sync::{Notify, watch::Sender},
    time::sleep,
};
use tracing::{info, warn};
use unpacker::Digest;

use super::{
    Error, Listening, Registered, Shared, State,
    keep::{self, Kept},
    objects::{self, Declared},
};
use crate::catalogs::{Key, patience::Patience};

/// After so long without trouble the next one is a first one.
const QUIET: Duration = Duration::from_secs(120);

/// A catalog's place in the server.
pub(super) struct Stand {
    pub(super) key: Key,
    /// Who follows the catalog.
    pub(super) holder: AtomicU64,
    /// Where it is served; 0 while it is not.
    pub(super) port: AtomicU16,
    pub(super) shown: tokio::sync::Mutex<Shown>,
    state: Mutex<State>,
    /// What the objects were like when they were looked at last.
    kept: Mutex<Option<Kept>>,
    /// Something may have to be done.
    pub(super) wake: Notify,
    /// Up to which change of what is shown all was done, or has failed.
    pub(super) concluded: Sender<u64>,
}

/// What is shown at a stand.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) listening: Option<Listening>,
    pub(super) of: Option<(OwnerReference, ObjectReference)>,
    pub(super) digest: Option<Digest>,
    pub(super) since: Option<Timestamp>,
    /// Why what was offered last is not what is shown. Nothing that is done to the objects changes that.
    pub(super) refused: Option<String>,
    /// Whether its objects are being removed.
    pub(super) is_leaving: bool,
    /// Counts the changes.
    pub(super) changes: u64,
}

// === impl Shared ===

impl Shared {
    /// Makes the objects of a stand what they should be, and tells how that went.
    async fn settle(&self, stand: &Stand) -> Outcome {
        let shown = stand.shown.lock().await;
        let (false, Some(listening), Some((owner, about))) =
            (shown.is_leaving, &shown.listening, &shown.of)
        else {
            return Outcome::Well;
        };
        let declared = Declared {
            key: stand.key.clone(),
            owner: owner.clone(),
            at: SocketAddr::new(self.address, listening.port()),
        };
        let outcome = match keep::keep(&self.requests, &declared).await {
            Ok(kept) => {
                let is_new = *stand.concluded.borrow() != shown.changes;
                let repaired = kept.repaired(stand.kept().as_ref(), is_new);
                if repaired > 0 {
                    info!(catalog = %stand.key, "repaired what leads to a catalog");
                    self.metrics.repaired(repaired);
                }
                let registered = shown.digest.zip(shown.since).map(|(digest, since)| {
                    stand.registered(&declared, kept.created.clone(), digest, since)
                });
                *stand.kept() = Some(kept);
                let state = State {
                    registered,
                    trouble: shown.refused.clone(),
                };
                self.is_served(stand, about, state).await;
                if repaired > 0 {
                    Outcome::Repaired
                } else {
                    Outcome::Well
                }
            }
            Err(error) => {
                if matches!(error, Error::Foreign(_)) {
                    stand.state().registered = None;
                }
                self.fails(stand, about, unpacker::job::chain(&error)).await;
                Outcome::Failed
            }
        };
        stand.concluded.send_replace(shown.changes);
        outcome
    }

    async fn is_served(&self, stand: &Stand, about: &ObjectReference, now: State) {
        let is_well = now.trouble.is_none();
        let (was_found, differs) = {
            let mut state = stand.state();
            let was_found = state.registered.is_some() && state.trouble.is_none();
            let differs = *state != now;
            *state = now;
            (was_found, differs)
        };
        self.metrics.served(&stand.key, is_well);
        if differs {
            self.waiting.wake(&stand.key);
        }
        if is_well && !was_found {
            let note = format!("served at {}", objects::address(&stand.key));
            let events = &self.events;
            events
                .publish(about, EventType::Normal, "CatalogServed", "Serve", &note)
                .await;
        }
    }

    pub(super) async fn fails(&self, stand: &Stand, about: &ObjectReference, why: String) {
        let is_new = {
            let mut state = stand.state();
            let is_new = state.trouble.as_ref() != Some(&why);
            state.trouble = Some(why.clone());
            is_new
        };
        self.metrics.served(&stand.key, false);
        if is_new {
            self.waiting.wake(&stand.key);
            warn!(catalog = %stand.key, error = why, "a catalog cannot be served");
            let events = &self.events;
            events
                .publish(about, EventType::Warning, "CatalogNotServed", "Serve", &why)
                .await;
        }
    }
}

/// How making the objects of a stand what they should be went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Well,
    /// Somebody had changed them.
    Repaired,
    Failed,
}

/// Does what is to be done at a stand whenever somebody says so, and again for as long as it fails. Who changes the
/// objects again and again finds them repaired less and less often.
pub(super) async fn tend(shared: Arc<Shared>, stand: Arc<Stand>) {
    let mut patience = Patience::default();
    let mut last = Instant::now();
    loop {
        stand.wake.notified().await;
        if last.elapsed() > QUIET {
            patience.is_read();
        }
        loop {
            match shared.settle(&stand).await {
                Outcome::Well => break,
                Outcome::Repaired => {
                    last = Instant::now();
                    sleep(patience.pause(last)).await;
                    break;
                }
                Outcome::Failed => {
                    last = Instant::now();
                    let pause = patience.pause(last);
                    tokio::select! {
                        () = sleep(pause) => {}
                        // Perhaps what was in the way is gone.
                        () = stand.wake.notified() => {}
                    }
                }
            }
        }
    }
}

// === impl Stand ===

impl Stand {
    pub(super) fn new(key: Key, holder: u64) -> Self {
        Self {
            key,
            holder: AtomicU64::new(holder),
            port: AtomicU16::default(),
            shown: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            kept: Mutex::default(),
            wake: Notify::new(),
            concluded: Sender::default(),
        }
    }

    fn registered(
        &self,
        declared: &Declared,
        created_at: Option<Time>,
        digest: Digest,
        since: Timestamp,
    ) -> Registered {
        Registered {
            service: RegistryService {
                protocol: Some("grpc".to_owned()),
                service_name: Some(declared.service_name()),
                service_namespace: Some(self.key.namespace.clone()),
                port: Some(objects::PORT.to_string()),
                created_at,
            },
            address: objects::address(&self.key),
            digest,
            since,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
