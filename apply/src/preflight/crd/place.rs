//! Places within a value or a schema, kept on the stack: most are never told.

use std::fmt;

/// A place, by way of the one above it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
    Items,
}

/// The top.
pub(super) const ROOT: Place<'static> = Place {
    above: None,
    step: Step::Root,
};

impl<'a> Place<'a> {
    /// A field, or any key of a mapping when it is `*`.
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self {
            above: Some(self),
            step: Step::Key(key),
        }
    }

    /// One item of a list.
    pub(super) fn index(&'a self, index: usize) -> Self {
        Self {
            above: Some(self),
            step: Step::Index(index),
        }
    }

    /// The items of a list, in a schema.
    pub(super) fn items(&'a self) -> Self {
        Self {
            above: Some(self),
            step: Step::Items,
        }
    }

    /// Reports whether nothing is above.
    pub(super) fn is_root(&self) -> bool {
        self.above.is_none()
    }
}

impl fmt::Display for Place<'_> {
    /// `spec.members[3].name`, as the API server writes places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(above) = self.above else {
            return f.write_str("<root>");
        };
        if !above.is_root() {
            above.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) if above.is_root() => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Items => f.write_str("[]"),
        }
    }
}
