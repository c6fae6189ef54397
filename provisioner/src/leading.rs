//! Whether this process is the one that works.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether this process is the one that works. Clones say the same.
#[derive(Debug, Clone)]
pub struct Leading(Arc<AtomicBool>);

impl Leading {
    /// Says so from now on, or not.
    pub fn set(&self, leads: bool) {
        self.0.store(leads, Ordering::Release);
    }

    /// Reports whether it is.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Who has nobody beside it leads.
impl Default for Leading {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}
