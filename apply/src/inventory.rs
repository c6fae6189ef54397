//! Which objects belong to an instance, in memory and in its status.
//!
//! The status lists names, not contents, and [`MOST_LISTED`] of them at most: the recorded revisions have the others. Each
//! object has a fingerprint of the fields of the owner, so that a provisioner that was restarted knows without a request what
//! has changed in the meantime. Older provisioners listed further objects in ConfigMaps, which are still read ([`Overflow`]).
//!
//! ```text
//! kinds:
//! - apiVersion: apps/v1
//!   kind: Deployment
//!   objects: [etcd/etcd-operator 0f1e2d3c4b5a]
//! ```

mod overflow;

use std::collections::BTreeMap;

use manifests::{
    api::{
        instance::{Inventory as Listed, InventoryKind},
        listing,
    },
    object::{Identity, group_version},
};

use crate::drift::Fingerprint;
pub use overflow::{Overflow, find_unreferenced, read, read_left, trim};

/// The objects of an instance.
pub type Inventory = BTreeMap<Identity, Entry>;

/// How many objects the status itself lists: some 50 KiB of it.
pub const MOST_LISTED: usize = 500;

/// What is remembered of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The API version it was applied in.
    pub version: String,
    /// Which of its fields are ours, as of the last time it was applied; `None` until it was.
    pub fields: Option<Fingerprint>,
    /// Whether a rollout deletes the object and creates it again. Repairs do not bring back its older form.
    pub recreating: bool,
}

/// Stands where the fingerprint would.
const NEVER_APPLIED: &str = "-";
/// Stands behind the fingerprint of an object that is recreated.
const RECREATING: &str = "+recreate";

/// Lists an inventory by kind: `most` objects of it at most. Objects that are being recreated come first, since no
/// record of a revision tells that.
pub fn list(inventory: &Inventory, most: usize) -> Listed {
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

/// Reports whether a status lists every object of an inventory, in ConfigMaps of an older provisioner as well.
pub fn is_whole(listed: &Listed) -> bool {
    let count: usize = listed.kinds.iter().map(|kind| kind.objects.len()).sum();
    listed.more.is_some_and(|more| more > 0)
        || i64::try_from(count).is_ok_and(|count| count >= listed.count)
}

fn line(identity: &Identity, entry: &Entry) -> String {
    let mut text = if identity.namespace.is_empty() {
        identity.name.clone()
    } else {
        format!("{}/{}", identity.namespace, identity.name)
    };
    let fields = entry.fields.map(|fields| fields.to_string());
    // Roles may have spaces in their names.
    if fields.is_some() || entry.recreating || text.contains(' ') {
        text.push(' ');
        text.push_str(fields.as_deref().unwrap_or(NEVER_APPLIED));
    }
    if entry.recreating {
        text.push_str(RECREATING);
    }
    text
}

/// Reads what [`list`] wrote. What cannot be read is left out: nothing of ours looks like that.
pub fn parse(kinds: &[InventoryKind]) -> impl Iterator<Item = (Identity, Entry)> {
    kinds.iter().flat_map(|kind| {
        let (_, version) = group_version(&kind.api_version);
        listing::entries(std::slice::from_ref(kind)).map(move |(identity, behind)| {
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

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

#[cfg(test)]
mod tests;
