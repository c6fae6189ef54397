//! Inventory that is built from the records of the revisions, for a status that does not list all objects.

use apply::{
    inventory::{Entry, Inventory},
    managed_fields::Fingerprint,
    plan::{ApplyStep, Plan},
    preflight::ownership,
};
use kube::Client;
use manifests::{
    api::{
        bundle_instance::{BundleInstanceStatus, RevisionStatus},
        owner::InstanceOwner,
        revision::RevisionDetails,
    },
    object::{Identity, group_version},
};
use tracing::warn;

use super::{reference, store, was_applied};
use crate::controllers::{
    bundle_instance::{
        inventory_status,
        rollout::{plan, prune_candidates::leaves_early},
    },
    context::Context,
};

/// Adds the objects of a revision to an inventory. A record has no fingerprints, so applied objects get an unknown one and
/// are applied again.
pub(crate) fn index(inventory: &mut Inventory, plan: &Plan, is_applied: bool) {
    let fields = is_applied.then_some(Fingerprint::UNKNOWN);
    for step in &plan.steps {
        let (_, version) = group_version(step.object.api_version());
        // A newer revision, which is added first, may have another version.
        let entry = inventory.entry(step.object.identity());
        let entry = entry.or_insert_with(|| Entry {
            version: version.to_owned(),
            ..Entry::default()
        });
        entry.fields = entry.fields.or(fields);
    }
}

/// Returns the objects of a revision that the newest revision does not have. The newest one must be applied and in the
/// inventory already.
pub(crate) fn leftovers(
    rebuilt: &Rebuilt,
    status: &BundleInstanceStatus,
    revision: &RevisionStatus,
    plan: &Plan,
) -> Vec<Identity> {
    let newest = status.newest().map(|newest| newest.number);
    let is_older = newest != Some(revision.number);
    if !is_older || status.applied_digest.is_none() || rebuilt.unread.is_some() {
        return Vec::new();
    }
    let identities = plan.steps.iter().map(|step| step.object.identity());
    identities
        .filter(|identity| !rebuilt.inventory.contains_key(identity))
        .collect()
}

/// Inventory that was built from the records.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// Objects of the revisions, and those that the status lists.
    pub(crate) inventory: Inventory,
    /// Number of a live revision whose record cannot be used.
    pub(crate) unread: Option<i64>,
    /// Number of recorded objects that the inventory lacks since their API is not served.
    pub(crate) absent: usize,
    /// Objects that the newest revision lacks. Some may have been pruned early.
    pub(crate) leftovers: Vec<Identity>,
}

/// Builds an inventory from the records, for a status that has lost the inventory or lists only a part of it.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(crate) async fn rebuild_index(
    ctx: &Context,
    owner: &InstanceOwner,
    status: &BundleInstanceStatus,
) -> Result<Rebuilt, kube::Error> {
    let mut rebuilt = Rebuilt::default();
    for revision in status.indexed() {
        let store = store(ctx, owner);
        let record = match store.read::<RevisionDetails>(reference(revision)).await {
            Ok(record) => record,
            Err(store::Error::Request { source, .. }) => return Err(*source),
            Err(error) => {
                warn!(number = revision.number, %error, "failed to read the record of a revision; the inventory lacks its objects");
                if revision.is_live() {
                    rebuilt.unread = Some(revision.number);
                }
                continue;
            }
        };
        let namespace = &record.header.namespace;
        let empty = Inventory::new();
        let mut plan = plan(ctx, record.objects, &empty, owner, namespace).await?;
        let client = ctx.clients.client(revision.service_account.as_ref())?;
        leave_out_shared(ctx, &client, owner, &mut plan).await?;
        if status.applied_digest.is_some() && !rebuilt.inventory.is_empty() {
            leave_out_deleted(ctx, &client, &rebuilt.inventory, &mut plan).await?;
        }
        let needing = plan.missing.iter().map(|absent| absent.needed_by.len());
        rebuilt.absent += needing.sum::<usize>();
        let leftovers = leftovers(&rebuilt, status, revision, &plan);
        rebuilt.leftovers.extend(leftovers);
        index(&mut rebuilt.inventory, &plan, was_applied(status, revision));
    }
    add_listed(&mut rebuilt, status);
    Ok(rebuilt)
}

/// Removes the objects that a rollout uses unchanged from a plan: Namespaces and default ServiceAccounts of other owners.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(crate) async fn leave_out_shared(
    ctx: &Context,
    client: &Client,
    owner: &InstanceOwner,
    plan: &mut Plan,
) -> Result<(), kube::Error> {
    let concurrency = ctx.settings.concurrency;
    let shared = ownership::shared(client, &plan.steps, owner, concurrency).await?;
    plan.steps
        .retain(|step| !shared.contains(&step.object.identity()));
    Ok(())
}

/// Removes objects from the plan of an older revision that the rollout of a newer one deleted early.
async fn leave_out_deleted(
    ctx: &Context,
    client: &Client,
    newer: &Inventory,
    plan: &mut Plan,
) -> Result<(), kube::Error> {
    let may_leave = |step: &&ApplyStep| {
        let identity = step.object.identity();
        leaves_early(&identity) && !newer.contains_key(&identity)
    };
    let steps: Vec<&ApplyStep> = plan.steps.iter().filter(may_leave).collect();
    let absent = ownership::absent(client, &steps, ctx.settings.concurrency).await?;
    plan.steps
        .retain(|step| !absent.contains(&step.object.identity()));
    Ok(())
}

/// Adds the objects that the status lists to an inventory that was built from the records.
pub(crate) fn add_listed(rebuilt: &mut Rebuilt, status: &BundleInstanceStatus) {
    if let Some(listed) = &status.inventory {
        rebuilt
            .inventory
            .extend(inventory_status::parse(&listed.kinds));
    }
}

/// Adds objects that only ConfigMaps of an older provisioner list.
pub(crate) fn add_config_maps(rebuilt: &mut Rebuilt, read: Inventory) {
    for (identity, entry) in read {
        rebuilt.inventory.entry(identity).or_insert(entry);
    }
}
