//! Recreation of objects: deletes objects whose new form changes immutable fields, and creates them again.
//!
//! ```text
//!  dry run ── 422 ─► assess ─┬─ a creation fails as well ─► ApplyFailure: the object is invalid
//!                            └─ a creation is valid ──────► Immutable: fields, obstacle ─► the caller permits the deletion
//!
//!  rollout, in the wave of the object:  apply ── 422 ─► assess ─► delete ─► wait ─► apply
//! ```
//!
//! The API server reports a changed immutable field like any other invalid field. A dry run of the creation decides,
//! without the text of a message. The API server defaults, admits and validates an object before it looks for an existing
//! one. The answer `AlreadyExists` therefore proves that the new form is valid and that only the existing object prevents
//! it. A creation that a policy or a quota would deny is found in the same way, before anything is deleted.
//!
//! The caller decides which objects are deleted ([`Permission`]). A reason that makes a deletion unsafe ([`Obstacle`])
//! precedes every permission: an object of another owner, a kind whose deletion loses data of users, data that other
//! clients have added. All of this is assessed again directly before the deletion, which names the uid and the
//! resourceVersion of the assessed object.
//!
//! A rollout waits a moment for the end of a deletion. An object with finalizers may take longer: it is reported as
//! [`FailureKind::Deleting`], and the caller continues once the object no longer exists. Before a rollout starts, the caller
//! records the objects that it recreates ([`crate::inventory::Entry::recreating`]), so that an object that is missing after
//! a crash is created in its new form.

mod existing;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use kube::{
    api::{GetParams, PostParams, Preconditions},
    core::response::Status,
};
use manifests::object::{Identity, Object, text};
use serde_json::Value;
use tokio::time::{Instant, sleep};

pub use self::existing::{JobState, Obstacle};
use self::existing::{job, obstacle, without_allocations};
use super::apply_object::{DryRun, ObjectMetadata, Rejection, is_owned};
use super::request::{ApiError, ResourcePath, retry_delay, send};
use super::{AppliedObject, Applier, ApplyFailure, FailureKind, MANAGER, failure};
use crate::{
    first_few,
    plan::{ApplyStep, InstanceOwner},
};

/// The time that a rollout waits for the end of a deletion.
const DELETION_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit after another object of the rollout has exceeded [`DELETION_TIMEOUT`].
const SHORT_DELETION_TIMEOUT: Duration = Duration::from_millis(100);
/// Shortest and longest interval between two requests for a terminating object.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INTERVAL: Duration = Duration::from_millis(320);
/// Maximum number of assessments of an object that changes in the meantime.
const MAX_ATTEMPTS: u32 = 6;
/// The number of fields that a message names.
const MAX_FIELDS: usize = 10;
/// The remedy for an object that a permission does not cover.
const REMEDY: &str = "delete the object, or correct the bundle";

/// The outcome of a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preview {
    /// Objects that the API server rejects.
    pub failed: Vec<ApplyFailure>,
    /// The objects whose new form the API server accepts only after the existing object is deleted.
    pub immutable: Vec<Immutable>,
}

/// An object whose new form the API server accepts only after the existing object is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Immutable {
    /// The object.
    pub identity: Identity,
    /// The immutable fields that the new form changes, as the API server names them.
    pub fields: Vec<String>,
    /// State of a Job; `None` for other kinds.
    pub job: Option<JobState>,
    /// Reason that forbids a deletion even with a permission; `None` if a deletion is safe.
    pub obstacle: Option<Obstacle>,
}

/// The permission to delete an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// The object is deleted.
    Delete,
    /// The object is deleted if it is a finished Job.
    DeleteFinished,
    /// The object is terminating already: the rollout waits, and then creates it.
    Await,
}

/// The objects that a rollout recreates.
#[derive(Debug)]
pub struct Recreation<'a> {
    owner: &'a InstanceOwner,
    permissions: BTreeMap<Identity, Permission>,
    /// Whether a deletion took longer than a rollout waits.
    has_timed_out: AtomicBool,
}

