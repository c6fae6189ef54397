//! BundleInstance controller: installs, repairs, upgrades and uninstalls the bundles that BundleInstances declare.
//!
//! ```text
//!  reconcile ─┬─ uninstall          being deleted: custom resources, CRDs, all other objects, by policy
//!             └─ run_steps
//!                 ├─ template       finds or creates the desired Bundle
//!                 ├─ rollout        new revision: convert ─ plan ─ preflight ─ record ─ apply ─ prune
//!                 ├─ repair         no new revision: compare the observed objects with the inventory, repair
//!                 └─ outcome ─ super::status::build ─ one write if the status changes
//! ```
//!
//! An instance without changes causes no requests to the API server. The inventory has the fingerprints of the applied
//! fields, and the watches report their changes. The inventory is written before objects are applied, so that after a crash
//! it lists every object that may exist.

pub(crate) mod apply_locks;
pub(crate) mod attempt_backoff;
pub(crate) mod bundles;
pub(crate) mod choice;
pub mod controller;
pub(crate) mod events;
pub(crate) mod inventory_status;
#[cfg(test)]
mod model;
pub mod outcome;
pub mod policy;
pub(crate) mod reconcile;
pub(crate) mod repair;
pub(crate) mod revisions;
pub(crate) mod rollback;
pub(crate) mod rollback_evidence;
pub(crate) mod rollout;
pub(crate) mod rollout_slots;
pub(crate) mod state;
pub mod status;
pub(crate) mod status_writer;
pub mod template;
pub(crate) mod trust;
pub(crate) mod uninstall;
pub(crate) mod waiting;
