//! Drift detection: compares the observed objects with the inventory. Pure; no I/O.

#[cfg(test)]
mod tests;

use manifests::object::Identity;

use crate::{
    informers::{InstanceView, ObservedObject},
    inventory::{Entry, Inventory},
};

/// Returns the objects that must be applied again: deleted, without the owner labels, with changed fields, or never
/// observed as applied. Terminating objects are skipped until they no longer exist, and so are objects whose state no watch
/// reports.
pub fn drifted(inventory: &Inventory, view: &InstanceView) -> Vec<Identity> {
    inventory
        .iter()
        .filter(|(identity, entry)| match view.objects.get(identity) {
            Some(seen) => has_drifted(entry, seen),
            None => view.absent.contains(identity),
        })
        .map(|(identity, _)| identity.clone())
        .collect()
}

fn has_drifted(entry: &Entry, seen: &ObservedObject) -> bool {
    !seen.deleting && entry.fields != seen.fields
}