/// An object that was compared with its new form.
pub(super) struct Assessed {
    pub(super) immutable: Immutable,
    preconditions: Preconditions,
}

impl<'a> Recreation<'a> {
    /// Permits deletions for an owner.
    pub fn new(owner: &'a InstanceOwner, permissions: BTreeMap<Identity, Permission>) -> Self {
        Self {
            owner,
            permissions,
            has_timed_out: AtomicBool::new(false),
        }
    }

    fn permission(&self, step: &ApplyStep) -> Option<Permission> {
        self.permissions.get(&step.object.identity()).copied()
    }
}

impl Permission {
    fn covers(self, immutable: &Immutable) -> bool {
        match self {
            Self::Delete => true,
            Self::DeleteFinished => immutable.job == Some(JobState::Finished),
            Self::Await => false,
        }
    }
}

impl Immutable {
    /// Returns the failure of an object that is not recreated. An obstacle has its own remedy.
    pub fn refusal(&self, remedy: &str) -> ApplyFailure {
        let fields = first_few(&self.fields, MAX_FIELDS);
        let remedy = match &self.obstacle {
            Some(obstacle) => obstacle.to_string(),
            None => remedy.to_owned(),
        };
        let problem = format!("immutable fields changed: {fields}; {remedy}");
        failure::new(self.identity.clone(), FailureKind::Invalid, &problem)
    }
}

