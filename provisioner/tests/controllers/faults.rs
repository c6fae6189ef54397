//! Faults in the environment of the provisioner: it reports them, retries with delays, and recovers without help.
//!
//! ```text
//!  stage() ── a control plane for one test
//!             ├─ the provisioner of the test
//!             ├─ audit: every request of the provisioner to the API server
//!             └─ Play: instances that are healthy, being installed, upgraded and removed
//! ```

mod admission;
mod apiserver_outage;
mod contention;
mod cut_connections;
mod kills;
mod sources;
pub(crate) mod support;
mod webhook;

/// Number of kills with a content store that is kept; `make faults` has more.
const KILLS_WITH_CONTENT: u64 = 3;
/// Number of kills with a content store that is deleted.
const KILLS_WITHOUT_CONTENT: u64 = 6;
