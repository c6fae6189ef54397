//! Client for OCI registries: credentials, mirrors, pull and push.
//!
//! ```text
//!  reference ── mirrors ──> endpoints, in order
//!                             │ each with its own credentials
//!                          session ── challenge ──> token
//!                             │
//!                    manifest ── blobs ──> layers ──> Tree
//! ```
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use unpacker::{Access, Options, registry::{BundleImage, Credentials, push}};
//!
//! let directory = unpacker::open("bundle".as_ref(), &Options::default())?;
//! let access = Access { registries: Credentials::from_user_environment()?, ..Access::default() };
//! let bundle = BundleImage::new(&directory.content)?;
//! let digest = push(&"quay.io/org/bundle:v1".parse()?, &bundle, &access).await?;
//! println!("pushed {digest}");
//! # Ok(())
//! # }
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
