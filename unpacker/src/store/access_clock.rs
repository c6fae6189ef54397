//! Times of use of content, in an order that survives changes of the system clock.

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

/// The resolution that every file system with subsecond timestamps has.
const TICK: Duration = Duration::from_micros(1);

/// The latest time of use that this process knows, from any process. If the system clock is set back, content used
/// now would otherwise appear to be the least recently used.
#[derive(Debug)]
pub(super) struct Clock(Mutex<SystemTime>);

impl Default for Clock {
    fn default() -> Self {
        Self(Mutex::new(SystemTime::UNIX_EPOCH))
    }
}

impl Clock {
    /// Records a time of use.
    pub(super) fn observe(&self, used: Option<SystemTime>) {
        if let Some(used) = used {
            let mut last = self.0.lock();
            *last = used.max(*last);
        }
    }

    /// Marks a file as used now. Errors are ignored: on a read-only disk nothing is evicted either.
    pub(super) fn mark_used(&self, file: &File) {
        self.observe(
            file.metadata()
                .and_then(|metadata| metadata.modified())
                .ok(),
        );
        let mut last = self.0.lock();
        let next = last.checked_add(TICK).unwrap_or(*last);
        *last = SystemTime::now().max(next);
        let _ = file.set_modified(*last);
    }
}
