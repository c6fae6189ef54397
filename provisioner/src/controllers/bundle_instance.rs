//! BundleInstance controller: installs, repairs, upgrades and uninstalls the bundles that BundleInstances declare.
//!
//! ```text
//!  reconcile ─┬─ uninstall          being deleted: custom resources, CRDs, all other objects, by policy
//!             └─ run_steps
//!                 ├─ template       finds or creates the desired Bundle
//!                 ├─ rollout        new revision: convert ─ plan ─ preflight ─ record ─ apply ─ prune
//!                 ├─ repair         no new revision: compare the observed objects with the inventory, repair
//!                 └─ outcome ─ super::status::build ─ one write if the status changes ─ deletion of unused Bundles
//! ```
//!
//! An instance without changes causes no requests to the API server. The inventory has the fingerprints of the applied
//! fields, and the watches report their changes. The inventory is written before objects are applied, so that after a crash
//! it lists every object that may exist.

mod apply_locks;
mod attempt_backoff;
mod bundles;
mod choice;
pub mod controller;
mod events;
mod inventory_status;
#[cfg(test)]
mod model;
pub mod outcome;
pub mod policy;
mod reconcile;
mod repair;
pub(crate) mod revisions;
mod rollback;
mod rollback_evidence;
mod rollout;
mod rollout_slots;
mod state;
pub mod status;
mod status_writer;
pub mod template;
mod trust;
mod uninstall;
mod waiting;
