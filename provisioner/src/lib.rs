//! The controllers: what a `BundleInstance` declares becomes, and stays, what is in the cluster.
//!
//! ```text
//!  Bundle ──────── bundle: resolve, fetch, store, check ───────────┐ status: digest, facts, refusals
//!                                                                  ▼
//!  BundleInstance ─ instance: select or make the Bundle ─ convert ─ plan ─ preflight ─ apply ─ prune
//!        ▲                                                                               │
//!        └────────── drift, health ◄── watches (one per kind, metadata only) ◄───────────┘
//!
//!  content: hands content out, takes uploads       process: flags, leader, metrics, log, signals
//! ```
//!
//! The crate `apply` plans, applies, watches and prunes; the controllers decide what to apply and report it. Decisions are
//! plain functions over values; the reconcilers fetch their inputs and carry them out.

// The futures of the reconcilers reach down to the connections.
#![recursion_limit = "256"]

#[cfg(test)]
#[macro_use(assert_rows, with)]
extern crate tests;

/// Writes an object of the API as JSON that names the fields that a test needs.
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
