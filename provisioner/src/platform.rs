//! Platform operators: decisions about single operators, and their effect on cluster upgrades.
//!
//! ```text
//! installed bundles, catalogs, OperatorConditions ── gate ───────┐ may the cluster be upgraded?
//!                                                                ▼
//! PlatformOperators, BundleInstances, ClusterVersion, clock ── aggregate ── ClusterOperators, PlatformStatus
//!
//! installed and next bundle, minor version of the cluster, permissions ── approval ── may the operator be upgraded?
//! BundleInstance ── installed ── is the operator installed?
//! PlatformOperators, packages managed by OLM ── conflict ── which operator has the package?
//! ```
//!
//! These modules are pure; no I/O. The controllers that act on the decisions are [`operator`], for each platform operator,
//! and the aggregator, for all of them. [`upgrade`] watches the calls to removed APIs that a cluster counts.

pub mod aggregate;
pub(crate) mod aggregator;
pub mod approval;
pub mod conflict;
pub mod gate;
pub mod installed;
pub mod operator;
pub mod upgrade;
