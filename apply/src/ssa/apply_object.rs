//! Server-side apply of one object: first without force, then with force for all conflicting fields except those set
//! through the `scale` subresource.

use kube::{
    api::{Patch, PatchParams},
    core::response::Status,
};
use manifests::{
    api::labels,
    object::{Identity, text},
};
use serde::Deserialize;
use serde_json::Value;

use super::request::{ApiError, ResourcePath, retry_delay, send};
use super::{
    AppliedObject, Applier, ApplyFailure, Conflict, FailureKind, Immutable, MANAGER,
    conflict_response, failure,
};
use crate::{
    managed_fields::Fingerprint,
    plan::{ApplyStep, InstanceOwner, Wave},
};

/// Maximum number of requests for an object while other clients change it, or while an API server does not know its kind
/// yet.
const MAX_ATTEMPTS: u32 = 6;

/// Response to every request about an object.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ObjectMetadata {
    #[serde(default)]
    pub(crate) metadata: Value,
}

/// Rejection of an object by the API server.
pub(super) struct Rejection {
    pub(super) failure: ApplyFailure,
    /// Status in the response; `None` without a response.
    pub(super) status: Option<Box<Status>>,
}

/// Reports whether an object carries the labels of an owner.
pub(crate) fn is_owned(metadata: &Value, owner: &InstanceOwner) -> bool {
    text(metadata, &["labels", labels::OWNER_KIND]) == Some(InstanceOwner::KIND)
        && text(metadata, &["labels", labels::OWNER_NAME]) == Some(owner.name.as_str())
}

/// Whether the request is a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DryRun {
    No,
    Yes,
}

impl Applier<'_> {
    /// Applies an object as a dry run. Returns the object if its new form is accepted only after a deletion of the existing
    /// object.
    pub(super) async fn dry_run_step(
        &self,
        step: &ApplyStep,
        owner: &InstanceOwner,
    ) -> Result<Option<Immutable>, ApplyFailure> {
        match self.apply_with_retry(step, DryRun::Yes).await {
            Ok(_) => Ok(None),
            Err(rejection) => {
                let assessed = self.assess(step, owner, rejection).await?;
                Ok(Some(assessed.immutable))
            }
        }
    }

    pub(super) async fn apply_with_retry(
        &self,
        step: &ApplyStep,
        dry_run: DryRun,
    ) -> Result<AppliedObject, Rejection> {
        let identity = step.object.identity();
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let (response, taken, yielded) = match self.apply_then_force(step, &identity, dry_run).await
        {
            Ok(applied) => applied,
            Err(error) => {
                let failure = failure::classify(identity, &error);
                if failure.cause == FailureKind::NotServed {
                    self.kinds.invalidate(step.object.group());
                }
                let status = match error {
                    ApiError::Status(status) => Some(status),
                    _ => None,
                };
                return Err(Rejection { failure, status });
            }
        };
        if let Some(since) = text(&response.metadata, &["deletionTimestamp"]) {
            return Err(Rejection {
                failure: failure::deleting(identity, since, &response.metadata),
                status: None,
            });
        }
        let field = |name| {
            text(&response.metadata, &[name])
                .unwrap_or_default()
                .to_owned()
        };
        Ok(AppliedObject {
            uid: field("uid"),
            resource_version: field("resourceVersion"),
            fields: Fingerprint::from_metadata(&response.metadata, MANAGER),
            hash: Some(step.hash),
            forced_fields: taken,
            scaler_fields: yielded,
        })
    }

    async fn apply_then_force(
        &self,
        step: &ApplyStep,
        identity: &Identity,
        dry_run: DryRun,
    ) -> Result<(ObjectMetadata, Vec<Conflict>, Vec<Conflict>), ApiError> {
        let path = ResourcePath::new(&step.kind, identity)?;
        let error = match self
            .patch(&path, step, step.object.value(), false, dry_run)
            .await
        {
            Ok(response) => return Ok((response, Vec::new(), Vec::new())),
            Err(error) => error,
        };
        let conflicts = match &error {
            ApiError::Status(status) => conflict_response::parse_conflicts(status),
            _ => Vec::new(),
        };
        if conflicts.is_empty() {
            return Err(error);
        }
        let mut object = step.object.value().clone();
        let (yielded, mut taken): (Vec<_>, Vec<_>) = conflicts.into_iter().partition(|conflict| {
            conflict.subresource == "scale"
                && conflict_response::remove(&mut object, &conflict.field)
        });
        taken.retain(|conflict| !conflict_response::is_ours(conflict));
        let response = self.patch(&path, step, &object, true, dry_run).await?;
        Ok((response, taken, yielded))
    }

    /// Sends an object until no other client changes it concurrently.
    async fn patch(
        &self,
        path: &ResourcePath,
        step: &ApplyStep,
        object: &Value,
        force: bool,
        dry_run: DryRun,
    ) -> Result<ObjectMetadata, ApiError> {
        let params = PatchParams {
            force,
            dry_run: dry_run == DryRun::Yes,
            ..PatchParams::apply(MANAGER)
        };
        let patch = Patch::Apply(object);
        let mut attempt = 1;
        loop {
            let request = || path.collection.patch_metadata(&path.name, &params, &patch);
            let error = match send(self.client, request).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let is_transient = match &error {
                ApiError::Status(status) if status.code == 409 => {
                    conflict_response::parse_conflicts(status).is_empty()
                }
                // One of several API servers may observe a CRD later than the one that reported it as served.
                ApiError::Status(status) if status.code == 404 => {
                    step.wave == Wave::Resources && !failure::names_namespace(status)
                }
                _ => false,
            };
            if !is_transient || attempt == MAX_ATTEMPTS || dry_run == DryRun::Yes {
                return Err(error);
            }
            retry_delay(attempt).await;
            attempt += 1;
        }
    }
}
