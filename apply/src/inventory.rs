//! Which objects belong to an instance, in memory and in its status.
//!
//! The status lists names, not contents, and the first [`MOST_LISTED`] of them; what exceeds that stands in ConfigMaps
//! of the system namespace, in the same form. Each object has a fingerprint of the fields that are ours, so that a
//! provisioner that was restarted knows without a request what has changed in the meantime.
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
pub use overflow::{Overflow, find_unreferenced, read, read_left, trim, write};

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

/// Lists an inventory by kind, in pieces of at most so many objects.
pub fn list(inventory: &Inventory, most: usize) -> Vec<Vec<InventoryKind>> {
    let mut pieces = vec![Vec::new()];
    let mut room = most;
    let mut kinds: Vec<(String, &str, Vec<String>)> = Vec::new();
    for (identity, entry) in inventory {
        let api_version = api_version(&identity.group, &entry.version);
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
        match kinds.last_mut() {
            // Sorted by group and kind; a kind that was applied in two versions has two entries.
            Some((version, kind, objects)) if *version == api_version && *kind == identity.kind => {
                objects.push(text);
            }
            _ => kinds.push((api_version, &identity.kind, vec![text])),
        }
    }
    for (api_version, kind, mut objects) in kinds {
        while !objects.is_empty() {
            if room == 0 {
                pieces.push(Vec::new());
                room = most;
            }
            let rest = objects.split_off(objects.len().min(room));
            room -= objects.len();
            if let Some(piece) = pieces.last_mut() {
                piece.push(InventoryKind {
                    api_version: api_version.clone(),
                    kind: kind.to_owned(),
                    objects: std::mem::replace(&mut objects, rest),
                });
            }
        }
    }
    pieces
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

/// What the status says of an inventory whose pieces are these.
fn listed(count: usize, pieces: &mut Vec<Vec<InventoryKind>>) -> Listed {
    let first = if pieces.is_empty() {
        Vec::new()
    } else {
        pieces.remove(0)
    };
    Listed {
        count: i64::try_from(count).unwrap_or(i64::MAX),
        kinds: first,
        more: i64::try_from(pieces.len()).ok().filter(|more| *more > 0),
    }
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
