//! File-based catalogs: packages, channels and bundles, and the selection of the bundle to install.
//!
//! ```text
//! directory, Content ──► source ──► document_stream ──► json ──► documents: metas ──┬──► load ──► Catalog, findings
//!                        (files)    (documents)         (values)                    │               │
//!                                                                                   │               ├──► choose
//!                                                                readers of raw blobs               └──► draw
//! ```
//!
//! A [`template`] becomes a catalog after its bundles were rendered.
//!
//! A catalog is untrusted and may be larger than memory. Documents are therefore read one after the other and dropped
//! after parsing; only the data of a bundle that decisions need is retained. All problems are reported at once, with
//! file and line, with the messages of `opm validate`. A broken package does not affect the others.

#[cfg(test)]
#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

#[cfg(test)]
mod testing;

pub mod choose;
pub mod compose;
pub mod configmap;
mod document_stream;
pub mod documents;
pub mod draw;
pub mod finding;
pub mod generate;
mod go_json;
#[cfg(feature = "web")]
pub mod http;
pub mod init;
pub mod json;
mod load;
pub mod model;
pub mod properties;
#[cfg(feature = "registry")]
pub mod registry;
pub mod render;
mod schema;
pub mod source;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod template;
mod validate;

pub use self::{
    documents::{Meta, ReadError, collect, walk},
    finding::{Finding, Level},
    load::load,
    model::Catalog,
    source::{Error, Limits, Source},
};
