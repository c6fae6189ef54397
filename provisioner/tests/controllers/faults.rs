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
mod kills;
mod line;
mod rivals;
mod sources;
pub(crate) mod stage;

/// The number of kills with a content store that is kept; `make faults` has more.
const KILLS_WITH_CONTENT: u64 = 3;
/// The number of kills with a content store that is deleted.
const KILLS_WITHOUT_CONTENT: u64 = 6;
