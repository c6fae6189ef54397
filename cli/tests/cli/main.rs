//! The real binary, as people and scripts use it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails says so by panicking"
)]

mod bundle;
mod catalog;
mod catalog_database;
mod catalog_draft;
mod catalog_irregular;
mod catalog_large;
mod catalog_render;
mod catalog_source;
mod catalog_source_validate;
mod catalog_template;
mod convert;
mod docs;
mod general;
mod inspect;
mod irregular;
mod max_openshift;
mod memory;
mod places;
mod platform;
mod push;
mod remote;
mod serve;
mod several;
mod sources;
mod unpack;
mod validate;
