//! Interner for the names in a database.

use std::{collections::HashMap, sync::Arc};

use super::Problem;

/// Maximum length of a name in bytes.
pub(super) const MAX_NAME_LEN: usize = 1024;

/// Names by number. They are most of the memory that a database needs, so the length of each name and their total size
/// are limited.
#[derive(Debug)]
pub(super) struct NameInterner {
    all: Vec<Arc<str>>,
    at: HashMap<Arc<str>, u32>,
    size: usize,
    max_size: usize,
}

// === impl NameInterner ===

impl NameInterner {
    /// Creates an empty interner for at most `max_size` bytes of names.
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            all: Vec::new(),
            at: HashMap::new(),
            size: 0,
            max_size,
        }
    }

    /// Returns the number of a name and stores the name.
    pub(super) fn add(&mut self, name: &str) -> Result<u32, Problem> {
        if let Some(at) = self.at.get(name) {
            return Ok(*at);
        }
        if name.len() > MAX_NAME_LEN {
            return Err(too_long());
        }
        self.size += name.len();
        if self.size > self.max_size {
            return Err(Problem::TooLarge {
                limit: self.max_size as u64,
                unit: "bytes of names",
            });
        }
        // The limits keep the count far below `u32::MAX`.
        let at = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let name: Arc<str> = name.into();
        self.all.push(Arc::clone(&name));
        self.at.insert(name, at);
        Ok(at)
    }

    /// Returns the stored name, for structures that share its text.
    pub(super) fn shared(&mut self, name: &str) -> Result<Arc<str>, Problem> {
        let at = self.add(name)?;
        Ok(self.all.get(at as usize).cloned().unwrap_or_default())
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.at.get(name).copied()
    }

    pub(super) fn get(&self, at: u32) -> &str {
        self.all.get(at as usize).map_or("", |name| name)
    }
}

/// Returns the error for a name that is too long.
pub(super) fn too_long() -> Problem {
    Problem::TooLarge {
        limit: MAX_NAME_LEN as u64,
        unit: "bytes in a name",
    }
}
