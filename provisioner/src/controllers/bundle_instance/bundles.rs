//! The Bundles of an instance: created from its template, and deleted once they are unused.

use std::{
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use apply::{api_error, delete_params};
use kube::{Api, ResourceExt as _, api::PostParams};
use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, BundleInstanceStatus, CreatedBundle},
};
use tracing::warn;

use super::{
    outcome::{HealthState, Outcome, Remedy, RetryClass, RolloutState},
    reconcile::current_status,
    state::{InstanceContext, InstanceState},
    status_writer::write_status,
    template, trust,
};

/// Maximum delay until the watch of Bundles delivers a created Bundle.
pub(crate) const WATCH_LAG: Duration = Duration::from_secs(2);

/// The reason why the Bundle of the template does not exist.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// The object, the problem and the remedy.
    pub(crate) message: String,
    /// The kind of the remedy.
    pub(crate) remedy: Remedy,
}

impl Problem {
    fn of_world(message: String) -> Self {
        Self {
            message,
            remedy: Remedy::World,
        }
    }
}

/// Finds or creates the Bundle of the template. A new Bundle is recorded in `state`. The next write of the status records
/// it in the cluster: at the end of the reconcile, or before objects are applied.
pub(crate) async fn template_bundle(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    bundles: &[Arc<Bundle>],
    hash: &str,
    status: &BundleInstanceStatus,
) -> Result<Arc<Bundle>, (Problem, Duration)> {
    if let Some(bundle) = trust::of_template(status, instance, hash, bundles) {
        state.created_bundle = None;
        return Ok(Arc::clone(bundle));
    }
    if let Some((created, at)) = &state.created_bundle
        && at.elapsed() < WATCH_LAG
        && let Some(created) = trust::of_template(status, instance, hash, slice::from_ref(created))
    {
        return Ok(Arc::clone(created));
    }
    let now = (shared.ctx.now)();
    if let Some(problem) = &state.creation_problem
        && let Some(left) = state.creation_backoff.remaining_delay(hash, now)
    {
        return Err((problem.clone(), left));
    }
    let (problem, retry) = match find_or_create(instance, shared, bundles, hash, status).await {
        Ok((bundle, is_new)) => {
            if is_new {
                let created = CreatedBundle {
                    name: bundle.name_any(),
                    uid: bundle.uid().unwrap_or_default(),
                    template_hash: hash.to_owned(),
                };
                state.bundles = Some(trust::record(status, bundles, created));
            }
            state.creation_backoff.succeeded();
            state.creation_problem = None;
            state.created_bundle = Some((Arc::clone(&bundle), Instant::now()));
            return Ok(bundle);
        }
        Err(failure) => failure,
    };
    if retry == RetryClass::Soon {
        // Not stored as the problem of this template, so that an instance that is woken because the conflicting Bundle was
        // deleted is not delayed.
        return Err((problem, Duration::from_secs(2)));
    }
    state.creation_problem = Some(problem.clone());
    Err((
        problem,
        state
            .creation_backoff
            .record_failure(hash.to_owned(), retry, now),
    ))
}

/// Creates the Bundle of the template, or finds it if the watch has not delivered it yet. Excess Bundles are deleted first.
/// The flag is true if the Bundle is new.
async fn find_or_create(
    instance: &BundleInstance,
    shared: &InstanceContext,
    bundles: &[Arc<Bundle>],
    hash: &str,
    status: &BundleInstanceStatus,
) -> Result<(Arc<Bundle>, bool), (Problem, RetryClass)> {
    let api = Api::<Bundle>::all(shared.ctx.client.clone());
    let all: Vec<&Bundle> = bundles.iter().map(AsRef::as_ref).collect();
    let needed: Vec<&str> = trust::recorded(status)
        .map(|record| record.uid.as_str())
        .collect();
    let created: Vec<&str> = status
        .bundles
        .iter()
        .map(|created| created.uid.as_str())
        .collect();
    for old in template::excess_bundles(&all, &needed, &created, template::MAX_KEPT_BUNDLES) {
        delete(&api, old).await;
    }
    let mut taken = Vec::new();
    for name in template::bundle_names(instance, hash) {
        let bundle = template::bundle(instance, hash, &name);
        match api.create(&PostParams::default(), &bundle).await {
            Ok(created) => return Ok((Arc::new(created), true)),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                let message = format!(
                    "the API server rejects Bundle {name}, which is created from spec.template: {}; correct the template",
                    status.message
                );
                // A policy or a missing permission can be the reason for 403.
                let remedy = if status.code == 403 {
                    Remedy::World
                } else {
                    Remedy::Own
                };
                return Err((Problem { message, remedy }, RetryClass::Backoff));
            }
            Err(error) => {
                let error = api_error::chain(&error);
                let message = format!("failed to create Bundle {name}: {error}");
                return Err((Problem::of_world(message), RetryClass::Soon));
            }
        }
        // The name is taken: by a Bundle that was just created, by one that is being deleted, or by another client's.
        let found = api.get_opt(&name).await.map_err(|error| {
            let error = api_error::chain(&error);
            let message = format!("failed to read Bundle {name}: {error}");
            (Problem::of_world(message), RetryClass::Soon)
        })?;
        let found = found.map(Arc::new);
        let own = trust::of_template(status, instance, hash, found.as_slice());
        if let Some(own) = own {
            return Ok((Arc::clone(own), false));
        }
        taken.push(name);
    }
    let message = format!(
        "failed to create the Bundle of spec.template: Bundles of other clients already use all candidate names; \
         delete {}",
        taken.join(", ")
    );
    Err((Problem::of_world(message), RetryClass::AfterGrant))
}

