//! The evidence for an automatic rollback, from what the informers have observed.

use std::collections::BTreeSet;

use apply::revision::ObjectHash;
use kube::ResourceExt;
use manifests::{
    api::instance::{BundleInstance, BundleInstanceStatus, Rollback},
    object::Identity,
};

use super::{
    choice::Choices,
    install::{Settled, Source, Target},
    maintain,
    memory::{Memory, Shared},
    reconcile::current_status,
    revisions::{self, owner},
    rollback::{self, Evidence, Unhealthy},
};

/// Returns why the rollout of the template's revision is given up, if it is.
pub(super) async fn failure(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
    choices: &Choices<'_>,
    target: &Target<'_>,
    settled: &Settled,
) -> Option<String> {
    let is_wanted = match target.source {
        Source::Bundle(bundle) => {
            choices.wanted.map(ResourceExt::name_any) == Some(bundle.name_any())
        }
        Source::Newest(newest) => newest.template_hash.as_deref() == Some(choices.hash),
        Source::Revision(_) => false,
    };
    // Another template than the one that does not work is not to blame.
    if !is_wanted || instance.spec.rollback != Rollback::OnFailure {
        return None;
    }
    let status = current_status(instance, memory);
    // A change of the configuration or the account alone is not the fault of the template.
    let (active, newest) = (
        revisions::active(&status)?,
        revisions::rolling_out(&status)?,
    );
    if active.template_hash == newest.template_hash {
        return None;
    }
    let now = (shared.ctx.now)();
    let mut found = maintain::unhealthy(instance, shared, memory);
    if !rollback::is_late(instance, &status, now) {
        found.slow.clear();
    }
    let excused = excused(instance, shared, memory, &status, &found).await;
    let evidence = Evidence {
        install: &settled.install,
        health: &settled.health,
        found: &found,
        excused: &excused,
    };
    rollback::reason(instance, &status, &evidence, now)
}

/// Returns the unhealthy objects that the rollout neither changed nor broke. After a restart that means all that it did not
/// change.
async fn excused(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
    status: &BundleInstanceStatus,
    found: &Unhealthy,
) -> Unhealthy {
    let newest = status.revisions.last().map(|newest| newest.number);
    if let Some((number, excused)) = &memory.excused
        && Some(*number) == newest
    {
        return excused.clone();
    }
    let active = revisions::active(status).filter(|_| *found != Unhealthy::default());
    let Some(active) = active else {
        return Unhealthy::default();
    };
    let Ok(record) = revisions::read(shared, &owner(instance), active).await else {
        return found.clone();
    };
    let hashes: BTreeSet<ObjectHash> = record.objects.iter().map(ObjectHash::new).collect();
    let view = shared.ctx.watches.view(&instance.name_any());
    let is_unchanged = |identity: &&Identity| {
        let hash = view.objects.get(*identity).and_then(|seen| seen.hash);
        hash.is_some_and(|hash| hashes.contains(&hash))
    };
    let unchanged = |all: &BTreeSet<Identity>| all.iter().filter(is_unchanged).cloned().collect();
    Unhealthy {
        failed: unchanged(&found.failed),
        slow: unchanged(&found.slow),
    }
}
