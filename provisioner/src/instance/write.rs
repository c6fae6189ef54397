//! Writes of the status of an instance.
//!
//! A status that turns Ready to True is about the spec of the moment of the write: it is written only as long as the
//! generation stays the same. Every other status says by `observedGeneration` which spec it is about.

use std::time::Instant;

use kube::{Api, ResourceExt as _, api::ObjectMeta};
use manifests::api::{
    condition::{self, find},
    instance::{BundleInstance, BundleInstanceStatus, ready::Declaration},
    labels,
};

use super::{
    index,
    memory::{self, Memory, Shared},
    reconcile::{Error, current_status},
    revisions::{self, owner},
};

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// The status is written.
    Whole,
    /// The status is written, but Ready did not turn to True: the spec has changed.
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
    let is_turned = is_ready(&status) && !is_ready(&before);
    if is_turned && !is_newest_generation(instance, memory) {
        outcome = withhold(&mut status, &before);
    }
    let api = Api::<BundleInstance>::all(shared.ctx.client.clone());
    let version = memory.version.max(memory::version(instance)).to_string();
    let revise = |found: &ObjectMeta, status: &mut BundleInstanceStatus| {
        if is_turned && found.generation != instance.metadata.generation {
            outcome = withhold(status, &before);
        }
    };
    let written = apply::status::apply(&api, instance, Some(version), &mut status, revise);
    let written = Box::pin(written).await;
    let written = written.map_err(Error::on("write the status", instance))?;
    let Some(written) = written else {
        return Err(Error::Deleted(instance.name_any()));
    };
    let version = memory::version(&written);
    memory.version = version;
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

/// Reports whether the last response of the API server has the generation of the instance, or was earlier.
fn is_newest_generation(instance: &BundleInstance, memory: &Memory) -> bool {
    memory.status.is_none() || memory.written_generation == instance.metadata.generation
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
