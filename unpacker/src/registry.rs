//! Registries: who we are to them, where their content may be had, and how it is asked for.
//!
//! ```text
//!  reference ── mirrors ──> places, in order
//!                             │ each with its own credentials
//!                          session ── challenge ──> token
//!                             │
//!                    manifest ── blobs ──> layers ──> Tree
//! ```

mod blob;
mod bundle_image;
mod challenge;
mod checksum;
pub mod credentials;
mod error;
pub(crate) mod manifest;
pub mod mirrors;
mod push;
pub(crate) mod session;

pub(crate) use blob::{Blob, Failure};
pub use bundle_image::BundleImage;
pub(crate) use checksum::Checksum;
pub use credentials::Credentials;
pub use error::{Error, Result};
pub use mirrors::Mirrors;
pub use push::push;
