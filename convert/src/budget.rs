//! Remaining memory of a conversion: generated objects count like the manifests. Pure; no I/O.

use manifests::yaml;

/// Memory of an object besides its values, in bytes: its place, its identity and its metadata.
pub(crate) const OBJECT: usize = 2 << 10;

/// Maximum size of all annotations of an object that API servers accept, in bytes.
pub(crate) const MAX_ANNOTATIONS: usize = 256 << 10;

/// Remedy of every rejection because of the limit of values.
pub(crate) const REMEDY: &str = "split the bundle, or raise the limit with --max-values";

/// Estimated remaining memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    remaining: usize,
}

impl Budget {
    /// Creates the budget that remains after the manifests of a bundle were read.
    pub(crate) fn new(limits: yaml::Limits) -> Self {
        Self {
            remaining: limits.memory,
        }
    }

    /// Reports whether at least this many bytes remain.
    pub(crate) fn covers(self, bytes: usize) -> bool {
        bytes <= self.remaining
    }

    /// Deducts bytes from the budget, and reports whether they were available.
    #[must_use]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let remaining = self.remaining.checked_sub(bytes);
        self.remaining = remaining.unwrap_or_default();
        remaining.is_some()
    }
}
