//! Applying one object: first in peace, then with force, but for what scalers have set.

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

use super::{
    Applied, Apply, Cause, Conflict, Failure, Immutable, MANAGER, conflict, failure,
    request::{Address, Trouble, pause, send},
};
use crate::{
    drift::Fingerprint,
    plan::{Owner, Step, Wave},
};

/// How often an object is sent when others change it at the same time, or when an API server does not know its kind yet.
const ATTEMPTS: u32 = 6;

/// The answer to every request about an object.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Partial {
    #[serde(default)]
    pub(super) metadata: Value,
}

/// The answer of an API server that does not accept an object.
pub(super) struct Refusal {
    pub(super) failure: Failure,
    /// The answer itself; `None` if there was none.
    pub(super) status: Option<Box<Status>>,
}

/// Reports whether an object carries the labels of an owner.
pub(super) fn is_owned(metadata: &Value, owner: &Owner) -> bool {
    text(metadata, &["labels", labels::OWNER_KIND]) == Some(Owner::KIND)
        && text(metadata, &["labels", labels::OWNER_NAME]) == Some(owner.name.as_str())
}

/// Whether the API server only says what it would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    Wet,
    Dry,
}

impl Apply<'_> {
    /// Asks what applying would do; returns the object if only its deletion makes way for its new form.
    pub(super) async fn try_out(
        &self,
        step: &Step,
        owner: &Owner,
    ) -> Result<Option<Immutable>, Failure> {
        match self.put(step, Run::Dry).await {
            Ok(_) => Ok(None),
            Err(refusal) => {
                let assessed = self.assess(step, owner, refusal).await?;
                Ok(Some(assessed.immutable))
            }
        }
    }

    pub(super) async fn put(&self, step: &Step, run: Run) -> Result<Applied, Refusal> {
        let identity = step.object.identity();
        // Nobody closes it.
        let _permit = self.permits.acquire().await;
        let (partial, taken, yielded) = match self.patched(step, &identity, run).await {
            Ok(patched) => patched,
            Err(trouble) => {
                let failure = failure::of(identity, &trouble);
                if failure.cause == Cause::NotServed {
                    self.kinds.forget(step.object.group());
                }
                let status = match trouble {
                    Trouble::Status(status) => Some(status),
                    _ => None,
                };
                return Err(Refusal { failure, status });
            }
        };
        if let Some(since) = text(&partial.metadata, &["deletionTimestamp"]) {
            return Err(Refusal {
                failure: failure::deleting(identity, since, &partial.metadata),
                status: None,
            });
        }
        let field = |name| {
            text(&partial.metadata, &[name])
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Applied {
            uid: field("uid"),
            resource_version: field("resourceVersion"),
            fields: Fingerprint::of(&partial.metadata, MANAGER),
            hash: Some(step.hash),
            taken,
            yielded,
        })
    }

    async fn patched(
        &self,
        step: &Step,
        identity: &Identity,
        run: Run,
    ) -> Result<(Partial, Vec<Conflict>, Vec<Conflict>), Trouble> {
        let address = Address::of(&step.kind, identity)?;
        let trouble = match self
            .patch(&address, step, step.object.value(), false, run)
            .await
        {
            Ok(partial) => return Ok((partial, Vec::new(), Vec::new())),
            Err(trouble) => trouble,
        };
        let conflicts = match &trouble {
            Trouble::Status(status) => conflict::of(status),
            _ => Vec::new(),
        };
        if conflicts.is_empty() {
            return Err(trouble);
        }
        let mut object = step.object.value().clone();
        let (yielded, mut taken): (Vec<_>, Vec<_>) = conflicts.into_iter().partition(|conflict| {
            conflict.subresource == "scale" && conflict::remove(&mut object, &conflict.field)
        });
        taken.retain(|conflict| !conflict::is_own(conflict));
        let partial = self.patch(&address, step, &object, true, run).await?;
        Ok((partial, taken, yielded))
    }

    /// Sends an object until it meets nobody who changes it at the same time.
    async fn patch(
        &self,
        address: &Address,
        step: &Step,
        object: &Value,
        force: bool,
        run: Run,
    ) -> Result<Partial, Trouble> {
        let params = PatchParams {
            force,
            dry_run: run == Run::Dry,
            ..PatchParams::apply(MANAGER)
        };
        let patch = Patch::Apply(object);
        let mut attempt = 1;
        loop {
            let request = || {
                address
                    .collection
                    .patch_metadata(&address.name, &params, &patch)
            };
            let trouble = match send(self.client, request).await {
                Ok(partial) => return Ok(partial),
                Err(trouble) => trouble,
            };
            let passes = match &trouble {
                Trouble::Status(status) if status.code == 409 => conflict::of(status).is_empty(),
                // One of several API servers may learn of a definition later than the one that was asked.
                Trouble::Status(status) if status.code == 404 => {
                    step.wave == Wave::Resources && !failure::names_namespace(status)
                }
                _ => false,
            };
            if !passes || attempt == ATTEMPTS || run == Run::Dry {
                return Err(trouble);
            }
            pause(attempt).await;
            attempt += 1;
        }
    }
}
