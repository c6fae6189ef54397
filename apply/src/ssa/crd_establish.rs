//! Waiting until applied CRDs are Established and served.
//!
//! The watch of CRDs reports changes, and one discovery request serves all waiting tasks. If the watch does not run, or is
//! late, this module sends requests itself.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use kube::{api::GetParams, core::GroupVersionKind};
use manifests::object::Identity;
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    AppliedObject, Applier, ApplyFailure, FailureKind, failure,
    request::{ApiError, ResourcePath, send},
};
use crate::{
    api_error,
    discovery::{
        CachedKind, CrdState,
        crd::{PartialCrd, Spec},
    },
    plan::ApplyStep,
};

/// Timeout for all CRDs of a bundle together.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between two requests without a watch.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between two requests while a watch reports changes.
const MIN_FALLBACK_INTERVAL: Duration = Duration::from_secs(5);
const MAX_FALLBACK_INTERVAL: Duration = Duration::from_secs(8);

/// A CRD that was just applied.
pub(super) struct AppliedCrd<'a> {
    pub(super) step: &'a ApplyStep,
    pub(super) applied: &'a AppliedObject,
}

impl Applier<'_> {
    /// Waits until CRDs are Established, and returns the failures.
    pub(super) async fn wait_until_established(
        &self,
        crds: &[AppliedCrd<'_>],
    ) -> Vec<ApplyFailure> {
        let deadline = Instant::now() + ESTABLISH_TIMEOUT;
        let all: Vec<&AppliedCrd<'_>> = crds.iter().collect();
        self.for_each_bounded(&all, |applied_crd| self.wait_for_crd(applied_crd, deadline))
            .await
            .into_iter()
            .flatten()
            .filter_map(Result::err)
            .collect()
    }

    async fn wait_for_crd(
        &self,
        applied_crd: &AppliedCrd<'_>,
        deadline: Instant,
    ) -> Result<(), ApplyFailure> {
        let identity = applied_crd.step.object.identity();
        let mut changes = self.kinds.crds();
        let mut schedule = PollSchedule::new(changes.as_ref());
        let mut condition_message = None;
        loop {
            let state = self.kinds.crd(&identity.name);
            let mut state = state.filter(|state| applied_crd.is_same_object(state));
            let is_decided =
                |state: &CrdState| state.established || state.names_not_accepted.is_some();
            if !state.as_ref().is_some_and(is_decided) && schedule.is_due() {
                let crd = self.get_crd(applied_crd).await;
                let crd = crd.map_err(|error| failure::classify(identity.clone(), &error))?;
                condition_message = crd.status.as_ref().and_then(|status| {
                    let condition = status.condition("Established")?;
                    Some(condition.message.clone())
                });
                schedule.schedule_next();
                state = Some(CrdState::from_crd(&crd));
            }
            match state {
                Some(CrdState {
                    established: true, ..
                }) => return Ok(()),
                Some(CrdState {
                    names_not_accepted: Some(message),
                    ..
                }) => {
                    let problem = format!(
                        "names not accepted: {message}; delete the CRD that already uses them, or choose other names"
                    );
                    return Err(failure::new(
                        identity,
                        FailureKind::NotEstablished,
                        &problem,
                    ));
                }
                _ if Instant::now() > deadline => {
                    let condition_message =
                        condition_message.as_deref().unwrap_or("no reason given");
                    let problem = format!(
                        "is not Established after {} s: {condition_message}; retrying",
                        ESTABLISH_TIMEOUT.as_secs()
                    );
                    return Err(failure::new(
                        identity,
                        FailureKind::NotEstablished,
                        &problem,
                    ));
                }
                _ => schedule.wait(changes.as_mut()).await,
            }
        }
    }

    async fn get_crd(&self, applied_crd: &AppliedCrd<'_>) -> Result<PartialCrd, ApiError> {
        let path = ResourcePath::new(&applied_crd.step.kind, &applied_crd.step.object.identity())?;
        let request = || path.collection.get(&path.name, &GetParams::default());
        send(self.client, request).await
    }

    /// Waits until discovery shows all kinds and versions of Established CRDs, which follow the condition with a delay.
    /// This is only necessary before custom resources of the same bundle are applied.
    pub(super) async fn wait_until_served(&self, crds: &[&ApplyStep]) -> Vec<ApplyFailure> {
        let deadline = Instant::now() + ESTABLISH_TIMEOUT;
        let mut missing: HashMap<GroupVersionKind, Identity> = HashMap::new();
        for step in crds {
            let spec = step.object.value().get("spec");
            let Some(spec) = spec.and_then(|spec| Spec::deserialize(spec).ok()) else {
                continue;
            };
            for version in spec.served() {
                let gvk = GroupVersionKind::gvk(&spec.group, version, &spec.names.kind);
                missing.insert(gvk, step.object.identity());
            }
        }
        let groups: BTreeSet<String> = missing.keys().map(|kind| kind.group.clone()).collect();
        let is_watched = self.kinds.crds().is_some();
        let mut changes = is_watched.then(|| self.kinds.changes());
        let mut schedule = PollSchedule::new(changes.as_ref());
        let mut problem = String::new();
        loop {
            if is_watched {
                let cached = |kind: &_| self.kinds.cached(kind);
                missing.retain(|kind, _| !matches!(cached(kind), CachedKind::Served(_)));
            }
            if !missing.is_empty() && schedule.is_due() {
                for group in &groups {
                    self.kinds.invalidate(group);
                }
                problem = match self.kinds.find(missing.keys().cloned()).await {
                    Ok(found) => {
                        missing.retain(|kind, _| found.get(kind).is_none_or(Option::is_none));
                        String::new()
                    }
                    Err(error) => format!(" ({})", api_error::chain(&error)),
                };
                schedule.schedule_next();
            }
            if missing.is_empty() {
                return Vec::new();
            }
            if Instant::now() > deadline {
                let failures = missing.iter().map(|(kind, identity)| {
                    let problem = format!(
                        "{} {} is Established but not served yet{problem}; retrying",
                        kind.kind,
                        kind.api_version()
                    );
                    failure::new(identity.clone(), FailureKind::NotEstablished, &problem)
                });
                return failures.collect();
            }
            schedule.wait(changes.as_mut()).await;
        }
    }
}

