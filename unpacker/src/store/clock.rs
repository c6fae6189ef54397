//! When content was used, in an order that no clock can reverse.

use std::{
    fs::File,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// What every file system tells apart that tells more than whole seconds apart.
const TICK: Duration = Duration::from_micros(1);

/// The time of the last use that this process knows of, in whichever process it was. The system's clock may be set
/// back, and then what is used now would be taken for what was used longest ago.
#[derive(Debug)]
pub(super) struct Clock(Mutex<SystemTime>);

impl Default for Clock {
    fn default() -> Self {
        Self(Mutex::new(SystemTime::UNIX_EPOCH))
    }
}

impl Clock {
    /// Notes a use.
    pub(super) fn saw(&self, used: Option<SystemTime>) {
        if let Some(used) = used {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *last = used.max(*last);
        }
    }

    /// Marks a file as used just now. On a read-only disk nothing is evicted either.
    pub(super) fn touch(&self, file: &File) {
        self.saw(file.metadata().and_then(|about| about.modified()).ok());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = last.checked_add(TICK).unwrap_or(*last);
        *last = SystemTime::now().max(next);
        let _ = file.set_modified(*last);
    }
}
