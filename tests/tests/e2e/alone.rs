//! What the whole cluster notices: another API server, another version of a definition. tests/e2e.sh runs this after most of
//! the tests and in a process of its own; here it is one after the other.

mod upgrade;
mod versions;

use tokio::sync::Mutex;

/// Held by each of them.
static ALONE: Mutex<()> = Mutex::const_new(());
