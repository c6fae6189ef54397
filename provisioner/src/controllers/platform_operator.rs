//! PlatformOperator controller: chooses a bundle for each PlatformOperator, and decides about its upgrades.
//!
//! ```text
//! PlatformOperator, offers of catalogs, version of the cluster, OLM ── choose ── install, upgrade or keep
//! installed and next bundle, minor version of the cluster, permissions ── approval ── may the operator be upgraded?
//! PlatformOperators, packages managed by OLM ── package_owner ── which operator has the package?
//! BundleInstance ── installed_condition ── is the operator installed?
//! ```
//!
//! These decisions are pure. [`controller`] watches their inputs, and `reconcile` acts on them.

pub mod approval;
pub mod choose;
pub mod controller;
#[cfg(test)]
pub(super) mod fixtures;
pub mod installed;
pub mod installed_condition;
pub mod instance_manifest;
mod instances;
mod new_permissions;
mod olm_packages;
pub mod package_owner;
mod reconcile;
pub mod record;
pub mod status;
mod version_watch;