/// Deletes all Bundles of an instance except that of its template, once they are unused. `written` is the status in the
/// cluster.
pub(crate) async fn delete_unused(
    instance: &BundleInstance,
    shared: &InstanceContext,
    written: &BundleInstanceStatus,
    outcome: &Outcome,
) {
    let Some(used) = settled_bundle(written, outcome) else {
        return;
    };
    let api = Api::<Bundle>::all(shared.ctx.client.clone());
    for old in owned_by(instance, shared) {
        if old.name_any() != used {
            delete(&api, &old).await;
        }
    }
}

/// Returns the name of the template's Bundle if all other Bundles are unused: the rollout is finished, the installed objects
/// are healthy, and `written`, the status in the cluster, names this Bundle as installed.
pub(crate) fn settled_bundle<'o>(
    written: &BundleInstanceStatus,
    outcome: &'o Outcome,
) -> Option<&'o str> {
    let is_settled = matches!(
        outcome.install,
        RolloutState::Done(_) | RolloutState::Unchanged
    ) && outcome.health == HealthState::Healthy;
    let desired = outcome.valid.bundle().filter(|_| is_settled)?;
    (written.installed_bundle_name.as_deref() == Some(desired)).then_some(desired)
}

/// Records the Bundle that an older provisioner has installed, which recorded only names. If the record cannot be written,
/// it is used for this reconcile only, so that the installed objects are repaired and watched.
pub(crate) async fn adopt(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
) {
    let status = current_status(instance, state);
    let name = status.installed_bundle_name.as_ref();
    let Some(name) = name.filter(|_| status.installed.is_none()) else {
        return;
    };
    let found = shared.bundles.get(name);
    // The watch may not have delivered the Bundle that was created last.
    let created = state
        .created_bundle
        .iter()
        .map(|(created, _)| Arc::clone(created));
    let bundles: Vec<Arc<Bundle>> = owned_by(instance, shared)
        .into_iter()
        .chain(created)
        .collect();
    let Some(adopted) = trust::adopt(&status, instance, found.as_deref(), &bundles) else {
        return;
    };
    state.bundles = Some(adopted.bundles.clone());
    if let Err(error) = write_status(instance, shared, state, &adopted).await {
        warn!(%error, "failed to record the installed Bundle; retrying");
        state.store_unwritten(instance, adopted);
    }
}

/// Returns the Bundles that were created for an instance and are not terminating.
pub(crate) fn owned_by(instance: &BundleInstance, shared: &InstanceContext) -> Vec<Arc<Bundle>> {
    let mut bundles = candidates(instance, shared);
    bundles.retain(|bundle| template::belongs_to(bundle, instance));
    bundles
}

/// Returns the Bundles with any reference to an instance.
pub(crate) fn candidates(instance: &BundleInstance, shared: &InstanceContext) -> Vec<Arc<Bundle>> {
    let uid = instance.uid().unwrap_or_default();
    shared.bundles.of_instance(&uid, &instance.name_any())
}

/// Deletes all Bundles of an instance, including those that belonged to it until the garbage collector removed the
/// reference.
pub(crate) async fn delete_all(instance: &BundleInstance, shared: &InstanceContext) {
    let api = Api::<Bundle>::all(shared.ctx.client.clone());
    let mut bundles = candidates(instance, shared);
    bundles.retain(|bundle| template::belonged_to(bundle, instance));
    for bundle in bundles {
        delete(&api, &bundle).await;
    }
}

/// Deletes a Bundle if its uid is unchanged. The next reconcile retries a failed deletion.
async fn delete(api: &Api<Bundle>, bundle: &Bundle) {
    let params = delete_params::for_uid(bundle.uid());
    match api.delete(&bundle.name_any(), &params).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
        Err(error) => {
            let error = api_error::chain(&error);
            warn!(bundle = %bundle.name_any(), error, "failed to delete a Bundle");
        }
    }
}
