//! The commands that talk to a cluster, against a real control plane and the real provisioner.
//!
//! Without a kubelet, the content service is reached at its address. Tests on a real node (`e2e`) cover the
//! port-forward.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod adopt;
mod catalog_source;
mod diff;
mod docs;
mod environment;
mod install;
mod migrate;
mod permissions;
mod render;
mod revisions;
mod run;
mod uninstall;
mod upgrade;
