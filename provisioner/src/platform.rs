//! Platform operators: what is decided about them, and what follows for the cluster.
//!
//! ```text
//!  installed bundles, catalogs, OperatorConditions ── gate ───────┐ may the cluster be upgraded?
//!                                                                 ▼
//!  PlatformOperators, BundleInstances, ClusterVersion, clock ── aggregate ── ClusterOperators, PlatformStatus
//!
//!  installed and next bundle, cluster's minor, rights ── approval ── may the operator be upgraded?
//!  BundleInstance ── installed ── is the operator installed?
//!  PlatformOperators, what OLM manages ── conflict ── whose is the package?
//! ```
//!
//! These are plain functions over values: nothing is asked of anybody. What acts on them is in [`operator`], for each
//! platform operator, and in the aggregator, for all of them; [`upgrade`] follows the calls to removed APIs that a cluster
//! counts.

pub mod aggregate;
pub(crate) mod aggregator;
pub mod approval;
pub mod conflict;
pub mod gate;
pub mod installed;
pub mod operator;
pub mod upgrade;
