//! File-based catalogs: packages, channels and bundles, and the selection of the bundle to install.
//!
//! ```text
//! directory, Content ──► source ──► stream ──► json ──► walk: metas ──┬──► load ──► Catalog: packages, findings
//!                        (files)    (documents) (values)              │               │
//!                                                                     │               ├──► choose ──► Decision
//!                                                  readers of raw blobs               └──► graph  ──► Mermaid, DOT
//! ```
//!
//! A [`template`] becomes a catalog after its bundles were rendered.
//!
//! A catalog is untrusted and may be larger than memory. Documents are therefore read one after the other and dropped
//! after parsing; only the data of a bundle that decisions need is retained. All problems are reported at once, with
//! file and line, with the messages of `opm validate`. A broken package does not affect the others.

#[cfg(test)]
#[macro_use(with)]
extern crate tests;

#[cfg(test)]
mod testing;

mod blob;
mod check;
pub mod choose;
pub mod configmap;
pub mod draft;
pub mod facts;
pub mod finding;
pub mod generate;
pub mod graph;
pub mod inject;
pub mod json;
mod load;
pub mod model;
#[cfg(feature = "registry")]
pub mod registry;
pub mod render;
mod shape;
pub mod source;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stream;
pub mod template;
pub mod walk;
#[cfg(feature = "web")]
pub mod web;

pub use self::{
    finding::{Finding, Level},
    load::{Catalog, load},
    source::{Error, Limits, Source},
    walk::{Fault, Meta, collect, walk},
};