impl Applier<'_> {
    /// Applies the object of a step in a rollout.
    pub(super) async fn apply_step(
        &self,
        step: &ApplyStep,
        recreation: Option<&Recreation<'_>>,
    ) -> Result<AppliedObject, ApplyFailure> {
        let permitted = recreation.and_then(|all| Some((all, all.permission(step)?)));
        if let Some((recreation, permission)) = permitted {
            return self.recreate(step, permission, recreation).await;
        }
        let applied = self.apply_with_retry(step, DryRun::No).await;
        applied.map_err(|rejection| rejection.failure)
    }

    async fn recreate(
        &self,
        step: &ApplyStep,
        permission: Permission,
        recreation: &Recreation<'_>,
    ) -> Result<AppliedObject, ApplyFailure> {
        let identity = step.object.identity();
        for attempt in 1..=MAX_ATTEMPTS {
            let rejection = match self.apply_with_retry(step, DryRun::No).await {
                Ok(applied) => return Ok(applied),
                Err(rejection) => rejection,
            };
            let assessed = match self.assess(step, recreation.owner, rejection).await {
                Ok(assessed) => assessed,
                Err(failure) if failure.cause == FailureKind::Deleting => {
                    self.wait_until_deleted(step, recreation).await?;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            if assessed.immutable.obstacle.is_some() || !permission.covers(&assessed.immutable) {
                return Err(assessed.immutable.refusal(REMEDY));
            }
            match self.remove(step, assessed.preconditions).await {
                Ok(()) => self.wait_until_deleted(step, recreation).await?,
                Err(error) if error.code() == Some(404) => {}
                // Changed since it was assessed.
                Err(error) if error.code() == Some(409) => retry_delay(attempt).await,
                Err(error) => return Err(failure::classify(identity, &error)),
            }
        }
        let problem = "other clients change the object while it is recreated; retrying";
        Err(failure::new(identity, FailureKind::Transient, problem))
    }

    /// Determines whether only the existing object prevents the new form.
    ///
    /// # Errors
    /// Returns the failure if the rejection has another reason, or if the object is terminating.
    pub(super) async fn assess(
        &self,
        step: &ApplyStep,
        owner: &InstanceOwner,
        rejection: Rejection,
    ) -> Result<Assessed, ApplyFailure> {
        let Rejection { failure, status } = rejection;
        let status =
            status.filter(|status| status.code == 422 && failure.cause == FailureKind::Invalid);
        let Some(status) = status else {
            return Err(failure);
        };
        let identity = step.object.identity();
        let to_failure = |error| failure::classify(identity.clone(), &error);
        let path = ResourcePath::new(&step.kind, &identity).map_err(to_failure)?;
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let request = || path.collection.get(&path.name, &GetParams::default());
        let live: Value = match send(self.client, request).await {
            Ok(live) => live,
            Err(error) if error.code() == Some(404) => return Err(failure),
            Err(other) => return Err(to_failure(other)),
        };
        let no_metadata = Value::Null;
        let metadata = live.get("metadata").unwrap_or(&no_metadata);
        if let Some(since) = text(metadata, &["deletionTimestamp"]) {
            return Err(failure::deleting(identity, since, metadata));
        }
        self.try_creation(&path, &step.object, &live)
            .await
            .map_err(to_failure)?;
        Ok(Assessed {
            immutable: Immutable {
                fields: fields(&status),
                job: job(&identity, &live),
                obstacle: obstacle(&step.object, &live, owner),
                identity: identity.clone(),
            },
            preconditions: Preconditions {
                uid: text(metadata, &["uid"]).map(str::to_owned),
                resource_version: text(metadata, &["resourceVersion"]).map(str::to_owned),
            },
        })
    }

    /// Checks whether the object could be created after a deletion of the existing one.
    async fn try_creation(
        &self,
        path: &ResourcePath,
        object: &Object,
        live: &Value,
    ) -> Result<(), ApiError> {
        let params = PostParams {
            dry_run: true,
            field_manager: Some(MANAGER.to_owned()),
        };
        let body = without_allocations(object.value().clone(), live).to_string();
        let request = || {
            let body = body.clone().into_bytes();
            path.collection.create(&params, body)
        };
        match send::<ObjectMetadata>(self.client, request).await {
            Err(ApiError::Status(status)) if status.reason == "AlreadyExists" => Ok(()),
            // Deleted in the meantime.
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn remove(&self, step: &ApplyStep, preconditions: Preconditions) -> Result<(), ApiError> {
        let path = ResourcePath::new(&step.kind, &step.object.identity())?;
        let _permit = self.permits.acquire().await;
        path.delete(self.client, preconditions).await.map(drop)
    }

    /// Waits a moment for the end of a deletion.
    async fn wait_until_deleted(
        &self,
        step: &ApplyStep,
        recreation: &Recreation<'_>,
    ) -> Result<(), ApplyFailure> {
        let identity = step.object.identity();
        let to_failure = |error| failure::classify(identity.clone(), &error);
        let path = ResourcePath::new(&step.kind, &identity).map_err(to_failure)?;
        let timeout = if recreation.has_timed_out.load(Ordering::Relaxed) {
            SHORT_DELETION_TIMEOUT
        } else {
            DELETION_TIMEOUT
        };
        let deadline = Instant::now() + timeout;
        let mut interval = MIN_INTERVAL;
        loop {
            let metadata = match path.metadata(self.client).await {
                Ok(metadata) => metadata,
                Err(error) if error.code() == Some(404) => return Ok(()),
                Err(other) => return Err(to_failure(other)),
            };
            let Some(since) = text(&metadata, &["deletionTimestamp"]) else {
                // Created again by another client.
                return if is_owned(&metadata, recreation.owner) {
                    Ok(())
                } else {
                    Err(replaced(identity))
                };
            };
            if Instant::now() >= deadline {
                recreation.has_timed_out.store(true, Ordering::Relaxed);
                return Err(failure::deleting(identity, since, &metadata));
            }
            sleep(interval).await;
            interval = (interval * 2).min(MAX_INTERVAL);
        }
    }
}

/// Creates the failure of an object that another client created after the deletion.
fn replaced(identity: Identity) -> ApplyFailure {
    let problem = "another client created the object after it was deleted to be recreated; delete the object, or remove it \
                   from the bundle";
    failure::new(identity, FailureKind::Invalid, problem)
}

/// Returns the fields that a rejection names.
fn fields(status: &Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: BTreeSet<&str> = causes
        .map(|cause| cause.field.as_str())
        .filter(|field| !field.is_empty())
        .collect();
    fields.into_iter().map(str::to_owned).collect()
}
