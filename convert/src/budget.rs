//! The memory that a conversion may still use: the objects that it makes count like the manifests. Pure; no I/O.

use manifests::yaml;

/// Bytes of memory of an object besides its values: its place, its identity, its metadata.
pub(crate) const OBJECT: usize = 2 << 10;

/// The most bytes that an API server accepts in all annotations of an object.
pub(crate) const MAX_ANNOTATIONS: usize = 256 << 10;

/// The remedy of every refusal that rests on the limit of values.
pub(crate) const REMEDY: &str =
    "split the bundle into several ones, or raise the limit with --max-values";

/// Estimated bytes of memory that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    left: usize,
}

impl Budget {
    /// The memory that the manifests of a bundle leave.
    pub(crate) fn new(limits: yaml::Limits) -> Self {
        Self {
            left: limits.memory,
        }
    }

    /// Reports whether so many bytes are left.
    pub(crate) fn covers(self, bytes: usize) -> bool {
        bytes <= self.left
    }

    /// Takes bytes off the budget, and reports whether they were left.
    #[must_use]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}
