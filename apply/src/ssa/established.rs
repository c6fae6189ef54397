//! Waiting until the kinds of applied definitions can be used.
//!
//! The watch of definitions tells, and asks discovery once for all who wait. Where it does not run, or is late, the
//! API server is asked from here.

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
    Applied, Apply, Cause, Failure, failure,
    request::{Address, Trouble, send},
};
use crate::{
    discovery::{
        Remembered, State,
        definition::{Definition, Spec},
    },
    plan::Step,
};

/// How long all definitions of a bundle together may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two questions, where nobody tells.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The same, where somebody does.
const FIRST_DOUBT: Duration = Duration::from_secs(5);
const LONGEST_DOUBT: Duration = Duration::from_secs(8);

/// A definition that was just applied.
pub(super) struct Fresh<'a> {
    pub(super) step: &'a Step,
    pub(super) applied: &'a Applied,
}

impl Apply<'_> {
    /// Waits until definitions are Established.
    pub(super) async fn established(&self, definitions: &[Fresh<'_>]) -> Vec<Failure> {
        let deadline = Instant::now() + PATIENCE;
        let all: Vec<&Fresh<'_>> = definitions.iter().collect();
        self.each(&all, |fresh| self.is_established(fresh, deadline))
            .await
            .into_iter()
            .flatten()
            .filter_map(Result::err)
            .collect()
    }

    async fn is_established(&self, fresh: &Fresh<'_>, deadline: Instant) -> Result<(), Failure> {
        let identity = fresh.step.object.identity();
        let mut told = self.kinds.definitions();
        let mut pauses = Pauses::of(told.as_ref());
        let mut said = None;
        loop {
            let state = self.kinds.definition(&identity.name);
            let mut state = state.filter(|state| fresh.is_it(state));
            let is_decided = |state: &State| state.established || state.refused.is_some();
            if !state.as_ref().is_some_and(is_decided) && pauses.is_over() {
                let asked = self.ask(fresh).await;
                let asked = asked.map_err(|trouble| failure::of(identity.clone(), &trouble))?;
                said = asked.status.as_ref().and_then(|status| {
                    let said = status.condition("Established")?;
                    Some(said.message.clone())
                });
                pauses.begin();
                state = Some(State::of(&asked));
            }
            match state {
                Some(State {
                    established: true, ..
                }) => return Ok(()),
                Some(State {
                    refused: Some(message),
                    ..
                }) => {
                    let problem = format!(
                        "its names are not accepted: {message}; remove the definition that uses them already, or choose \
                         others"
                    );
                    return Err(failure::new(identity, Cause::NotEstablished, &problem));
                }
                _ if Instant::now() > deadline => {
                    let said = said.as_deref().unwrap_or("the apiserver does not say why");
                    let problem = format!(
                        "is not Established after {} s: {said}; it is waited for again",
                        PATIENCE.as_secs()
                    );
                    return Err(failure::new(identity, Cause::NotEstablished, &problem));
                }
                _ => pauses.wait(told.as_mut()).await,
            }
        }
    }

    async fn ask(&self, fresh: &Fresh<'_>) -> Result<Definition, Trouble> {
        let address = Address::of(&fresh.step.kind, &fresh.step.object.identity())?;
        let request = || address.collection.get(&address.name, &GetParams::default());
        send(self.client, request).await
    }

    /// Waits until discovery tells of all that Established definitions serve, which follows the condition, and a new
    /// version, with a delay. Only what brings custom resources as well has to.
    pub(super) async fn are_served(&self, definitions: &[&Step]) -> Vec<Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut wanted: HashMap<GroupVersionKind, Identity> = HashMap::new();
        for step in definitions {
            let spec = step.object.value().get("spec");
            let Some(spec) = spec.and_then(|spec| Spec::deserialize(spec).ok()) else {
                continue;
            };
            for version in spec.served() {
                let gvk = GroupVersionKind::gvk(&spec.group, version, &spec.names.kind);
                wanted.insert(gvk, step.object.identity());
            }
        }
        let groups: BTreeSet<String> = wanted.keys().map(|kind| kind.group.clone()).collect();
        let is_told = self.kinds.definitions().is_some();
        let mut told = is_told.then(|| self.kinds.changes());
        let mut pauses = Pauses::of(told.as_ref());
        let mut problem = String::new();
        loop {
            if is_told {
                let remembered = |kind: &_| self.kinds.remembered(kind);
                wanted.retain(|kind, _| !matches!(remembered(kind), Remembered::Served(_)));
            }
            if !wanted.is_empty() && pauses.is_over() {
                for group in &groups {
                    self.kinds.forget(group);
                }
                problem = match self.kinds.find(wanted.keys().cloned()).await {
                    Ok(found) => {
                        wanted.retain(|kind, _| found.get(kind).is_none_or(Option::is_none));
                        String::new()
                    }
                    Err(error) => format!(" ({error})"),
                };
                pauses.begin();
            }
            if wanted.is_empty() {
                return Vec::new();
            }
            if Instant::now() > deadline {
                let late = wanted.iter().map(|(kind, identity)| {
                    let problem = format!(
                        "{} {} is Established and still not served{problem}; it is waited for again",
                        kind.kind,
                        kind.api_version()
                    );
                    failure::new(identity.clone(), Cause::NotEstablished, &problem)
                });
                return late.collect();
            }
            pauses.wait(told.as_mut()).await;
        }
    }
}

impl Fresh<'_> {
    /// Reports whether this is told of what was applied, and not of what was there before.
    fn is_it(&self, state: &State) -> bool {
        let applied = self.applied.resource_version.parse().unwrap_or(0);
        state.uid == self.applied.uid && state.version >= applied
    }
}

/// When the API server is asked.
struct Pauses {
    next: Instant,
    pause: Duration,
    longest: Duration,
}

impl Pauses {
    /// Now, and then every now and then; where somebody tells, only when that is late.
    fn of<T>(told: Option<&watch::Receiver<T>>) -> Self {
        let now = Instant::now();
        match told {
            Some(_) => Self {
                next: now + FIRST_DOUBT,
                pause: FIRST_DOUBT,
                longest: LONGEST_DOUBT,
            },
            None => Self {
                next: now,
                pause: FIRST_PAUSE,
                longest: LONGEST_PAUSE,
            },
        }
    }

    fn is_over(&self) -> bool {
        self.next <= Instant::now()
    }

    fn begin(&mut self) {
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(self.longest);
    }

    /// Waits until there is news, or the pause is over.
    async fn wait<T>(&self, told: Option<&mut watch::Receiver<T>>) {
        if let Some(told) = told {
            // Who tells lives as long as the process.
            if !matches!(timeout_at(self.next, told.changed()).await, Ok(Err(_))) {
                return;
            }
        }
        sleep(self.next.saturating_duration_since(Instant::now())).await;
    }
}
