//! Recreation of objects: a rollout deletes and creates objects again if their new form changes immutable fields.
//!
//! The annotation `core.rukpak.io/recreate` of the new form decides, or else `spec.upgrade.recreate`. An annotation with
//! another value counts as `Never`, since it may have been meant to protect the object. Finished Jobs are recreated in any
//! case. An obstacle that makes a deletion unsafe overrides every permission ([`apply::ssa::Obstacle`]).
//!
//! The decision precedes the record of the revision: if one object may not be recreated, nothing is applied. Objects that
//! may be recreated are marked in the inventory, which is written before the rollout starts. A marked object that is
//! missing was deleted for the newest revision, by the provisioner or by an admin, and a repair creates it in the form of
//! that revision.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    inventory::Inventory,
    plan::ApplyStep,
    ssa::{self, Applier, ApplyReport, Immutable, JobState, Permission, Preview},
};
use kube::{Resource as _, runtime::events::EventType};
use manifests::{
    api::{
        bundle_instance::{BundleInstance, BundleInstanceSpec, Recreate},
        labels,
        owner::InstanceOwner,
    },
    object::{Identity, Object, get_path},
};
use tracing::info;

use super::message::{describe_rejections, retry_class};
use crate::controllers::bundle_instance::{
    outcome::RetryClass,
    state::{InstanceContext, InstanceState},
};

/// Maximum number of warnings about annotations.
const MAX_WARNINGS: usize = 20;

/// Policy for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Policy {
    /// Policy of the spec.
    Spec(Recreate),
    /// Policy of the annotation.
    Annotation(Recreate),
    /// The annotation has this value, which is neither `Never` nor `WhenImmutable`.
    Invalid(String),
}

/// Decision about the objects of a rollout.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Objects that the rollout recreates.
    pub(super) permissions: BTreeMap<Identity, Permission>,
    /// Failures of the objects that block the rollout.
    pub(super) refused: Vec<ssa::ApplyFailure>,
    /// Whether one of them is a Job that will be recreated once it is finished.
    pub(super) has_unfinished_job: bool,
}

/// Decides with a dry run of the new forms of objects.
///
/// While nothing is installed, the rollout itself reports the objects that the API server does not accept, and the dry run
/// covers only objects that an earlier attempt has applied.
pub(super) async fn decide(
    instance: &BundleInstance,
    inventory: &Inventory,
    apply: &Applier<'_>,
    owner: &InstanceOwner,
    changed: &[ApplyStep],
    is_installed: bool,
) -> Decision {
    let was_applied = |step: &ApplyStep| {
        let entry = inventory.get(&step.object.identity());
        entry.is_some_and(|entry| entry.fields.is_some() || entry.recreating)
    };
    let candidates: Vec<&ApplyStep> = changed
        .iter()
        .filter(|step| is_installed || was_applied(step))
        .collect();
    let mut preview = apply.dry_run(&candidates, owner).await;
    if !is_installed {
        preview
            .failed
            .retain(|failure| failure.cause == ssa::FailureKind::Deleting);
    }
    decision(&instance.spec, inventory, &candidates, preview)
}

fn decision(
    spec: &BundleInstanceSpec,
    inventory: &Inventory,
    steps: &[&ApplyStep],
    preview: Preview,
) -> Decision {
    let mut decision = Decision::default();
    for failure in preview.failed {
        let entry = inventory.get(&failure.identity);
        if failure.cause == ssa::FailureKind::Deleting
            && entry.is_some_and(|entry| entry.recreating)
        {
            let identity = failure.identity;
            decision.permissions.insert(identity, Permission::Await);
        } else {
            decision.refused.push(failure);
        }
    }
    let objects: BTreeMap<Identity, &Object> = steps
        .iter()
        .map(|step| (step.object.identity(), &step.object))
        .collect();
    for immutable in preview.immutable {
        let object = objects.get(&immutable.identity).copied();
        let policy = Policy::new(spec, object);
        if let Some(permission) = policy.permission(&immutable) {
            decision.permissions.insert(immutable.identity, permission);
        } else {
            decision.has_unfinished_job |=
                immutable.obstacle.is_none() && immutable.job == Some(JobState::Unfinished);
            let remedy = policy.remedy(immutable.job);
            decision.refused.push(immutable.refusal(&remedy));
        }
    }
    decision.refused.sort_by(|a, b| a.identity.cmp(&b.identity));
    decision
}

impl Decision {
    /// Returns the objects that the rollout recreates.
    ///
    /// # Errors
    /// Returns the message and the class of the delay until the next attempt if an object blocks the rollout.
    pub(super) fn permissions(
        self,
    ) -> Result<BTreeMap<Identity, Permission>, (String, RetryClass)> {
        if self.refused.is_empty() {
            return Ok(self.permissions);
        }
        let retry = match retry_class(&self.refused) {
            RetryClass::Backoff if self.has_unfinished_job => RetryClass::Soon,
            retry => retry,
        };
        Err((describe_rejections(&self.refused), retry))
    }
}

