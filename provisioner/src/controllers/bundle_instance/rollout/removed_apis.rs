//! Uses of APIs that a later minor version of Kubernetes removes, listed per live revision.
//!
//! ```text
//! rendered Bundle ───────────────────────────────────┐
//! record of a live revision that lists no uses yet ──┴──► status.revisions[].removedApis
//! ```
//!
//! Revisions of an older provisioner, and those with the objects of an earlier revision, have no list.

use std::time::{Duration, Instant};

use convert::removed_apis;
use kube::ResourceExt as _;
use manifests::{
    api::bundle_instance::{BundleInstance, BundleInstanceStatus, RemovedApi, RevisionStatus},
    object::{Object, truncate},
    version::KubeVersion,
};
use tokio::task::spawn_blocking;
use tracing::debug;

use crate::controllers::bundle_instance::{
    revisions::{self, owner},
    state::{InstanceContext, InstanceState},
};

/// Time between two attempts to read a record.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);

/// Lists the uses of each live revision without a list, from its record. A record that cannot be read is read again after
/// [`RETRY_INTERVAL`].
pub(crate) async fn complete(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &mut BundleInstanceStatus,
) {
    if state
        .unlisted
        .is_some_and(|at| at.elapsed() < RETRY_INTERVAL)
    {
        return;
    }
    let is_missing =
        |revision: &&mut RevisionStatus| revision.is_live() && revision.removed_apis.is_none();
    for revision in status.revisions.iter_mut().filter(is_missing) {
        let Ok(running) = shared.ctx.versions.kubernetes().await else {
            return;
        };
        match revisions::read(shared, &owner(instance), revision).await {
            Ok(record) => {
                let uses = spawn_blocking(move || uses(&record.objects, running));
                revision.removed_apis = uses.await.ok();
            }
            Err(error) => {
                let (instance, number) = (instance.name_any(), revision.number);
                state.unlisted = Some(Instant::now());
                debug!(instance, number, %error, "failed to list the uses of removed APIs; retrying");
            }
        }
    }
}

/// Returns the uses of APIs that a later minor version of Kubernetes removes.
pub(super) fn uses(objects: &[Object], running: KubeVersion) -> Vec<RemovedApi> {
    let rest = || "more uses exist; this list is incomplete".to_owned();
    let unchecked =
        || "more uses may exist: the roles of the bundle have too many rules to check".to_owned();
    let found = removed_apis::later(objects, running);
    let uses = found.iter().flat_map(|(minor, removals)| {
        let removed_in = minor.to_string();
        let messages = removals.found.iter().map(ToString::to_string);
        let messages = messages.chain(removals.is_incomplete.then(unchecked));
        messages.map(move |message| RemovedApi {
            removed_in: removed_in.clone(),
            message: truncate(&message, RemovedApi::MAX_MESSAGE - 1),
        })
    });
    let mut uses: Vec<RemovedApi> = uses.take(RemovedApi::MAX + 1).collect();
    if uses.len() > RemovedApi::MAX {
        uses.truncate(RemovedApi::MAX);
        if let Some(last) = uses.last_mut() {
            last.message = rest();
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn uses_are_listed_up_to_a_maximum() {
        let budget = |number: usize| {
            let value = json!({
                "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
                "metadata": {"name": format!("{number:03}{}", "x".repeat(2000)), "namespace": "tide"},
            });
            Object::try_from(value).unwrap()
        };
        let budgets: Vec<Object> = (0..100).map(budget).collect();
        let running = KubeVersion::new(1, 24);
        for (count, last) in ::tests::rows![
            1 => "PodDisruptionBudget tide/000xxx";
            64 => "PodDisruptionBudget tide/063xxx";
            65 => "more uses exist";
            100 => "more uses exist";
        ] {
            let found = uses(&budgets[..count], running);
            assert_rows! {
                found.len() => count.min(RemovedApi::MAX);
                found.iter().all(|found| found.removed_in == "1.25") => true;
                found.iter().all(|found| found.message.chars().count() <= RemovedApi::MAX_MESSAGE) => true;
                found[found.len() - 1].message.starts_with(last) => true, "{count}";
            }
        }
        assert_eq!(uses(&budgets, KubeVersion::new(1, 25)), []);
    }
}
