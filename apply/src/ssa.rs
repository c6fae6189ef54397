//! Applying a plan: concurrent server-side apply in waves, and pruning.

pub(crate) mod apply_object;
mod conflict_response;
mod crd_establish;
mod dry_run;
pub(crate) mod failure;
mod recreate;
pub(crate) mod request;
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
    discovery::Discovery,
    managed_fields::Fingerprint,
    plan::{ApplyStep, InstanceOwner, Wave, is_definition, is_namespace},
    revision::ObjectHash,
};

use self::crd_establish::AppliedCrd;
pub use self::{
    recreate::{Immutable, JobState, Obstacle, Permission, Preview, Recreation},
    split::split,
};
pub use manifests::api::MANAGER;

/// An applied object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedObject {
    /// The uid of the object.
    pub uid: String,
    /// The resourceVersion of the object. It is unchanged if the apply changed nothing.
    pub resource_version: String,
    /// Fingerprint of the provisioner's fields; `None` if an admission webhook removed the managedFields.
    pub fields: Option<Fingerprint>,
    /// Hash of the recorded form that was applied.
    pub hash: Option<ObjectHash>,
    /// Conflicting fields that were overwritten with force.
    pub forced_fields: Vec<Conflict>,
    /// Conflicting fields that were left to a scaler.
    pub scaler_fields: Vec<Conflict>,
}

/// A field that another field manager has set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Path of the field, for example `.spec.replicas`.
    pub field: String,
    /// Name of the field manager.
    pub manager: String,
    /// Subresource through which the field was set; empty for the object itself.
    pub subresource: String,
}

/// An object that the API server rejected, or that could not be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyFailure {
    /// Object that could not be applied.
    pub identity: Identity,
    /// Complete message: the object, the reason of the API server, and the remedy.
    pub message: String,
    /// Category of the failure.
    pub cause: FailureKind,
}

/// Category of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// The object is invalid; a retry does not help.
    Invalid,
    /// The account lacks permissions.
    Forbidden,
    /// An admission webhook or policy denied the object.
    Denied,
    /// The API of the object is not served, or no longer served.
    NotServed,
    /// The namespace of the object does not exist, or is terminating.
    Namespace,
    /// A CRD was not Established, or not served, in time.
    NotEstablished,
    /// The object is terminating; it can be applied again after its deletion.
    Deleting,
    /// A timeout, throttling, a conflict, or an unavailable API server.
    Transient,
}

/// Result of applying steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Applied objects.
    pub applied: BTreeMap<Identity, AppliedObject>,
    /// Objects that could not be applied. Unless failures are ignored, the waves after the first failure were not started.
    pub failed: Vec<ApplyFailure>,
    /// Wave that could not be completed; `None` if all waves were applied.
    pub stopped_in: Option<Wave>,
}

/// Client of the apply engine, with its limits.
pub struct Applier<'a> {
    /// Client with the permissions that the objects are applied with.
    pub client: &'a Client,
    /// Discovery cache; the groups of applied CRDs are invalidated.
    pub kinds: &'a Discovery,
    /// Maximum number of concurrent requests.
    pub concurrency: usize,
    /// Permits for requests about objects, shared with other callers.
    pub permits: &'a Semaphore,
}

