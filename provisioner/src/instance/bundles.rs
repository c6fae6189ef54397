//! The Bundles of an instance: made of its template, and deleted when nobody needs them.

use std::{
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{Api, ResourceExt as _, api::PostParams};
use manifests::api::{
    bundle::Bundle,
    instance::{BundleInstance, BundleInstanceStatus, CreatedBundle},
};
use tracing::warn;

use super::{
    memory::{Memory, Shared, version},
    outcome::{Health, Install, Outcome, Remedy, Retry},
    reconcile::current_status,
    template, trust,
    write::write_status,
};

/// How late the watch of Bundles may be to show one that was made.
pub(super) const LATE: Duration = Duration::from_secs(2);

/// The reason why the Bundle of the template does not exist.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    /// The object, the problem and the remedy.
    pub(super) message: String,
    /// The kind of the remedy.
    pub(super) remedy: Remedy,
}

impl Problem {
    fn of_world(message: String) -> Self {
        Self {
            message,
            remedy: Remedy::World,
        }
    }
}

/// Finds or creates the Bundle of the template. A new one is recorded in `memory`, and in the cluster by the next write of the
/// status: at the end of the reconcile, or before anything is applied.
pub(super) async fn wanted(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    bundles: &[Arc<Bundle>],
    hash: &str,
    status: &BundleInstanceStatus,
) -> Result<Arc<Bundle>, (Problem, Duration)> {
    if let Some(bundle) = trust::of_template(status, instance, hash, bundles) {
        memory.made = None;
        return Ok(Arc::clone(bundle));
    }
    if let Some((made, at)) = &memory.made
        && at.elapsed() < LATE
        && let Some(made) = trust::of_template(status, instance, hash, slice::from_ref(made))
    {
        return Ok(Arc::clone(made));
    }
    let now = (shared.ctx.now)();
    if let Some(why) = &memory.not_made
        && let Some(left) = memory.makings.must_wait(hash, now)
    {
        return Err((why.clone(), left));
    }
    let (why, retry) = match make(instance, shared, bundles, hash, status).await {
        Ok((bundle, is_new)) => {
            if is_new {
                let created = CreatedBundle {
                    name: bundle.name_any(),
                    uid: bundle.uid().unwrap_or_default(),
                    template_hash: hash.to_owned(),
                };
                memory.bundles = Some(trust::record(status, bundles, created));
            }
            memory.makings.succeeded();
            memory.not_made = None;
            memory.made = Some((Arc::clone(&bundle), Instant::now()));
            return Ok(bundle);
        }
        Err(failure) => failure,
    };
    if retry == Retry::Soon {
        // Nothing holds back whoever is woken because the one that was in the way has gone.
        return Err((why, Duration::from_secs(2)));
    }
    memory.not_made = Some(why.clone());
    Err((why, memory.makings.again(hash.to_owned(), retry, now)))
}

/// Creates the Bundle of the template, or finds the one that the watch does not show yet. First there is room made for
/// it. The second value says whether it is new.
async fn make(
    instance: &BundleInstance,
    shared: &Shared,
    bundles: &[Arc<Bundle>],
    hash: &str,
    status: &BundleInstanceStatus,
) -> Result<(Arc<Bundle>, bool), (Problem, Retry)> {
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
    for old in template::surplus(&all, &needed, &created, template::MOST_OTHERS) {
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
                // A policy or a permission may be at fault for what is forbidden.
                let remedy = if status.code == 403 {
                    Remedy::World
                } else {
                    Remedy::Own
                };
                return Err((Problem { message, remedy }, Retry::Slowly));
            }
            Err(error) => {
                let message = format!("failed to create Bundle {name}: {error}");
                return Err((Problem::of_world(message), Retry::Soon));
            }
        }
        // It was created a moment ago, or is being deleted, or another client has taken the name.
        let found = api.get_opt(&name).await.map_err(|error| {
            let message = format!("failed to read Bundle {name}: {error}");
            (Problem::of_world(message), Retry::Soon)
        })?;
        let found = found.map(Arc::new);
        let own = trust::of_template(status, instance, hash, found.as_slice());
        if let Some(own) = own {
            return Ok((Arc::clone(own), false));
        }
        taken.push(name);
    }
    let message = format!(
        "failed to create the Bundle of spec.template: other clients created Bundles with all its names; delete {}",
        taken.join(", ")
    );
    Err((Problem::of_world(message), Retry::Granted))
}

