//! Catalogs as the registry API: what `opm serve` serves and OLM asks for.
//!
//! ```text
//!  Source ── walk ──► part ──► assemble ──► Store (one file) ◄── query, server ◄── OLM, grpcurl
//!                      │ pieces                  ▲
//!                      └─────────────────────────┘                     client ──► any such server
//! ```
//!
//! A catalog is made into a [`Store`] document by document, so that memory depends on the number of its bundles and not
//! on their manifests; a [`Cache`] keeps the store under the digest of the catalog, and then it is opened in a moment.
//! Packages with faults are left out, and said to be; so are bundles of formats that OLM does not know, where channels
//! lead past them.

mod assemble;
mod cache;
pub mod client;
mod csv;
mod graph;
pub mod hosting;
mod index;
mod packages;
mod part;
mod query;
mod server;
mod store;
pub mod wire;

pub use self::{
    cache::{Cache, Error},
    client::{Bounds, Client},
    packages::{Packages, packages},
    server::{Calls, DESCRIPTORS, Failed, Service, serve},
    store::{Digest, Error as StoreError, Store},
};
