//! The Bundles of an instance: made of its template, and deleted when nobody needs them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{Api, ResourceExt as _};
use manifests::api::{
    bundle::Bundle,
    instance::{BundleInstance, BundleInstanceStatus},
};
use tracing::warn;

use super::{
    memory::{Memory, Shared},
    outcome::{Health, Install, Outcome, Retry},
    template,
};

/// How late the watch of Bundles may be to show one that was made.
pub(super) const LATE: Duration = Duration::from_secs(2);

/// The Bundle of the template; it is made when there is none. Otherwise why there is none, and when to try again.
pub(super) async fn find_or_make(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    bundles: &[Arc<Bundle>],
    hash: &str,
    status: &BundleInstanceStatus,
) -> Result<Arc<Bundle>, (String, Duration)> {
    if let Some(bundle) = bundles
        .iter()
        .find(|bundle| template::matches(bundle, instance, hash))
    {
        memory.made = None;
        return Ok(Arc::clone(bundle));
    }
    if let Some((made, at)) = &memory.made
        && at.elapsed() < LATE
        && template::matches(made, instance, hash)
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
        Ok(bundle) => {
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

/// Makes the Bundle of the template. First there is room made for it.
async fn make(
    instance: &BundleInstance,
    shared: &Shared,
    bundles: &[Arc<Bundle>],
    hash: &str,
    status: &BundleInstanceStatus,
) -> Result<Arc<Bundle>, (String, Retry)> {
    let api = Api::<Bundle>::all(shared.ctx.client.clone());
    let bundle = template::bundle(instance, hash);
    let name = bundle.name_any();
    let all: Vec<&Bundle> = bundles.iter().map(AsRef::as_ref).collect();
    let needed: Vec<&str> = [&status.installed_bundle_name, &status.previous_bundle_name]
        .into_iter()
        .filter_map(|name| name.as_deref())
        .chain([name.as_str()])
        .collect();
    for old in template::surplus(&all, &needed, template::MOST_OTHERS) {
        delete(&api, old).await;
    }
    match api.create(&kube::api::PostParams::default(), &bundle).await {
        Ok(made) => return Ok(Arc::new(made)),
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            let message = format!(
                "the apiserver refuses Bundle {name}, which is made from spec.template: {}; correct the template",
                status.message
            );
            return Err((message, Retry::Slowly));
        }
        Err(error) => {
            let message = format!("Bundle {name} cannot be created: {error}");
            return Err((message, Retry::Soon));
        }
    }
    // It exists: made a moment ago, or going, or somebody else's.
    let found = api.get(&name).await.map_err(|error| {
        (
            format!("Bundle {name} cannot be read: {error}"),
            Retry::Soon,
        )
    })?;
    if template::is_of(&found, instance) && template::matches(&found, instance, hash) {
        return Ok(Arc::new(found));
    }
    let message = if found.metadata.deletion_timestamp.is_some() {
        format!("Bundle {name} is being deleted; it is made again when it is gone")
    } else {
        format!(
            "Bundle {name} exists and was not made from this template; delete it, so that it can be made again"
        )
    };
    Err((message, Retry::Soon))
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

/// Deletes all Bundles of an instance.
pub(super) async fn delete_all(instance: &BundleInstance, shared: &Shared) {
    let api = Api::<Bundle>::all(shared.ctx.client.clone());
    for bundle in shared.bundles_left_by(instance) {
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
