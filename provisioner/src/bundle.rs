//! The Bundle controller: content is resolved, fetched, checked and stored, once.
//!
//! ```text
//!  Bundle ── source ──> what to fetch ─┐
//!            access ──> with what ─────┴─ fetch ──> store ── check (convert) ──> facts, or why not ── status ──> Bundle
//!                                          ▲                                                              │ pin
//!            load (the store lost it) ─────┴────────── the pinned source, and the same digest ◄───────────┘
//! ```
//!
//! While a status and the store agree, nothing is fetched: a moved tag does not change a Bundle. What the store has lost
//! is fetched from the pinned source, and has to be the same. Content that no Bundle names any more is removed.

mod access;
mod cache;
mod check;
mod config_maps;
mod contents;
mod controller;
mod conversions;
mod fetch;
pub mod job;
mod load;
mod reconcile;
mod source;
mod status;
mod upkeep;
pub mod upload;
mod write;

use kube::Resource as _;
use manifests::api::{Class, bundle::Bundle};

pub(crate) use access::{Error as AccessError, pull as pull_secret};
pub(crate) use cache::Change;
pub use cache::{BundleCache, watch};
pub(crate) use check::cut;
pub use check::refusal;
pub use contents::Contents;
pub use controller::run;
pub use conversions::Conversions;
pub use job::Tries;
pub use load::{LoadError, convert, fetch_again, is_available};
pub use status::is_unpacked;

/// The class of a Bundle; `None` is a class of somebody else.
pub fn class_of(bundle: &Bundle) -> Option<Class> {
    Class::parse(&bundle.spec.provisioner_class_name)
}

/// Tells a Bundle from a later one of the same name.
fn uid(bundle: &Bundle) -> &str {
    bundle.meta().uid.as_deref().unwrap_or_default()
}