impl Policy {
    fn new(spec: &BundleInstanceSpec, object: Option<&Object>) -> Self {
        let annotation = object.and_then(|object| {
            get_path(
                object.value(),
                &["metadata", "annotations", labels::RECREATE],
            )
        });
        match annotation.map(|value| (value, value.as_str())) {
            None => Self::Spec(
                spec.upgrade
                    .as_ref()
                    .map_or_else(Recreate::default, |upgrade| upgrade.recreate),
            ),
            Some((_, Some("Never"))) => Self::Annotation(Recreate::Never),
            Some((_, Some("WhenImmutable"))) => Self::Annotation(Recreate::WhenImmutable),
            Some((value, text)) => {
                Self::Invalid(text.map_or_else(|| value.to_string(), str::to_owned))
            }
        }
    }

    fn permission(&self, immutable: &Immutable) -> Option<Permission> {
        if immutable.obstacle.is_some() {
            return None;
        }
        match self {
            Self::Spec(Recreate::WhenImmutable) | Self::Annotation(Recreate::WhenImmutable) => {
                Some(Permission::Delete)
            }
            _ => (immutable.job == Some(JobState::Finished)).then_some(Permission::DeleteFinished),
        }
    }

    fn remedy(&self, job: Option<JobState>) -> String {
        let wait = match job {
            Some(JobState::Unfinished) => "wait until the Job is finished, ",
            _ => "",
        };
        match self {
            Self::Spec(_) => {
                format!("{wait}set spec.upgrade.recreate: WhenImmutable, or delete the object")
            }
            Self::Annotation(_) => format!(
                "{wait}delete the object, or change its annotation {}: Never in the bundle",
                labels::RECREATE
            ),
            Self::Invalid(value) => format!(
                "{wait}delete the object, or change its annotation {} in the bundle from {value:?} to Never or \
                 WhenImmutable",
                labels::RECREATE
            ),
        }
    }
}

/// Returns a warning for each object whose annotation has an unknown value.
pub(super) fn warnings(spec: &BundleInstanceSpec, steps: &[ApplyStep]) -> Vec<String> {
    let invalid = steps.iter().filter_map(|step| {
        let Policy::Invalid(value) = Policy::new(spec, Some(&step.object)) else {
            return None;
        };
        Some(format!(
            "{}: annotation {} has the invalid value {value:?}, which is treated as Never; use Never or WhenImmutable",
            step.object.identity(),
            labels::RECREATE
        ))
    });
    invalid.take(MAX_WARNINGS).collect()
}

/// Returns the objects whose deletion starts the next attempt at once: those that cannot be changed to the form of the
/// revision, for example because an immutable field differs, and those that are terminating.
pub(crate) fn awaited(failures: &[ssa::ApplyFailure]) -> BTreeSet<Identity> {
    let awaited = failures.iter().filter(|failure| {
        matches!(
            failure.cause,
            ssa::FailureKind::Invalid | ssa::FailureKind::Deleting
        )
    });
    awaited.map(|failure| failure.identity.clone()).collect()
}

/// Marks the objects that a rollout recreates. An object that an earlier rollout has deleted remains marked until it is
/// applied.
pub(super) fn mark(
    inventory: &mut Inventory,
    changed: &[ApplyStep],
    permissions: &BTreeMap<Identity, Permission>,
) {
    let changed: BTreeSet<Identity> = changed.iter().map(|step| step.object.identity()).collect();
    for (identity, entry) in inventory.iter_mut() {
        entry.recreating &= changed.contains(identity);
    }
    for identity in permissions.keys() {
        inventory.entry(identity.clone()).or_default().recreating = true;
    }
}

/// Publishes an event for each recreated object, before the marks are removed.
pub(super) async fn publish(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &InstanceState,
    report: &ApplyReport,
) {
    let is_marked = |identity: &&Identity| {
        let inventory = state.inventory.as_ref();
        let entry = inventory.and_then(|inventory| inventory.get(*identity));
        entry.is_some_and(|entry| entry.recreating)
    };
    for identity in report.applied.keys().filter(is_marked) {
        info!(object = %identity, "recreated");
        let note = format!("recreated {identity}: its immutable fields changed");
        let instance = instance.object_ref(&());
        let events = &shared.ctx.events;
        events
            .publish(&instance, EventType::Normal, "Recreated", "Recreate", &note)
            .await;
    }
}

#[cfg(test)]
mod tests;
