//! The controllers: what a `BundleInstance` declares becomes, and stays, what is in the cluster.
//!
//! ```text
//!  Bundle ──────── bundle: resolve, fetch, store, check ───────────┐ status: digest, facts, refusals
//!                                                                  ▼
//!  BundleInstance ─ instance: select or make the Bundle ─ convert ─ plan ─ preflight ─ apply ─ prune
//!        ▲                                                                               │
//!        └────────── drift, health ◄── watches (one per kind, metadata only) ◄───────────┘
//!
//!  content: hands content out, takes uploads       process: flags, leader, metrics, log, signals
//! ```
//!
//! The crate `apply` plans, applies, watches and prunes; the controllers decide what to apply and report it. Decisions are
//! plain functions over values; the reconcilers fetch their inputs and carry them out.

// The futures of the reconcilers reach down to the connections.
#![recursion_limit = "256"]

/// Compares what is left of each arrow with what is right of it. rustfmt leaves the rows as they are, as in `tests::rows`.
#[cfg(test)]
macro_rules! assert_rows {
    (@) => { "" };
    (@ $($message:tt)+) => { format_args!($($message)+) };
    ($($found:expr => $expected:expr $(, $message:literal $(, $value:expr)*)?);+ $(;)?) => {
        $(assert_eq!($found, $expected, "{} {}", stringify!($found), assert_rows!(@ $($message $(, $value)*)?));)+
    };
}

/// Changes a value: `with!(Settings::default() => limits.files: 3)`, or `with!(list => |list| list.push(3); list.sort())`.
#[cfg(test)]
macro_rules! with {
    ($value:expr => $($($field:ident).+: $new:expr),+ $(,)?) => {
        match $value {
            mut value => {
                $(value.$($field).+ = $new;)+
                value
            }
        }
    };
    ($value:expr => |$name:ident| $($change:expr);+) => {
        match $value {
            mut $name => {
                $($change;)+
                $name
            }
        }
    };
}

/// Writes an object of the API as JSON that names the fields that a test needs.
#[cfg(test)]
macro_rules! object {
    ($($fields:tt)+) => {
        crate::fixtures::object(serde_json::json!($($fields)+))
    };
}

pub mod account;
mod backoff;
pub mod bundle;
pub mod catalogs;
mod client;
pub mod content;
pub mod context;
pub mod conversion;
pub mod events;
#[cfg(test)]
mod fixtures;
mod https;
pub mod instance;
pub mod leading;
pub mod metrics;
pub mod overrides;
pub mod platform;
pub mod process;
pub mod pulling;
pub mod settings;
mod shallow;
pub mod versions;
