//! Controllers that reconcile the cluster with the declared Bundles, BundleInstances, CatalogSources and PlatformOperators.
//!
//! ```text
//!  Bundle ──────── bundle: resolve, fetch, store, check ───────────┐ status: digest, info, rejections
//!                                                                  ▼
//!  BundleInstance ─ bundle_instance: select or create the Bundle ─ convert ─ plan ─ preflight ─ apply ─ prune
//!        ▲                                                                               │
//!        └────────── drift, health ◄── watches (one per kind, metadata only) ◄───────────┘
//!
//!  app: flags, tasks, shutdown
//!   ├─ content: serves content, accepts uploads ─┐
//!   ├─ controllers: one module per resource ◄────┘
//!   └─ conversion_webhook: CatalogSources
//!       └─ cluster: clients, versions, pull configuration
//!           └─ runtime: leader election, TLS, metrics, Events, log
//! ```
//!
//! A module uses only modules below it; a test checks that. The crate `apply` plans, applies, watches and prunes; the
//! controllers decide what to apply and report it. Decisions are pure functions; the reconcilers fetch their inputs and
//! execute them.

// The futures of the reconcilers are deeply nested, down to the connections.
#![recursion_limit = "256"]

#[cfg(test)]
#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

/// Returns an object of the API from JSON with only the fields that a test needs.
#[cfg(test)]
macro_rules! object {
    ($($fields:tt)+) => {
        crate::fixtures::object(serde_json::json!($($fields)+))
    };
}

pub mod app;
pub mod cluster;
pub mod content;
pub mod controllers;
pub mod conversion_webhook;
#[cfg(test)]
mod fixtures;
pub mod runtime;
