//! Flag that is true while this process is the leader.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Flag that is true while this process is the leader. Clones share the flag.
#[derive(Debug, Clone)]
pub struct LeaderFlag(Arc<AtomicBool>);

impl LeaderFlag {
    /// Sets whether this process is the leader.
    pub fn set(&self, is_leader: bool) {
        self.0.store(is_leader, Ordering::Release);
    }

    /// Reports whether this process is the leader.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A process without leader election is the leader.
impl Default for LeaderFlag {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}
