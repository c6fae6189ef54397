//! The controllers against a real control plane.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "helpers of tests fail by panicking"
)]

mod api;
mod apply;
mod bundle;
mod catalogs;
mod cluster_operator;
mod content;
mod conversion;
mod corpus;
mod crd_upgrades;
mod discovery;
mod faults;
mod health;
mod informers;
mod instance;
mod openshift;
mod platform;
mod preflight;
mod process;
mod pull_config;
mod revisions;
mod support;
mod upgrade;
