//! The names in a database, each once.

use std::{collections::HashMap, sync::Arc};

use super::Problem;

/// Bytes of one name.
pub(super) const LONGEST: usize = 1024;

/// Names by number. What is kept of a database is mostly these, so their lengths are bounded, one by one and together.
#[derive(Debug)]
pub(super) struct Names {
    all: Vec<Arc<str>>,
    at: HashMap<Arc<str>, u32>,
    size: usize,
    most: usize,
}

// === impl Names ===

impl Names {
    /// None yet, and never more than so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            all: Vec::new(),
            at: HashMap::new(),
            size: 0,
            most,
        }
    }

    /// The number of a name, which is kept.
    pub(super) fn add(&mut self, name: &str) -> Result<u32, Problem> {
        if let Some(at) = self.at.get(name) {
            return Ok(*at);
        }
        if name.len() > LONGEST {
            return Err(too_long());
        }
        self.size += name.len();
        if self.size > self.most {
            return Err(Problem::TooLarge {
                limit: self.most as u64,
                unit: "bytes of names",
            });
        }
        // There are no more than limits allow, which is far less.
        let at = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let name: Arc<str> = name.into();
        self.all.push(Arc::clone(&name));
        self.at.insert(name, at);
        Ok(at)
    }

    /// The same text for whoever keeps it himself.
    pub(super) fn shared(&mut self, name: &str) -> Result<Arc<str>, Problem> {
        let at = self.add(name)?;
        Ok(self.all.get(at as usize).cloned().unwrap_or_default())
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.at.get(name).copied()
    }

    pub(super) fn of(&self, at: u32) -> &str {
        self.all.get(at as usize).map_or("", |it| it)
    }
}

/// That a name is longer than names may be.
pub(super) fn too_long() -> Problem {
    Problem::TooLarge {
        limit: LONGEST as u64,
        unit: "bytes in a name",
    }
}
