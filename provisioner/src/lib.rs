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
//! Whatever is decided is decided by plain functions over values (`plan`, `drift`, `health`, `status`); the reconcilers
//! only fetch what these need and do what they say.

// The futures of the reconcilers reach down to the connections.
#![recursion_limit = "256"]

pub mod account;
pub mod apply;
mod backoff;
pub mod bundle;
pub mod catalogs;
mod client;
pub mod content;
pub mod context;
pub mod conversion;
pub mod drift;
pub mod events;
pub mod health;
mod https;
pub mod instance;
pub mod inventory;
pub mod kinds;
pub mod leading;
pub mod metrics;
pub mod overrides;
pub mod plan;
pub mod platform;
pub mod preflight;
pub mod process;
pub mod pulling;
pub mod settings;
mod shallow;
pub mod watches;
