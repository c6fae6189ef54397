//! Doing what a plan says: server-side apply in waves, many objects at once, and deleting what leaves.

mod conflict;
mod dry;
mod established;
mod failure;
mod object;
pub mod prune;
mod recreate;
mod request;
mod split;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt, stream};
use kube::Client;
use manifests::object::{Identity, text};
use tokio::sync::Semaphore;

use crate::{
    discovery::Kinds,
    drift::Fingerprint,
    plan::{Owner, Step, Wave, is_definition, is_namespace},
    revision::ObjectHash,
};

use self::established::Fresh;
pub use self::{
    recreate::{Immutable, JobState, Obstacle, Permission, Preview, Recreation},
    split::split,
};
pub use manifests::api::MANAGER;

/// An object that is in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion: equal to the one before when nothing changed.
    pub resource_version: String,
    /// Which of its fields are ours; `None` where an admission webhook took away who set what.
    pub fields: Option<Fingerprint>,
    /// The hash of the form that was applied.
    pub hash: Option<ObjectHash>,
    /// Fields that others had set, and that were taken over.
    pub taken: Vec<Conflict>,
    /// Fields that were left to a scaler.
    pub yielded: Vec<Conflict>,
}

/// A field that somebody else has set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// `.spec.replicas`
    pub field: String,
    /// Who.
    pub manager: String,
    /// Through which subresource, empty for the object itself.
    pub subresource: String,
}

/// An object that the API server did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub identity: Identity,
    /// What the API server said, and what to do: complete and readable.
    pub message: String,
    /// What kind of failure it is.
    pub cause: Cause,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The object is invalid: trying again does not help.
    Invalid,
    /// The account lacks rights.
    Forbidden,
    /// An admission webhook or policy denied it.
    Denied,
    /// Its API is not served (any more).
    NotServed,
    /// Its namespace does not exist, or is terminating.
    Namespace,
    /// A definition did not become Established in time.
    NotEstablished,
    /// The object is being deleted; it can be applied again afterwards.
    Deleting,
    /// Timeouts, throttling, conflicts, an API server that is not there.
    Transient,
}

/// The outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What is in place now.
    pub applied: BTreeMap<Identity, Applied>,
    /// What is not, and why. Waves after the first with failures were not begun.
    pub failed: Vec<Failure>,
    /// The wave that could not be finished.
    pub stopped_in: Option<Wave>,
}

/// How to apply.
pub struct Apply<'a> {
    /// With whose rights.
    pub client: &'a Client,
    /// To forget the groups of definitions that were applied.
    pub kinds: &'a Kinds,
    /// How many requests at once.
    pub concurrency: usize,
    /// Permits for objects, which others take from as well.
    pub permits: &'a Semaphore,
}

