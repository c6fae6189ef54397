//! Deleting objects and creating them again, because their new form changes fields that are immutable.
//!
//! ```text
//!  dry run ── 422 ─► assess ─┬─ a creation fails as well ─► Failure: the object is invalid
//!                            └─ a creation is valid ──────► Immutable: fields, obstacle ─► the caller permits the deletion
//!
//!  rollout, in the wave of the object:  apply ── 422 ─► assess ─► delete ─► wait ─► apply
//! ```
//!
//! The API server reports a changed immutable field like any other invalid field. A dry run of the creation decides, without
//! the text of a message: the API server defaults, admits and validates an object before it looks for an existing one, so that
//! the answer `AlreadyExists` proves that the new form is valid and that only the existing object is in the way. A creation
//! that a policy or a quota would deny is found in the same way, before anything is deleted.
//!
//! The caller decides which objects are deleted ([`Permission`]). What makes a deletion unsafe ([`Obstacle`]) precedes every
//! permission: an object of another owner, a kind whose deletion loses data of users, data that other clients have added.
//! All of this is assessed once more right before the deletion, which names the uid and the resourceVersion of the assessed
//! object.
//!
//! A rollout waits a moment for the end of a deletion. An object with finalizers may take longer: it is reported as
//! [`Cause::Deleting`], and the caller continues once the object is gone. The caller records the objects that a rollout
//! recreates before it starts ([`crate::inventory::Entry::recreating`]), so that an object that is missing after a crash is
//! created in its new form.

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
use super::{
    Applied, Apply, Cause, Failure, MANAGER, failure,
    object::{Partial, Refusal, Run, is_owned},
    request::{Address, Trouble, pause, send},
};
use crate::{
    first_few,
    plan::{Owner, Step},
};

/// The time that a rollout waits for the end of a deletion.
const DELETION_TIMEOUT: Duration = Duration::from_secs(2);
/// The same, after another object of the rollout has exceeded that time.
const SHORT_DELETION_TIMEOUT: Duration = Duration::from_millis(100);
/// The first and the longest time between two requests for an object that is being deleted.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INTERVAL: Duration = Duration::from_millis(320);
/// The number of times that an object that changes in the meantime is assessed.
const MAX_ATTEMPTS: u32 = 6;
/// The number of fields that a message names.
const MAX_FIELDS: usize = 10;
/// The remedy for an object that a permission does not cover.
const REMEDY: &str = "delete the object, or correct the bundle";

/// The outcome of a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preview {
    /// The objects that the API server does not accept.
    pub failed: Vec<Failure>,
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
    /// For a Job: whether it is finished.
    pub job: Option<JobState>,
    /// The reason why the object is not deleted, whatever the caller permits.
    pub obstacle: Option<Obstacle>,
}

/// The permission to delete an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// The object is deleted.
    Delete,
    /// The object is deleted if it is a finished Job.
    DeleteFinished,
    /// The object is being deleted already: the rollout waits, and creates it.
    Await,
}

/// The objects that a rollout recreates.
#[derive(Debug)]
pub struct Recreation<'a> {
    owner: &'a Owner,
    permissions: BTreeMap<Identity, Permission>,
    /// Whether a deletion took longer than a rollout waits.
    is_late: AtomicBool,
}

/// An object that was compared with its new form.
pub(super) struct Assessed {
    pub(super) immutable: Immutable,
    preconditions: Preconditions,
}

impl<'a> Recreation<'a> {
    /// Permits deletions for an owner.
    pub fn new(owner: &'a Owner, permissions: BTreeMap<Identity, Permission>) -> Self {
        Self {
            owner,
            permissions,
            is_late: AtomicBool::new(false),
        }
    }

    fn permission(&self, step: &Step) -> Option<Permission> {
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
    pub fn refusal(&self, remedy: &str) -> Failure {
        let fields = first_few(&self.fields, MAX_FIELDS);
        let remedy = match &self.obstacle {
            Some(obstacle) => obstacle.to_string(),
            None => remedy.to_owned(),
        };
        let problem = format!("immutable fields changed: {fields}; {remedy}");
        failure::new(self.identity.clone(), Cause::Invalid, &problem)
    }
}

impl Apply<'_> {
    /// Applies the object of a step in a rollout.
    pub(super) async fn place(
        &self,
        step: &Step,
        recreation: Option<&Recreation<'_>>,
    ) -> Result<Applied, Failure> {
        let permitted = recreation.and_then(|all| Some((all, all.permission(step)?)));
        if let Some((recreation, permission)) = permitted {
            return self.recreate(step, permission, recreation).await;
        }
        let applied = self.put(step, Run::Wet).await;
        applied.map_err(|refusal| refusal.failure)
    }