impl Applier<'_> {
    /// Applies steps, wave by wave. All failures of a wave are reported together, and later waves are not started. If the
    /// API server repeatedly does not respond, the remaining objects of the wave are not attempted.
    pub async fn run(&self, steps: &[ApplyStep]) -> ApplyReport {
        self.waves(steps, &[], AfterFailure::Stop, None).await
    }

    /// Applies the next objects of a rollout, as [`split`] returns them, like [`Self::run`], and recreates objects where
    /// that is permitted. Before custom resources are applied, the CRDs of earlier steps must be served, too.
    pub async fn roll_out(
        &self,
        steps: &[ApplyStep],
        crds: &[&ApplyStep],
        recreation: &Recreation<'_>,
    ) -> ApplyReport {
        self.waves(steps, crds, AfterFailure::Stop, Some(recreation))
            .await
    }

    /// Applies steps, wave by wave, and continues after failures. Only objects whose Namespace or CRD could not be applied
    /// are skipped.
    pub async fn repair(&self, steps: &[ApplyStep]) -> ApplyReport {
        self.waves(steps, &[], AfterFailure::Continue, None).await
    }

    async fn waves(
        &self,
        steps: &[ApplyStep],
        crds: &[&ApplyStep],
        after_failure: AfterFailure,
        recreation: Option<&Recreation<'_>>,
    ) -> ApplyReport {
        let mut report = ApplyReport::default();
        let mut batches: BTreeMap<(Wave, bool), Vec<&ApplyStep>> = BTreeMap::new();
        for step in steps {
            let applied_last = is_applied_last(step);
            batches
                .entry((step.wave, applied_last))
                .or_default()
                .push(step);
        }
        // Discovery polls these groups while the earlier waves are applied.
        let needed_groups: BTreeSet<String> = steps
            .iter()
            .filter(|step| step.wave == Wave::Resources)
            .map(|step| step.object.group().to_owned())
            .collect();
        for group in &needed_groups {
            self.kinds.request_group(group);
        }
        // `<plural>.<group>` is the name of a CRD.
        let is_needed = |crd: &ApplyStep| {
            let group = crd.object.name().split_once('.');
            group.is_some_and(|(_, group)| needed_groups.contains(group))
        };
        let crds = crds.iter().copied();
        let mut pending_crds: Vec<&ApplyStep> = crds.filter(|step| is_needed(step)).collect();
        for ((wave, _), mut batch) in batches {
            if wave == Wave::Resources {
                report
                    .failed
                    .extend(self.wait_until_served(&pending_crds).await);
                if !report.failed.is_empty() && after_failure == AfterFailure::Stop {
                    report.stopped_in = Some(Wave::Definitions);
                    break;
                }
            }
            batch.retain(|step| !depends_on_failed(step, &report.failed));
            let outcomes = self
                .for_each_bounded(&batch, |step| self.apply_step(step, recreation))
                .await;
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
                let mut crds = Vec::new();
                for step in batch {
                    if let Some(applied) = report.applied.get(&step.object.identity()) {
                        crds.push(AppliedCrd { step, applied });
                        if is_needed(step) {
                            pending_crds.push(step);
                        }
                    }
                }
                let failures = self.wait_until_established(&crds).await;
                report.failed.extend(failures);
            }
            if !report.failed.is_empty() && after_failure == AfterFailure::Stop {
                report.stopped_in = Some(wave);
                break;
            }
        }
        report.failed.sort_by(|a, b| a.identity.cmp(&b.identity));
        report
    }

    /// Applies steps as a dry run. Failures of objects whose Namespace or CRD is in the same plan are ignored: the API
    /// server cannot evaluate them yet.
    pub async fn dry_run(&self, steps: &[&ApplyStep], owner: &InstanceOwner) -> Preview {
        let planned = dry_run::PlannedObjects::new(steps);
        let applicable: Vec<&ApplyStep> = steps
            .iter()
            .copied()
            .filter(|step| step.wave != Wave::Resources)
            .collect();
        let outcomes = self
            .for_each_bounded(&applicable, |step| self.dry_run_step(step, owner))
            .await;
        let mut preview = Preview::default();
        for outcome in outcomes.into_iter().flatten() {
            match outcome {
                Ok(immutable) => preview.immutable.extend(immutable),
                Err(failure) if planned.is_expected(&failure) => {}
                Err(failure) => preview.failed.push(failure),
            }
        }
        preview.failed.sort_by(|a, b| a.identity.cmp(&b.identity));
        preview
    }

    /// Processes items with bounded concurrency and returns the results in order. `None` stands for an item that was not
    /// attempted because the API server did not respond to earlier requests.
    pub(crate) async fn for_each_bounded<'s, T, R, F>(
        &self,
        items: &[&'s T],
        process: impl Fn(&'s T) -> F,
    ) -> Vec<Option<Result<R, ApplyFailure>>>
    where
        F: Future<Output = Result<R, ApplyFailure>>,
    {
        let concurrency = self.concurrency.max(1);
        let unanswered = AtomicUsize::new(0);
        // The futures are created before they are awaited: a closure in the stream would make the whole future not Send.
        let requests: Vec<_> = items
            .iter()
            .map(|item| {
                let unanswered = &unanswered;
                let process = &process;
                async move {
                    if unanswered.load(Ordering::Relaxed) >= 2 * concurrency {
                        return None;
                    }
                    let outcome = process(item).await;
                    match &outcome {
                        Err(failure) if failure.cause == FailureKind::Transient => {
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

/// Handling of the waves after one with failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFailure {
    /// Later waves are not started.
    Stop,
    /// Later waves are applied, except for objects that depend on a failed object.
    Continue,
}

/// Reports whether the Namespace or the CustomResourceDefinition that an object needs could not be applied.
fn depends_on_failed(step: &ApplyStep, failed: &[ApplyFailure]) -> bool {
    let object = &step.object;
    failed.iter().any(|failure| {
        let identity = &failure.identity;
        let is_namespace = is_namespace(identity) && identity.name == object.namespace();
        // `<plural>.<group>` is the name of a CRD.
        let is_definition = is_definition(identity)
            && identity.name.split_once('.')
                == Some((step.kind.resource.plural.as_str(), object.group()));
        is_namespace || is_definition
    })
}

/// Reports whether an object is applied last within its wave: it refers to other objects by name, and the API server checks
/// the reference.
fn is_applied_last(step: &ApplyStep) -> bool {
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

/// Result of pruning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Objects that were deleted, or that terminate without finalizers.
    pub deleted: Vec<Identity>,
    /// Objects that are terminating and wait for finalizers; they must be checked again.
    pub terminating: Vec<Identity>,
    /// Reason why a terminating object still exists, if known (`3 custom resources are being deleted (…)`).
    pub waiting_for: BTreeMap<Identity, String>,
    /// Objects that were kept and released from the instance, with the reason (`CustomResourceDefinition x.y: 3 custom
    /// resources are left (…); delete them and then the CRD, or …`).
    pub released: BTreeMap<Identity, String>,
    /// Objects that could not be deleted.
    pub failed: Vec<ApplyFailure>,
}

impl PruneReport {
    /// Formats a terminating object with the reason why it still exists.
    pub fn line(&self, identity: &Identity) -> String {
        match self.waiting_for.get(identity) {
            Some(reason) => format!("{identity}: {reason}"),
            None => identity.to_string(),
        }
    }
}
