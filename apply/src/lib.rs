//! The apply engine: brings a cluster to the state that rendered objects declare.
//!
//! ```text
//!  rendered objects ──► plan ──► preflight ──► ssa (waves), prune ──► inventory
//!                        ▲                                               │
//!                    discovery                                 drift, health ◄── informers (one per kind)
//! ```
//!
//! The engine does not depend on a controller. A [`plan::InstanceOwner`] names the object that owns all applied
//! objects. The caller keeps [`revision::Revision`]s, and decides when to roll one out, repair it, or prune objects
//! that left the desired state.
//!
//! The engine does not use the resource types of this project. Callers translate a spec into an [`account::Account`], a
//! [`plan::DefinitionPolicy`] and a [`preflight::Policy`].
//!
//! Decisions are pure functions over values ([`plan`], [`drift`], [`health`], [`revision`]); [`ssa`], [`prune`],
//! [`preflight`], [`discovery`] and [`informers`] do the I/O.

// The nested futures include those of the HTTP connections.
#![recursion_limit = "256"]

pub mod account;
pub mod api_error;
pub mod backoff;
pub mod delete_params;
pub mod discovery;
pub mod drift;
pub mod field_conflicts;
pub mod health;
pub mod informers;
pub mod inventory;
pub mod managed_fields;
pub mod plan;
pub mod preflight;
pub mod prune;
pub mod revision;
pub mod ssa;
pub mod status;
#[cfg(test)]
#[macro_use(assert_each, assert_rows, with)]
extern crate tests as _;
#[cfg(test)]
mod tests;

/// Joins the first `few` items, and appends the number of omitted ones: `a, b and 3 more`.
fn first_few<T: ToString>(all: &[T], few: usize) -> String {
    let named: Vec<String> = all.iter().take(few).map(T::to_string).collect();
    match all.len().saturating_sub(few) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
