//! Controllers that reconcile the cluster with the declared Bundles, BundleInstances, CatalogSources and PlatformOperators.
//!
//! ```text
//!  Bundle ──────── bundle: resolve, fetch, store, check ───────────┐ status: digest, info, rejections
//!                                                                  ▼
//!  BundleInstance ─ instance: select or make the Bundle ─ convert ─ plan ─ preflight ─ apply ─ prune
//!        ▲                                                                               │
//!        └────────── drift, health ◄── watches (one per kind, metadata only) ◄───────────┘
//!
//!  content: serves content, accepts uploads       process: flags, leader, metrics, log, signals
//! ```
//!
//! The crate `apply` plans, applies, watches and prunes; the controllers decide what to apply and report it. Decisions are
//! pure functions; the reconcilers fetch their inputs and execute them.

// The futures of the reconcilers are deeply nested, down to the connections.
#![recursion_limit = "256"]

#[cfg(test)]
#[macro_use(assert_rows, with)]
extern crate tests;

/// Returns an object of the API from JSON with only the fields that a test needs.
#[cfg(test)]
macro_rules! object {
    ($($fields:tt)+) => {
        crate::fixtures::object(serde_json::json!($($fields)+))
    };
}

pub mod account;
mod backoff;
pub mod bundle;
pub mod catalogs;
mod client;
pub mod content;
pub mod context;
pub mod conversion;
pub mod events;
#[cfg(test)]
mod fixtures;
mod https;
pub mod instance;
pub mod leading;
pub mod metrics;
pub mod overrides;
pub mod platform;
pub mod process;
pub mod pulling;
pub mod settings;
mod shallow;
pub mod versions;
mod written;
