//! What breaks around the provisioner: it says so, waits without pressing, and goes on by itself.
//!
//! ```text
//!  stage() ── a control plane of the test alone
//!             ├─ provisioner of the test's own
//!             ├─ audit: every request the apiserver has seen of it
//!             └─ Play: instances that are healthy, being installed, upgraded and removed
//! ```

mod admission;
mod away;
mod expired;
mod hook;
mod line;
mod rivals;
mod sources;
pub(crate) mod stage;