impl Apply<'_> {
    /// Applies steps, wave by wave. All failures of a wave are reported together, and later waves are not begun; when the
    /// API server does not answer again and again, the rest of the wave is not tried.
    pub async fn run(&self, steps: &[Step]) -> Report {
        self.waves(steps, &[], AfterFailure::Stop, None).await
    }

    /// Applies the next objects of a rollout, as [`split`] returns them, like [`Self::run`], and recreates objects where that is
    /// permitted. Before custom resources are applied, the definitions that an earlier step has applied must be served, too.
    pub async fn roll_out(
        &self,
        steps: &[Step],
        definitions: &[&Step],
        recreation: &Recreation<'_>,
    ) -> Report {
        self.waves(steps, definitions, AfterFailure::Stop, Some(recreation))
            .await
    }

    /// Applies steps, wave by wave, past failures: only what lives in a namespace, or is of a kind, that could not be applied
    /// is left out.
    pub async fn repair(&self, steps: &[Step]) -> Report {
        self.waves(steps, &[], AfterFailure::Continue, None).await
    }

    async fn waves(
        &self,
        steps: &[Step],
        definitions: &[&Step],
        after_failure: AfterFailure,
        recreation: Option<&Recreation<'_>>,
    ) -> Report {
        let mut report = Report::default();
        let mut batches: BTreeMap<(Wave, bool), Vec<&Step>> = BTreeMap::new();
        for step in steps {
            let late = is_late(step);
            batches.entry((step.wave, late)).or_default().push(step);
        }
        // Discovery tells of them while other things are applied.
        let awaited: BTreeSet<String> = steps
            .iter()
            .filter(|step| step.wave == Wave::Resources)
            .map(|step| step.object.group().to_owned())
            .collect();
        for group in &awaited {
            self.kinds.seek(group);
        }
        // `<plural>.<group>` is the name of a definition.
        let is_awaited = |definition: &Step| {
            let group = definition.object.name().split_once('.');
            group.is_some_and(|(_, group)| awaited.contains(group))
        };
        let definitions = definitions.iter().copied();
        let mut appearing: Vec<&Step> = definitions.filter(|step| is_awaited(step)).collect();
        for ((wave, _), mut batch) in batches {
            if wave == Wave::Resources {
                report.failed.extend(self.are_served(&appearing).await);
                if !report.failed.is_empty() && after_failure == AfterFailure::Stop {
                    report.stopped_in = Some(Wave::Definitions);
                    break;
                }
            }
            batch.retain(|step| !depends_on_failed(step, &report.failed));
            let outcomes = self.each(&batch, |step| self.place(step, recreation)).await;
            for (step, outcome) in batch.iter().zip(outcomes) {
                match outcome {
                    Some(Ok(applied)) => {
                        report.applied.insert(step.object.identity(), applied);
                    }
                    Some(Err(failure)) => report.failed.push(failure),
                    None => {}
                }
            }
            if wave == Wave::Definitions {
                let mut definitions = Vec::new();
                for step in batch {
                    if let Some(applied) = report.applied.get(&step.object.identity()) {
                        definitions.push(Fresh { step, applied });
                        if is_awaited(step) {
                            appearing.push(step);
                        }
                    }
                }
                let late = self.established(&definitions).await;
                report.failed.extend(late);
            }
            if !report.failed.is_empty() && after_failure == AfterFailure::Stop {
                report.stopped_in = Some(wave);
                break;
            }
        }
        report.failed.sort_by(|a, b| a.identity.cmp(&b.identity));
        report
    }

    /// Asks the API server what it would answer, without a change. Objects that it cannot judge yet, because their namespace
    /// or definition comes with the same plan, are passed over.
    pub async fn dry_run(&self, steps: &[&Step], owner: &Owner) -> Preview {
        let known = dry::Known::of(steps);
        let judged: Vec<&Step> = steps
            .iter()
            .copied()
            .filter(|step| step.wave != Wave::Resources)
            .collect();
        let outcomes = self.each(&judged, |step| self.try_out(step, owner)).await;
        let mut preview = Preview::default();
        for outcome in outcomes.into_iter().flatten() {
            match outcome {
                Ok(immutable) => preview.immutable.extend(immutable),
                Err(failure) if known.explains(&failure) => {}
                Err(failure) => preview.failed.push(failure),
            }
        }
        preview.failed.sort_by(|a, b| a.identity.cmp(&b.identity));
        preview
    }

    /// Does something to each of many, a bounded number at once, results in order. `None` was not tried because the
    /// API server did not answer for others.
    async fn each<'s, T, R, F>(
        &self,
        all: &[&'s T],
        act: impl Fn(&'s T) -> F,
    ) -> Vec<Option<Result<R, Failure>>>
    where
        F: Future<Output = Result<R, Failure>>,
    {
        let concurrency = self.concurrency.max(1);
        let unanswered = AtomicUsize::new(0);
        // Made before they are awaited: a closure in the stream would keep the whole from being Send.
        let requests: Vec<_> = all
            .iter()
            .map(|one| {
                let unanswered = &unanswered;
                let act = &act;
                async move {
                    if unanswered.load(Ordering::Relaxed) >= 2 * concurrency {
                        return None;
                    }
                    let outcome = act(one).await;
                    match &outcome {
                        Err(failure) if failure.cause == Cause::Transient => {
                            unanswered.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => unanswered.store(0, Ordering::Relaxed),
                    }
                    Some(outcome)
                }
            })
            .collect();
        stream::iter(requests).buffered(concurrency).collect().await
    }
}

/// The fate of the waves after one with failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFailure {
    /// They are not begun.
    Stop,
    /// They are applied, apart from what depends on a failed object.
    Continue,
}

/// Reports whether the Namespace or the CustomResourceDefinition that an object needs could not be applied.
fn depends_on_failed(step: &Step, failed: &[Failure]) -> bool {
    let object = &step.object;
    failed.iter().any(|failure| {
        let identity = &failure.identity;
        let is_namespace = is_namespace(identity) && identity.name == object.namespace();
        // `<plural>.<group>` is the name of a definition.
        let is_definition = is_definition(identity)
            && identity.name.split_once('.')
                == Some((step.kind.resource.plural.as_str(), object.group()));
        is_namespace || is_definition
    })
}

/// Within a wave, what points at others by name, which the API server checks, comes after them.
fn is_late(step: &Step) -> bool {
    let object = &step.object;
    match (object.group(), object.kind()) {
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding")
        | ("admissionregistration.k8s.io" | "apiregistration.k8s.io", _) => true,
        ("", "Secret") => {
            text(object.value(), &["type"]) == Some("kubernetes.io/service-account-token")
        }
        _ => false,
    }
}

/// What became of what leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Gone, or going without a need to wait.
    pub deleted: Vec<Identity>,
    /// Deleted, and still there because of finalizers: look again.
    pub going: Vec<Identity>,
    /// What those that are going wait for, where that is known (`3 custom resources are being deleted (…)`).
    pub waiting_for: BTreeMap<Identity, String>,
    /// Left in the cluster on purpose, released from the instance: which, and why (`CustomResourceDefinition x.y: 3
    /// custom resources are left (…); delete them and then it, or …`).
    pub released: BTreeMap<Identity, String>,
    /// Could not be deleted.
    pub failed: Vec<Failure>,
}

impl Pruned {
    /// An object that is going, and what it waits for.
    pub fn line(&self, identity: &Identity) -> String {
        match self.waiting_for.get(identity) {
            Some(what) => format!("{identity}: {what}"),
            None => identity.to_string(),
        }
    }
}
