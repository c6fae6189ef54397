//! A service's certificate: made, renewed and replaced without a restart.
//!
//! ```text
//!  Secret: the authority, its successor, its predecessor ─ every replica ─> a certificate, in memory alone
//!        └─ their certificates ─> ConfigMap of the same name, ca.crt ─> clients
//! ```
//!
//! A successor is published a month before it signs anything, so that clients know it by then; and a predecessor stays
//! published until it ends. Secrets that somebody else keeps (cert-manager) are served with as they are.

mod authority;
mod certificate;
mod keep;
mod secret;
#[cfg(test)]
mod tests;

pub(crate) use keep::{Keeper, Kept};
