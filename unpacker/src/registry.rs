//! Registries: who we are to them, where their content may be had, and how it is asked for.
//!
//! ```text
//!  reference ── mirrors ──> places, in order
//!                             │ each with its own credentials
//!                          session ── challenge ──> token
//!                             │
//!                    manifest ── blobs ──> layers ──> Tree
//! ```

#![allow(dead_code)]

mod challenge;
pub mod credentials;
mod error;
pub mod mirrors;

pub use credentials::Credentials;
pub use error::{Error, Result};
pub use mirrors::Mirrors;
