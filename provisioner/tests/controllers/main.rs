//! The controllers against a real control plane.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "what goes wrong fails the test by panicking"
)]

mod aggregator;
mod api;
mod apply;
mod bundle;
mod catalogs;
mod content;
mod conversion;
mod corpus;
mod definitions;
mod faults;
mod health;
mod instance;
mod kinds;
mod openshift;
mod platform;
mod preflight;
mod process;
mod pulling;
mod revisions;
mod support;
mod upgrade;
mod watches;