    async fn recreate(
        &self,
        step: &Step,
        permission: Permission,
        recreation: &Recreation<'_>,
    ) -> Result<Applied, Failure> {
        let identity = step.object.identity();
        for attempt in 1..=MAX_ATTEMPTS {
            let refusal = match self.put(step, Run::Wet).await {
                Ok(applied) => return Ok(applied),
                Err(refusal) => refusal,
            };
            let assessed = match self.assess(step, recreation.owner, refusal).await {
                Ok(assessed) => assessed,
                Err(failure) if failure.cause == Cause::Deleting => {
                    self.gone(step, recreation).await?;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            if assessed.immutable.obstacle.is_some() || !permission.covers(&assessed.immutable) {
                return Err(assessed.immutable.refusal(REMEDY));
            }
            match self.remove(step, assessed.preconditions).await {
                Ok(()) => self.gone(step, recreation).await?,
                Err(trouble) if trouble.code() == Some(404) => {}
                // Changed since it was assessed.
                Err(trouble) if trouble.code() == Some(409) => pause(attempt).await,
                Err(trouble) => return Err(failure::of(identity, &trouble)),
            }
        }
        let problem = "other clients change the object while it is recreated; retrying";
        Err(failure::new(identity, Cause::Transient, problem))
    }

    /// Finds out whether the existing object alone is the reason for a refusal.
    ///
    /// # Errors
    /// Returns the failure if there is another reason, or if the object is being deleted.
    pub(super) async fn assess(
        &self,
        step: &Step,
        owner: &Owner,
        refusal: Refusal,
    ) -> Result<Assessed, Failure> {
        let Refusal { failure, status } = refusal;
        let status = status.filter(|status| status.code == 422 && failure.cause == Cause::Invalid);
        let Some(status) = status else {
            return Err(failure);
        };
        let identity = step.object.identity();
        let trouble = |trouble| failure::of(identity.clone(), &trouble);
        let address = Address::of(&step.kind, &identity).map_err(trouble)?;
        // Nobody closes it.
        let _permit = self.permits.acquire().await;
        let request = || address.collection.get(&address.name, &GetParams::default());
        let live: Value = match send(self.client, request).await {
            Ok(live) => live,
            Err(trouble) if trouble.code() == Some(404) => return Err(failure),
            Err(other) => return Err(trouble(other)),
        };
        let no_metadata = Value::Null;
        let metadata = live.get("metadata").unwrap_or(&no_metadata);
        if let Some(since) = text(metadata, &["deletionTimestamp"]) {
            return Err(failure::deleting(identity, since, metadata));
        }
        self.try_creation(&address, &step.object, &live)
            .await
            .map_err(trouble)?;
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

    /// Asks whether the object could be created if the existing one were deleted.
    async fn try_creation(
        &self,
        address: &Address,
        object: &Object,
        live: &Value,
    ) -> Result<(), Trouble> {
        let params = PostParams {
            dry_run: true,
            field_manager: Some(MANAGER.to_owned()),
        };
        let body = without_allocations(object.value().clone(), live).to_string();
        let request = || {
            let body = body.clone().into_bytes();
            address.collection.create(&params, body)
        };
        match send::<Partial>(self.client, request).await {
            Err(Trouble::Status(status)) if status.reason == "AlreadyExists" => Ok(()),
            // Deleted in the meantime.
            Ok(_) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    async fn remove(&self, step: &Step, preconditions: Preconditions) -> Result<(), Trouble> {
        let address = Address::of(&step.kind, &step.object.identity())?;
        let _permit = self.permits.acquire().await;
        address.delete(self.client, preconditions).await.map(drop)
    }

    /// Waits a moment until an object is gone that is being deleted.
    async fn gone(&self, step: &Step, recreation: &Recreation<'_>) -> Result<(), Failure> {
        let identity = step.object.identity();
        let trouble = |trouble| failure::of(identity.clone(), &trouble);
        let address = Address::of(&step.kind, &identity).map_err(trouble)?;
        let timeout = if recreation.is_late.load(Ordering::Relaxed) {
            SHORT_DELETION_TIMEOUT
        } else {
            DELETION_TIMEOUT
        };
        let deadline = Instant::now() + timeout;
        let mut interval = MIN_INTERVAL;
        loop {
            let metadata = match address.metadata(self.client).await {
                Ok(metadata) => metadata,
                Err(trouble) if trouble.code() == Some(404) => return Ok(()),
                Err(other) => return Err(trouble(other)),
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
                recreation.is_late.store(true, Ordering::Relaxed);
                return Err(failure::deleting(identity, since, &metadata));
            }
            sleep(interval).await;
            interval = (interval * 2).min(MAX_INTERVAL);
        }
    }
}

/// For an object that another client created after the deletion.
fn replaced(identity: Identity) -> Failure {
    let problem = "another client created the object after it was deleted to be recreated; delete the object, or remove it \
                   from the bundle";
    failure::new(identity, Cause::Invalid, problem)
}

/// Returns the fields that a refusal names.
fn fields(status: &Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: BTreeSet<&str> = causes
        .map(|cause| cause.field.as_str())
        .filter(|field| !field.is_empty())
        .collect();
    fields.into_iter().map(str::to_owned).collect()
}