/// Deletes Bundles that nobody needs: all but the wanted one, once that is installed and healthy.
pub(super) async fn clean_up(
    instance: &BundleInstance,
    shared: &Shared,
    bundles: &[Arc<Bundle>],
    wanted: &Bundle,
    before: &BundleInstanceStatus,
    outcome: &Outcome,
) {
    let installed = match &outcome.install {
        Install::Done(done) if done.rolled_back.is_none() => Some(&done.bundle),
        Install::Unchanged => before.installed_bundle_name.as_ref(),
        _ => None,
    };
    let is_settled =
        installed == Some(&wanted.name_any()) && matches!(outcome.health, Health::Healthy);
    if !is_settled || instance.metadata.deletion_timestamp.is_some() {
        return;
    }
    let api = Api::<Bundle>::all(shared.ctx.client.clone());
    for old in bundles
        .iter()
        .filter(|bundle| bundle.name_any() != wanted.name_any())
    {
        delete(&api, old).await;
    }
}

/// Records the Bundle that an older provisioner, which recorded names alone, has installed. If the record cannot be
/// written, it counts for this reconcile alone, so that what is installed is repaired and watched.
pub(super) async fn adopt(instance: &BundleInstance, shared: &Shared, memory: &mut Memory) {
    let status = current_status(instance, memory);
    let name = status.installed_bundle_name.as_ref();
    let Some(name) = name.filter(|_| status.installed.is_none()) else {
        return;
    };
    let found = shared.bundles.get(name);
    // The watch may not show the one that was made last yet.
    let made = memory.made.iter().map(|(made, _)| Arc::clone(made));
    let bundles: Vec<Arc<Bundle>> = owned_by(instance, shared).into_iter().chain(made).collect();
    let Some(adopted) = trust::adopt(&status, instance, found.as_deref(), &bundles) else {
        return;
    };
    memory.bundles = Some(adopted.bundles.clone());
    if let Err(error) = write_status(instance, shared, memory, &adopted).await {
        warn!(%error, "failed to record the installed Bundle; retrying");
        let written = memory.status.as_ref().map(|known| known.0);
        memory.status = Some(Box::new((
            written.unwrap_or_else(|| version(instance)),
            adopted,
        )));
    }
}

/// Returns the Bundles that were created for an instance and are not being deleted.
pub(super) fn owned_by(instance: &BundleInstance, shared: &Shared) -> Vec<Arc<Bundle>> {
    let mut bundles = candidates(instance, shared);
    bundles.retain(|bundle| template::is_of(bundle, instance));
    bundles
}

/// Returns the Bundles that refer to an instance in any way.
pub(super) fn candidates(instance: &BundleInstance, shared: &Shared) -> Vec<Arc<Bundle>> {
    let uid = instance.uid().unwrap_or_default();
    shared.bundles.of_instance(&uid, &instance.name_any())
}

/// Deletes all Bundles of an instance, and those that belonged to it until the garbage collector released them.
pub(super) async fn delete_all(instance: &BundleInstance, shared: &Shared) {
    let api = Api::<Bundle>::all(shared.ctx.client.clone());
    let mut bundles = candidates(instance, shared);
    bundles.retain(|bundle| template::was_of(bundle, instance));
    for bundle in bundles {
        delete(&api, &bundle).await;
    }
}

/// Deletes a Bundle, that very one. What fails is tried again at the next look.
async fn delete(api: &Api<Bundle>, bundle: &Bundle) {
    let params = kube::api::DeleteParams {
        preconditions: Some(kube::api::Preconditions {
            uid: bundle.uid(),
            resource_version: None,
        }),
        ..kube::api::DeleteParams::default()
    };
    match api.delete(&bundle.name_any(), &params).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
        Err(error) => warn!(bundle = %bundle.name_any(), %error, "could not be deleted"),
    }
}
