//! Installing a Bundle, or another version of it: everything is known to be possible before anything is changed.

mod attempt;
mod converted;
mod key;
mod words;

use std::time::Duration;

use kube::{ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        bundle::Bundle,
        instance::{BundleInstance, BundleInstanceSpec, BundleInstanceStatus},
        labels,
    },
    object::{group_version, shortened},
};
use tracing::{info, warn};

use self::{attempt::attempt, key::Shape};
pub(super) use self::{
    attempt::{plan, take_over},
    converted::convert,
    words::{refusals, retry, waiting},
};
use super::{
    maintain,
    memory::{Memory, Shared},
    outcome::{Done, Failure, Health, Install, Kept, Retry},
    reconcile::{current_status, sooner},
};

/// The longest time between two looks at what has left the bundle, and not yet the cluster.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// After the digest of what is applied, while something of the bundle before cannot be deleted yet.
const REMOVING: &str = " (removing)";

/// What is to be in the cluster.
pub(super) struct Target<'a> {
    /// The Bundle.
    pub(super) bundle: &'a Bundle,
    /// The hash of the template that failed, and why it did, when this is the way back.
    pub(super) way_back_from: Option<(String, String)>,
}

/// What came of it.
pub(super) struct Settled {
    pub(super) install: Install,
    pub(super) health: Health,
    pub(super) fights: Vec<String>,
    pub(super) kept: Option<Kept>,
    /// When to look again, unless something happens.
    pub(super) again: Option<Duration>,
}

/// Brings the target into the cluster where it is not there yet, and keeps it there where it is. What is installed is
/// kept as long as the target cannot take its place.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
    installed: Option<&Bundle>,
) -> Settled {
    let now = (shared.ctx.now)();
    let version = match shared.ctx.versions.kubernetes().await {
        Ok(version) => version,
        Err(error) => {
            let failure = Failure {
                bundle: target.bundle.name_any(),
                message: format!("the apiserver does not tell its version: {error}"),
                touched: false,
                retry: Retry::Soon,
            };
            return failed(shared, memory, instance, failure, "version".to_owned());
        }
    };
    let cluster = Shape {
        version,
        has_conditions: shared.has_conditions(),
    };
    let key = key::of(&instance.spec, target.bundle, cluster);
    let is_new =
        status.applied_digest.as_ref() != Some(&key) || has_api_at_last(shared, status).await;
    if !is_new {
        memory.declares(&instance.spec);
        memory.misses_apis(!status.waiting.is_empty());
        let mut settled = maintain::run(instance, shared, memory, status, target).await;
        if matches!(settled.install, Install::Unchanged) && !is_recorded(status, target.bundle) {
            // Another Bundle with the same content: nothing to apply.
            settled.install = Install::Done(Box::new(renamed(status, target)));
        }
        return settled;
    }
    let tried = format!(
        "{key} {} {:?} {:?} {} {}",
        target.bundle.name_any(),
        instance.metadata.generation,
        instance.annotations().get(labels::RETRY),
        *shared.ctx.kinds.changes().borrow(),
        memory.turn(),
    );
    if let Some(left) = memory.tries.must_wait(&tried, now) {
        maintain::watch(instance, shared, memory).await;
        let mut settled = Settled {
            install: Install::Waiting,
            health: maintain::health(instance, shared, memory),
            fights: Vec::new(),
            kept: None,
            again: Some(left),
        };
        keep(instance, shared, memory, cluster, installed, &mut settled).await;
        return settled;
    }
    match Box::pin(attempt(instance, shared, memory, status, target, &key)).await {
        Ok(done) => {
            let complete = done.digest == key;
            memory.declares(&instance.spec);
            info!(bundle = %done.bundle, objects = done.inventory.count, complete, "installed");
            maintain::watch(instance, shared, memory).await;
            let again = if complete {
                memory.tries.succeeded();
                None
            } else {
                // Nothing tells when custom resources are gone.
                memory.tries.again(tried, Retry::Soon, now);
                Some(memory.tries.wait_at_most(LONGEST_WAIT, now))
            };
            memory.misses_apis(!done.waiting.is_empty());
            Settled {
                health: maintain::health(instance, shared, memory),
                install: Install::Done(Box::new(done)),
                fights: Vec::new(),
                kept: None,
                again,
            }
        }
        Err(mut failure) => {
            // Where an earlier try has begun, the old bundle is there only in part, whatever this one did.
            failure.touched |=
                status.installed_bundle_name.is_some() && status.applied_digest.is_none();
            // After a restart nobody has said yet what to watch.
            maintain::watch(instance, shared, memory).await;
            let mut settled = failed(shared, memory, instance, failure, tried);
            keep(instance, shared, memory, cluster, installed, &mut settled).await;
            settled
        }
    }
}

