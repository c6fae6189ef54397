//! The inventory of an instance in its status.
//!
//! The status lists names without contents, [`MAX_IN_STATUS`] of them at most; the recorded revisions have all objects.
//! Each entry has the fingerprint of the provisioner's fields, so that a restarted provisioner detects changes without a
//! request. Older provisioners listed further objects in ConfigMaps, which are still read ([`overflow`]).
//!
//! ```text
//! kinds:
//! - apiVersion: apps/v1
//!   kind: Deployment
//!   objects: [etcd/etcd-operator 0f1e2d3c4b5a]
//! ```

mod overflow;

use apply::inventory::{Entry, Inventory};
use manifests::{
    api::{
        bundle_instance::{
            BundleInstanceStatus, Inventory as Listed, InventoryKind, RevisionState,
        },
        inventory_format,
    },
    object::{Identity, api_version, group_version},
};

pub(crate) use overflow::{find_unreferenced, read, trim};

/// Maximum number of objects that the status lists, about 50 KiB.
const MAX_IN_STATUS: usize = 500;

/// Placeholder for the fingerprint of an object that was never applied.
const NEVER_APPLIED: &str = "-";
/// Suffix of the fingerprint of an object that is being recreated.
const RECREATING: &str = "+recreate";

/// Lists up to `most` objects of an inventory by kind. Objects that are being recreated have priority, since no
/// revision records that.
pub(crate) fn list(inventory: &Inventory, most: usize) -> Listed {
    let (first, others): (Vec<_>, Vec<_>) =
        inventory.iter().partition(|(_, entry)| entry.recreating);
    let mut chosen: Vec<_> = first.into_iter().chain(others).take(most).collect();
    chosen.sort_unstable_by_key(|(identity, _)| *identity);
    let mut kinds: Vec<InventoryKind> = Vec::new();
    for (identity, entry) in chosen {
        let api_version = api_version(&identity.group, &entry.version);
        let text = line(identity, entry);
        match kinds.last_mut() {
            // Sorted by group and kind; a kind that was applied in two versions has two entries.
            Some(last) if last.api_version == api_version && last.kind == identity.kind => {
                last.objects.push(text);
            }
            _ => kinds.push(InventoryKind {
                api_version,
                kind: identity.kind.clone(),
                objects: vec![text],
            }),
        }
    }
    Listed {
        count: i64::try_from(inventory.len()).unwrap_or(i64::MAX),
        kinds,
        more: None,
    }
}

/// Returns the inventory for the status.
///
/// `absent` is the number of objects that the inventory lacks since their API is not served.
pub(crate) fn build(
    inventory: &Inventory,
    absent: usize,
    unread: Option<i64>,
    before: &BundleInstanceStatus,
) -> Listed {
    let mut listed = list(inventory, MAX_IN_STATUS);
    let absent = i64::try_from(absent).unwrap_or(i64::MAX);
    listed.count = listed.count.saturating_add(absent);
    counted(listed, unread, before)
}

/// Sets the count of a list that lacks objects because the record of a revision cannot be read (`unread`): the count of the
/// previous status, if that is larger.
pub(crate) fn counted(
    mut listed: Listed,
    unread: Option<i64>,
    before: &BundleInstanceStatus,
) -> Listed {
    if let Some(before) = before.inventory.as_ref().filter(|_| unread.is_some()) {
        listed.count = listed.count.max(before.count);
    }
    listed
}

/// Retains the inventory ConfigMaps of an older provisioner until all objects that have left the bundle are pruned, since
/// no revision records these objects.
pub(crate) fn retain_config_maps(status: &mut BundleInstanceStatus, before: &BundleInstanceStatus) {
    let newest = status.newest();
    let is_active = newest.is_some_and(|newest| newest.state == RevisionState::Active);
    let is_settled = is_active && status.removing.is_empty() && status.applied_digest.is_some();
    let more = before.inventory.as_ref().and_then(|before| before.more);
    if let Some(inventory) = &mut status.inventory {
        inventory.more = inventory.more.or(more).filter(|_| !is_settled);
    }
}

fn line(identity: &Identity, entry: &Entry) -> String {
    let mut text = if identity.namespace.is_empty() {
        identity.name.clone()
    } else {
        format!("{}/{}", identity.namespace, identity.name)
    };
    let fields = entry.fields.map(|fields| fields.to_string());
    // Names of roles may contain spaces.
    if fields.is_some() || entry.recreating || text.contains(' ') {
        text.push(' ');
        text.push_str(fields.as_deref().unwrap_or(NEVER_APPLIED));
    }
    if entry.recreating {
        text.push_str(RECREATING);
    }
    text
}

/// Parses the entries that [`list`] wrote, and skips malformed ones.
pub(crate) fn parse(kinds: &[InventoryKind]) -> impl Iterator<Item = (Identity, Entry)> {
    kinds.iter().flat_map(|kind| {
        let (_, version) = group_version(&kind.api_version);
        inventory_format::entries(std::slice::from_ref(kind)).map(move |(identity, behind)| {
            let marked = behind.and_then(|behind| behind.strip_suffix(RECREATING));
            let entry = Entry {
                version: version.to_owned(),
                fields: marked.or(behind).and_then(|fields| fields.parse().ok()),
                recreating: marked.is_some(),
            };
            (identity, entry)
        })
    })
}

#[cfg(test)]
mod tests;
