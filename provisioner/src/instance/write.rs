//! Writes of the status of an instance.
//!
//! A status that turns Ready to True is about the spec of the moment of the write: the write carries the resourceVersion,
//! and is repeated only as long as the generation stays the same. Every other status says by `observedGeneration` which
//! spec it is about, and clients that write the object all the time do not delay it.

use std::time::Instant;

use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::{
    condition::{self, find},
    instance::{BundleInstance, BundleInstanceStatus, ready::Declaration},
    labels,
};
use serde_json::json;

use super::{
    index,
    memory::{Memory, Shared, version},
    reconcile::{Error, current_status},
    revisions::{self, owner},
};
use apply::ssa::MANAGER;

/// The number of attempts to turn Ready to True while other clients write the object.
const MAX_ATTEMPTS: u32 = 5;

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// The status is written.
    Whole,
    /// The status is written, but Ready did not turn to True: the spec has changed, or other clients write too often.
    Withheld,
}

/// Returns what the status of an instance is about.
pub(super) fn declaration(instance: &BundleInstance, memory: &Memory) -> Declaration {
    let known = memory.retry.as_ref();
    Declaration {
        is_retried: known.is_some_and(|known| *known != retry_token(instance)),
        ..Declaration::new(instance)
    }
}

/// Returns the value of the annotation by which users ask for another attempt.
pub(super) fn retry_token(instance: &BundleInstance) -> String {
    let token = instance.annotations().get(labels::RETRY);
    token.cloned().unwrap_or_default()
}

/// Writes the status: all of it is ours. The records of created Bundles are written along, so that they are in the
/// cluster before anything is applied.
pub(super) async fn write_status(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Result<Written, Error> {
    let mut status = status.clone();
    if let Some(created) = &memory.bundles {
        status.bundles.clone_from(created);
    }
    // Without a generation, a status without conditions would count as a finished one.
    let observed = &mut status.observed_generation;
    observed.get_or_insert(BundleInstanceStatus::NOT_OBSERVED);
    let before = current_status(instance, memory);
    index::retain_config_maps(&mut status, &before);
    let mut outcome = Written::Whole;
    let mut condition = None;
    if is_ready(&status) && !is_ready(&before) {
        condition = newest_version(instance, memory);
        if condition.is_none() {
            outcome = withhold(&mut status, &before);
        }
    }
    let api = Api::<BundleInstance>::all(shared.ctx.client.clone());
    let mut attempts = 0;
    let written = loop {
        let error = match patch(&api, instance, &status, condition.as_deref()).await {
            Ok(written) => break written,
            Err(error) => error,
        };
        let is_conflict =
            matches!(&error, kube::Error::Api(status) if status.code == 409) && condition.is_some();
        if !is_conflict {
            return Err(Error::on("write the status", instance)(error));
        }
        attempts += 1;
        let found = api.get_metadata(&instance.name_any()).await;
        let found = found.map_err(Error::on("read the generation", instance))?;
        let is_same = found.uid() == instance.uid()
            && found.metadata.generation == instance.metadata.generation;
        condition = found
            .resource_version()
            .filter(|_| is_same && attempts < MAX_ATTEMPTS);
        if condition.is_none() {
            outcome = withhold(&mut status, &before);
        }
    };
    let version = version(&written);
    let name = instance.name_any();
    let (old, new) = (before.inventory.as_ref(), status.inventory.as_ref());
    index::trim(&revisions::store(&shared.ctx, &owner(instance)), old, new).await;
    shared.rollouts.observe(&name, version, Some(&status));
    memory.status = Some(Box::new((version, status)));
    memory.written_generation = written.metadata.generation;
    memory.retry = Some(retry_token(instance));
    memory.bundles = None;
    memory.said = Some(Instant::now());
    Ok(outcome)
}

async fn patch(
    api: &Api<BundleInstance>,
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    version: Option<&str>,
) -> Result<BundleInstance, kube::Error> {
    let mut body = json!({
        "apiVersion": BundleInstance::api_version(&()),
        "kind": BundleInstance::kind(&()),
        // With its uid, so that no instance is made of a status that comes too late.
        "metadata": {"name": instance.name_any(), "uid": instance.uid()},
        "status": status,
    });
    if let (Some(version), Some(metadata)) = (version, body.pointer_mut("/metadata"))
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    let params = PatchParams::apply(MANAGER).force();
    api.patch_status(&instance.name_any(), &params, &Patch::Apply(body))
        .await
}

/// Returns the newest known resourceVersion; `None` if a response of the API server has another generation.
fn newest_version(instance: &BundleInstance, memory: &Memory) -> Option<String> {
    match &memory.status {
        Some(known) => {
            let is_same = memory.written_generation == instance.metadata.generation;
            is_same.then(|| known.0.to_string())
        }
        None => instance.resource_version(),
    }
}

fn is_ready(status: &BundleInstanceStatus) -> bool {
    let ready = find(&status.conditions, condition::READY);
    ready.is_some_and(|ready| ready.status == "True")
}

/// Leaves Ready, Reconciling and Stalled as they were.
fn withhold(status: &mut BundleInstanceStatus, before: &BundleInstanceStatus) -> Written {
    for type_ in [condition::READY, condition::RECONCILING, condition::STALLED] {
        status
            .conditions
            .retain(|condition| condition.type_ != type_);
        let former = find(&before.conditions, type_).cloned();
        status.conditions.extend(former);
    }
    status
        .progressing_since
        .clone_from(&before.progressing_since);
    Written::Withheld
}
