//! Selection of the entries of a source that are read.

use manifests::content::{self, is_at_or_below};

use crate::{Options, Result, Selection};

/// The normalized paths of [`Options::select`]; `None` selects everything.
#[derive(Debug)]
pub(crate) struct Select(Option<Vec<String>>);

impl Select {
    /// Creates a selection. Rejects paths that cannot exist in content.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let Selection::Only(paths) = &options.select else {
            return Ok(Self(None));
        };
        let normal = paths.iter().map(|path| content::normalize(path));
        Ok(Self(Some(normal.collect::<Result<_, _>>()?)))
    }

    /// Reports whether a file, or everything in a directory, is selected.
    pub(crate) fn matches(&self, path: &str) -> bool {
        match &self.0 {
            None => true,
            Some(only) => only.iter().any(|selected| is_at_or_below(path, selected)),
        }
    }

    /// Reports whether everything is selected.
    #[cfg(feature = "sources")]
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_none()
    }

    /// Reports whether a directory may contain selected entries.
    pub(crate) fn descends_into(&self, dir: &str) -> bool {
        let is_parent =
            |only: &Vec<String>| only.iter().any(|selected| is_at_or_below(selected, dir));
        dir.is_empty() || self.matches(dir) || self.0.as_ref().is_some_and(is_parent)
    }
}
