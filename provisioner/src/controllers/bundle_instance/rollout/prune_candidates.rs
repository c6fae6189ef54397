//! Objects that leave a bundle: early deletion during a rollout, and their lines in the status.

use apply::{
    plan::{InstanceOwner, Plan, PruneCandidate},
    ssa::PruneReport,
};
use manifests::{
    api::bundle_instance::BundleInstanceStatus,
    object::{Identity, Object, text, truncate},
};

use super::render::Rendered;
use crate::controllers::bundle_instance::{revisions, state::InstanceContext};

/// Maximum length of a line in the status, in characters.
const MAX_LINE_LEN: usize = 1000;
/// Maximum number of lines in the status about released objects.
const MAX_RELEASED: usize = 100;
/// Maximum number of lines in the status about prune candidates.
pub(crate) const MAX_LISTED: usize = 500;

/// Returns the objects to prune before the new version is healthy.
pub(super) async fn prune_first(
    plan: &Plan,
    shared: &InstanceContext,
    owner: &InstanceOwner,
    before: &BundleInstanceStatus,
) -> Vec<PruneCandidate> {
    let mut leaving = plan.leaving.iter();
    let has_webhooks = leaving.any(|leaving| is_webhook(&leaving.identity));
    let record = match before.active().filter(|_| has_webhooks) {
        Some(active) => revisions::read(shared, owner, active).await.ok(),
        None => None,
    };
    // Without the record, webhook configurations are pruned with the other objects.
    early(
        plan,
        record
            .as_ref()
            .map_or(&[], |record| record.objects.as_slice()),
    )
}

/// Reports whether a rollout may delete objects of a kind before the new version is healthy.
pub(crate) fn leaves_early(identity: &Identity) -> bool {
    identity.group == "apiregistration.k8s.io" || is_webhook(identity)
}

fn is_webhook(identity: &Identity) -> bool {
    identity.group == "admissionregistration.k8s.io"
        && identity.kind.ends_with("WebhookConfiguration")
}

/// Returns the prune candidates that would break the new version if they were kept until it is healthy: APIServices, and
/// webhook configurations whose Service is a prune candidate. `active` has the objects of the active revision.
pub(crate) fn early(plan: &Plan, active: &[Object]) -> Vec<PruneCandidate> {
    let group =
        |leaving: &&PruneCandidate| leaving.identity.group.as_str() == "apiregistration.k8s.io";
    let mut early: Vec<PruneCandidate> = plan.leaving.iter().filter(group).cloned().collect();
    let webhooks = plan
        .leaving
        .iter()
        .filter(|leaving| is_webhook(&leaving.identity));
    let leaves = |namespace: &str, name: &str| {
        plan.leaving.iter().any(|leaving| {
            let identity = &leaving.identity;
            identity.group.is_empty()
                && identity.kind == "Service"
                && identity.namespace == namespace
                && identity.name == name
        })
    };
    for leaving in webhooks {
        let object = active.iter().find(|object| {
            object.kind() == leaving.identity.kind && object.name() == leaving.identity.name
        });
        let webhooks = object.and_then(|object| object.value().get("webhooks")?.as_array());
        let is_orphaned = webhooks.into_iter().flatten().any(|webhook| {
            let field = |name| text(webhook, &["clientConfig", "service", name]);
            matches!((field("namespace"), field("name")), (Some(namespace), Some(name)) if leaves(namespace, name))
        });
        if is_orphaned {
            early.push(leaving.clone());
        }
    }
    early
}

/// Returns the lines of objects that wait to be pruned.
pub(crate) fn lines_of<'a>(identities: impl Iterator<Item = &'a Identity>) -> Vec<String> {
    identities
        .take(MAX_LISTED)
        .map(|identity| truncate(&identity.to_string(), MAX_LINE_LEN))
        .collect()
}

/// Returns the lines of pruned objects that are still terminating, and of those that could not be pruned.
pub(crate) fn terminating_objects(pruned: &PruneReport) -> Vec<String> {
    let going = pruned
        .terminating
        .iter()
        .map(|identity| pruned.line(identity));
    let failed = pruned.failed.iter().map(|failure| failure.message.clone());
    going
        .chain(failed)
        .map(|line| truncate(&line, MAX_LINE_LEN))
        .take(MAX_LISTED)
        .collect()
}

/// Returns the lines of objects that have left the bundle and were released, with the reasons.
pub(super) fn released(
    before: &BundleInstanceStatus,
    rendered: &Rendered,
    pruned: &PruneReport,
) -> Vec<String> {
    // Earlier attempts may have released objects as well.
    let is_again = before.installed_bundle_name.as_ref() == Some(&rendered.details.bundle.name);
    let earlier = before.released.iter().filter(|_| is_again).cloned();
    release_lines(pruned)
        .chain(earlier)
        .take(MAX_RELEASED)
        .collect()
}

/// Returns the lines of released objects, with the reasons.
pub(crate) fn release_lines(pruned: &PruneReport) -> impl Iterator<Item = String> {
    let released = pruned.released.iter();
    released.map(|(identity, why)| truncate(&format!("{identity}: {why}"), MAX_LINE_LEN))
}