/// Repairs what is installed, as long as nothing of another bundle, or of another configuration, has been begun: after
/// that only the next try knows what should be there.
async fn keep(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    cluster: Shape,
    installed: Option<&Bundle>,
    settled: &mut Settled,
) {
    let Some(installed) = installed else {
        return;
    };
    // The try has changed it, if it began.
    let status = current_status(instance, memory);
    let applied = status.applied_digest.unwrap_or_default();
    let applied = applied.strip_suffix(REMOVING).unwrap_or(&applied);
    let specs = [Some(&instance.spec), memory.declared.as_ref()];
    let is_applied = |spec: &&BundleInstanceSpec| applied == key::of(spec, installed, cluster);
    let Some(spec) = specs.into_iter().flatten().find(is_applied).cloned() else {
        return;
    };
    let kept = maintain::keep(instance, &spec, shared, memory, installed).await;
    if let Some(waiting) = kept.changed
        && let Some(inventory) = maintain::written(instance, shared, memory).await
    {
        settled.kept = Some(Kept { inventory, waiting });
    }
    if let Some(failure) = kept.failure {
        maintain::tell_failure(instance, shared, &failure).await;
    }
    settled.health = maintain::health(instance, shared, memory);
    settled.fights = maintain::fights(shared, memory);
    settled.again = sooner(settled.again, kept.again);
}

fn failed(
    shared: &Shared,
    memory: &mut Memory,
    instance: &BundleInstance,
    failure: Failure,
    tried: String,
) -> Settled {
    let now = (shared.ctx.now)();
    warn!(bundle = %failure.bundle, message = %shortened(&failure.message, 500), "not installed");
    shared.ctx.metrics.failed(
        crate::metrics::Controller::Instance,
        manifests::api::condition::reason::INSTALL_FAILED,
    );
    let again = memory.tries.again(tried, failure.retry, now);
    Settled {
        install: Install::Failed(failure),
        health: maintain::health(instance, shared, memory),
        fights: Vec::new(),
        kept: None,
        again: Some(again),
    }
}

/// Whether an API is served now that objects wait for.
async fn has_api_at_last(shared: &Shared, status: &BundleInstanceStatus) -> bool {
    let kinds: Vec<GroupVersionKind> = status
        .waiting
        .iter()
        .filter_map(|text| {
            let mut words = text.split(' ');
            let (kind, api_version) = (words.next()?, words.next()?);
            let (group, version) = group_version(api_version);
            Some(GroupVersionKind::gvk(group, version, kind))
        })
        .collect();
    if kinds.is_empty() {
        return false;
    }
    match shared.ctx.kinds.find(kinds).await {
        Ok(found) => found.values().any(Option::is_some),
        Err(_) => false,
    }
}

/// Reports whether the status says by uid that this Bundle is the installed one.
fn is_recorded(status: &BundleInstanceStatus, bundle: &Bundle) -> bool {
    let installed = status.installed.as_ref();
    installed.is_some_and(|installed| installed.is(bundle))
}

/// What is in the cluster, under the name of another Bundle.
pub(super) fn renamed(status: &BundleInstanceStatus, target: &Target<'_>) -> Done {
    Done {
        bundle: target.bundle.name_any(),
        uid: target.bundle.uid().unwrap_or_default(),
        // A Bundle that another client has deleted is created again, and the same Bundle precedes it.
        previous: match target.way_back_from {
            Some(_) => None,
            None => status.previous_bundle_name.clone(),
        },
        source: target
            .bundle
            .status
            .as_ref()
            .and_then(|s| s.resolved_source.clone()),
        content: target
            .bundle
            .status
            .as_ref()
            .and_then(|s| s.content_digest.clone()),
        namespace: status.install_namespace.clone().unwrap_or_default(),
        digest: status.applied_digest.clone().unwrap_or_default(),
        facts: status.facts.clone(),
        inventory: status.inventory.clone().unwrap_or_default(),
        waiting: status.waiting.clone(),
        released: status.released.clone(),
        removing: Vec::new(),
        warnings: Vec::new(),
        rolled_back: target.way_back_from.clone(),
    }
}

#[cfg(test)]
mod tests;
