//! Tests of the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod bundle;
mod catalog_database;
mod catalog_render;
mod catalog_source_validate;
mod credential_plugin;
mod docs;
mod memory;
mod remote;
mod serve;
mod transcripts;
mod unpack;
mod validate;