impl AppliedCrd<'_> {
    /// Reports whether the state belongs to the applied object, and not to an earlier version of it.
    fn is_same_object(&self, state: &CrdState) -> bool {
        let applied = self.applied.resource_version.parse().unwrap_or(0);
        state.uid == self.applied.uid && state.version >= applied
    }
}

/// Schedule of requests to the API server.
struct PollSchedule {
    next: Instant,
    interval: Duration,
    max_interval: Duration,
}

impl PollSchedule {
    /// Creates a schedule. Without a watch, the first request is due at once. With one, requests are due only if the watch
    /// is late.
    fn new<T>(changes: Option<&watch::Receiver<T>>) -> Self {
        let now = Instant::now();
        match changes {
            Some(_) => Self {
                next: now + MIN_FALLBACK_INTERVAL,
                interval: MIN_FALLBACK_INTERVAL,
                max_interval: MAX_FALLBACK_INTERVAL,
            },
            None => Self {
                next: now,
                interval: MIN_POLL_INTERVAL,
                max_interval: MAX_POLL_INTERVAL,
            },
        }
    }

    fn is_due(&self) -> bool {
        self.next <= Instant::now()
    }

    fn schedule_next(&mut self) {
        self.next = Instant::now() + self.interval;
        self.interval = (self.interval * 2).min(self.max_interval);
    }

    /// Waits for a reported change or the next due request.
    async fn wait<T>(&self, changes: Option<&mut watch::Receiver<T>>) {
        if let Some(changes) = changes {
            // The sender exists as long as the process.
            if !matches!(timeout_at(self.next, changes.changed()).await, Ok(Err(_))) {
                return;
            }
        }
        sleep(self.next.saturating_duration_since(Instant::now())).await;
    }
}
