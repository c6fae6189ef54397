//! ClusterOperator controller: reports all platform operators to the cluster, and whether the cluster may be upgraded.
//!
//! ```text
//! installed bundles, catalogs, OperatorConditions, removed_apis ── upgradeable ─┐
//!                                                                               ▼
//! PlatformOperators, BundleInstances, ClusterVersion, clock ──────────────── model ── ClusterOperators, PlatformStatus
//! ```
//!
//! `upgradeable`, `model` and `decide` are pure. `controller` watches their inputs, and `publish` writes the statuses.
//! `removed_apis` follows the calls to removed APIs that a cluster counts.

mod cache;
pub(crate) mod controller;
mod decide;
pub mod instance;
pub mod model;
mod publish;
mod reduce;
pub mod removed_apis;
mod subscriptions;
pub mod upgradeable;
pub(crate) mod watch;
