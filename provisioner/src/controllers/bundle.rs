//! Controller of Bundles: resolves, fetches, validates and stores the content of a Bundle once.
//!
//! ```text
//!  Bundle ── source ──> SourceRequest ─┐
//!       credentials ──> Access ────────┴─ fetch ─> store ─ validate (convert) ─> bundle info/error ─ status ─> Bundle
//!                                          ▲                                                              │ pin
//!            content (the store lost it) ──┴────────── the pinned source, and the same digest ◄───────────┘
//! ```
//!
//! While the status and the store agree, no content is fetched: a moved tag does not change a Bundle. Content that the
//! store has lost is fetched from the pinned source and must have the same digest. Content that no Bundle references is
//! removed.

mod cache;
mod config_map_source;
mod content;
mod content_gc;
mod content_index;
mod controller;
mod conversions;
mod credentials;
mod fetch;
pub mod job;
mod reconcile;
mod source;
mod status;
mod status_writer;
pub mod upload;
mod validate;

use kube::Resource as _;
use manifests::api::{Class, bundle::Bundle};

pub(crate) use cache::Change;
pub use cache::{BundleCache, watch};
pub use content::{LoadError, convert, is_available, refetch};
pub use content_index::Contents;
pub use controller::run;
pub use conversions::Conversions;
pub(crate) use credentials::{Error as AccessError, pull_secret};
pub use job::JobBackoff;
pub(crate) use status::is_lost;
pub use status::is_unpacked;
pub use validate::rejection;
pub(crate) use validate::truncate;

/// Returns the provisioner class of a Bundle, or `None` if another provisioner handles the class.
pub fn class_of(bundle: &Bundle) -> Option<Class> {
    Class::parse(&bundle.spec.provisioner_class_name)
}

/// Returns the uid, which distinguishes a Bundle from a later one of the same name.
fn uid(bundle: &Bundle) -> &str {
    bundle.meta().uid.as_deref().unwrap_or_default()
}
