//! Paths within a value or a schema. They are linked on the stack, because most of them are never formatted.

use std::fmt;

/// A path, as its last step and the parent path.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValuePath<'a> {
    parent: Option<&'a ValuePath<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
    Items,
}

/// The root path.
pub(super) const ROOT: ValuePath<'static> = ValuePath {
    parent: None,
    step: Step::Root,
};

impl<'a> ValuePath<'a> {
    /// Returns the path of a field; `*` stands for any key of a mapping.
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    /// Returns the path of a list item.
    pub(super) fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    /// Returns the path of the items of a list, in a schema.
    pub(super) fn items(&'a self) -> Self {
        Self {
            parent: Some(self),
            step: Step::Items,
        }
    }

    /// Reports whether this is the root path.
    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}

impl fmt::Display for ValuePath<'_> {
    /// Formats the path like the API server: `spec.members[3].name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else {
            return f.write_str("<root>");
        };
        if !parent.is_root() {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) if parent.is_root() => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Items => f.write_str("[]"),
        }
    }
}
