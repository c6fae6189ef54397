//! Tests with effects on the whole cluster: another API server, another version of a CRD. tests/e2e.sh runs them after most
//! of the other tests and in a separate process; the lock serializes them.

mod upgrade;
mod versions;

use tokio::sync::Mutex;

/// Held by each test of this module.
static ALONE: Mutex<()> = Mutex::const_new(());
