//! Writes of the status of an instance.
//!
//! A status that turns Ready to True is about the spec at the time of the write, so it is written only while the generation
//! is unchanged. For every other status, `observedGeneration` states the spec that it is about.

use std::time::Instant;

use kube::{Api, ResourceExt as _, api::ObjectMeta};
use manifests::api::{
    bundle_instance::{BundleInstance, BundleInstanceStatus, ready::Declaration},
    condition::{self, find},
    labels,
};

use super::{
    inventory_status,
    reconcile::{Error, current_status},
    revisions::{self, owner},
    state::{self, InstanceContext, InstanceState},
};

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The status was written.
    Whole,
    /// The status was written without turning Ready to True, because the spec has changed.
    Withheld,
}

/// Returns the part of an instance that its status is about.
pub(crate) fn declaration(instance: &BundleInstance, state: &InstanceState) -> Declaration {
    let token = state.retry.as_ref();
    Declaration {
        is_retried: token.is_some_and(|token| *token != retry_token(instance)),
        ..Declaration::new(instance)
    }
}

/// Returns the value of the annotation by which users request another attempt.
pub(crate) fn retry_token(instance: &BundleInstance) -> String {
    let token = instance.annotations().get(labels::RETRY);
    token.cloned().unwrap_or_default()
}

/// Writes the status, of which the provisioner owns all fields. The records of created Bundles are included, so that they
/// are in the cluster before objects are applied.
pub(crate) async fn write_status(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> Result<Written, Error> {
    let mut status = status.clone();
    if let Some(created) = &state.bundles {
        status.bundles.clone_from(created);
    }
    // Without a generation, a status without conditions would look like a finished one.
    let observed = &mut status.observed_generation;
    observed.get_or_insert(BundleInstanceStatus::NOT_OBSERVED);
    let before = current_status(instance, state);
    inventory_status::retain_config_maps(&mut status, &before);
    let mut outcome = Written::Whole;
    let turns_ready = is_ready(&status) && !is_ready(&before);
    if turns_ready && !is_newest_generation(instance, state) {
        outcome = withhold(&mut status, &before);
    }
    let api = Api::<BundleInstance>::all(shared.ctx.client.clone());
    let version = state.version.max(state::version(instance)).to_string();
    let revise = |found: &ObjectMeta, status: &mut BundleInstanceStatus| {
        if turns_ready && found.generation != instance.metadata.generation {
            outcome = withhold(status, &before);
        }
    };
    let written = apply::status::apply(&api, instance, Some(version), &mut status, revise);
    let written = Box::pin(written).await;
    let written = written.map_err(Error::on("write the status", instance))?;
    let Some(written) = written else {
        return Err(Error::Deleted(instance.name_any()));
    };
    let version = state::version(&written);
    state.version = version;
    let (old, new) = (before.inventory.as_ref(), status.inventory.as_ref());
    inventory_status::trim(&revisions::store(&shared.ctx, &owner(instance)), old, new).await;
    let now = (shared.ctx.now)();
    shared
        .rollouts
        .observe(instance, version, Some(&status), now);
    state.status = Some(Box::new((version, status)));
    state.written_generation = written.metadata.generation;
    state.retry = Some(retry_token(instance));
    state.bundles = None;
    state.last_published = Some(Instant::now());
    Ok(outcome)
}

/// Reports whether the last response of the API server has the generation of the instance. Before the first response it is
/// assumed to.
fn is_newest_generation(instance: &BundleInstance, state: &InstanceState) -> bool {
    state.status.is_none() || state.written_generation == instance.metadata.generation
}

fn is_ready(status: &BundleInstanceStatus) -> bool {
    let ready = find(&status.conditions, condition::READY);
    ready.is_some_and(|ready| ready.status == "True")
}

/// Restores the previous Ready, Reconciling and Stalled conditions.
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
