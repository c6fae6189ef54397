//! File-based catalogs: which packages there are, in which channels and versions, and which bundle is to be installed.
//!
//! ```text
//!  folder, Content ──► source ──► stream ──► json ──► walk: metas ──┬──► load ──► Catalog: packages, findings
//!                      (files)    (documents) (values)              │               │
//!                                                                   │               ├──► choose ──► Decision
//!                                             whoever wants whole blobs             └──► graph  ──► Mermaid, DOT
//! ```
//!
//! A [`template`] becomes a catalog once its bundles were rendered.
//!
//! A catalog comes from strangers and may be larger than memory. So documents are read one after the other and gone
//! when they were looked at; what stays of a bundle is what decisions need. What is wrong is found all at once, with
//! file and line, in the words of `opm validate`; one broken package does not take the others down.

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
