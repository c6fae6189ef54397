//! Catalogs in the gRPC registry API: serves the API of `opm serve`, which OLM queries, and reads it from other
//! servers.
//!
//! ```text
//!  Source ── documents ──► document ──► index_builder ──► Store (one file) ◄── query, server ◄── OLM, grpcurl
//!                            │ manifests                   ▲
//!                            └─────────────────────────────┘                      client ──► any such server
//! ```
//!
//! A catalog is converted into a [`Store`] document by document. Memory use therefore depends on the number of bundles
//! and not on the size of their manifests. A [`Cache`] keeps the store under the digest of the catalog, so that an
//! unchanged catalog opens without a build. Invalid packages are skipped and reported. Bundles in formats that OLM does
//! not support are skipped too, if upgrade paths lead past them.

mod cache;
pub mod client;
mod document;
mod fetch_packages;
mod filter_channel;
mod index;
mod index_builder;
pub mod proto;
mod query;
mod server;
pub mod startup;
mod store;
mod synthetic_csv;

pub use self::{
    cache::{Cache, Error},
    client::{Client, ClientLimits},
    fetch_packages::{Packages, packages},
    server::{DESCRIPTORS, ObserveCalls, ServeError, Service, serve},
    store::{Digest, Error as StoreError, Store},
};
