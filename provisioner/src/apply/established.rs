//! Waiting until the kinds of applied definitions can be used.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use kube::{api::GetParams, core::GroupVersionKind};
use manifests::object::Identity;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{
    Apply, Cause, Failure, failure,
    request::{Address, send},
};
use crate::{
    kinds::definition::{Definition, Spec},
    plan::Step,
};

/// How long all definitions of a bundle together may take.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Apply<'_> {
    /// Waits until definitions are Established, and discovery tells of all they serve.
    pub(super) async fn established(&self, steps: &[&Step]) -> Vec<Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut failures: Vec<Failure> = self
            .each(steps, |step| self.is_established(step, deadline))
            .await
            .into_iter()
            .flatten()
            .filter_map(Result::err)
            .collect();
        if failures.is_empty() {
            failures = self.are_served(steps, deadline).await;
        }
        failures
    }

    async fn is_established(&self, step: &Step, deadline: Instant) -> Result<(), Failure> {
        let identity = step.object.identity();
        let trouble = |trouble| failure::of(step.object.identity(), &trouble);
        let address = Address::of(&step.kind, &identity).map_err(trouble)?;
        let mut pause = FIRST_PAUSE;
        loop {
            let request = || address.collection.get(&address.name, &GetParams::default());
            let definition: Definition = send(self.client, request).await.map_err(trouble)?;
            let status = definition.status.unwrap_or_default();
            if status.is("Established") {
                return Ok(());
            }
            if let Some(names) = status.condition("NamesAccepted")
                && names.status == "False"
            {
                let problem = format!(
                    "its names are not accepted: {}; remove the definition that uses them already, or choose others",
                    names.message
                );
                return Err(not_established(identity, &problem));
            }
            if Instant::now() > deadline {
                let said = status.condition("Established");
                let said = said.map_or("the apiserver does not say why", |said| &said.message);
                let problem = format!(
                    "is not Established after {} s: {said}; it is waited for again",
                    PATIENCE.as_secs()
                );
                return Err(not_established(identity, &problem));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Discovery follows the condition, and a new version of an Established definition, with a delay.
    async fn are_served(&self, steps: &[&Step], deadline: Instant) -> Vec<Failure> {
        let mut wanted: HashMap<GroupVersionKind, Identity> = HashMap::new();
        for step in steps {
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
        let mut pause = FIRST_PAUSE;
        loop {
            for group in &groups {
                self.kinds.forget(group);
            }
            let problem = match self.kinds.find(wanted.keys().cloned()).await {
                Ok(found) => {
                    wanted.retain(|kind, _| found.get(kind).is_none_or(Option::is_none));
                    if wanted.is_empty() {
                        return Vec::new();
                    }
                    String::new()
                }
                Err(error) => format!(" ({error})"),
            };
            if Instant::now() > deadline {
                let late = wanted.iter().map(|(kind, identity)| {
                    let problem = format!(
                        "{} {} is Established and still not served{problem}; it is waited for again",
                        kind.kind,
                        kind.api_version()
                    );
                    not_established(identity.clone(), &problem)
                });
                return late.collect();
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn not_established(identity: Identity, problem: &str) -> Failure {
    Failure {
        message: failure::sentence(&identity, problem),
        identity,
        cause: Cause::NotEstablished,
    }
}
