//! Which part of a source is read.

use manifests::content;

use crate::{Options, Result, Selection};

/// [`Options::select`] with normalized paths; nothing selects everything.
#[derive(Debug)]
pub(crate) struct Select(Option<Vec<String>>);

impl Select {
    /// Refuses paths that cannot exist in content.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let Selection::Only(paths) = &options.select else {
            return Ok(Self(None));
        };
        let normal = paths.iter().map(|path| content::normalize(path));
        Ok(Self(Some(normal.collect::<Result<_, _>>()?)))
    }

    /// Whether this file, or everything in this folder, is wanted.
    pub(crate) fn takes(&self, path: &str) -> bool {
        match &self.0 {
            None => true,
            Some(only) => only.iter().any(|wanted| is_at_or_below(path, wanted)),
        }
    }

    /// Reports whether nothing is left out.
    #[cfg(feature = "sources")]
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_none()
    }

    /// Whether something in this folder may be wanted.
    pub(crate) fn enters(&self, folder: &str) -> bool {
        let above = |only: &Vec<String>| only.iter().any(|wanted| is_at_or_below(wanted, folder));
        folder.is_empty() || self.takes(folder) || self.0.as_ref().is_some_and(above)
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_above_and_below_a_wanted_one_are_entered_and_neighbours_are_not() {
        let select = |paths: &[&str]| {
            let paths = paths.iter().map(|&path| path.to_owned()).collect();
            Select::new(&with!(Options, select: Selection::Only(paths)))
        };
        let wanted = select(&["./a/b/", "c.yaml"]).unwrap();
        assert_each!(|path, takes, enters| (wanted.takes(path), wanted.enters(path)) => (takes, enters);
            "a", false => true;
            "a/b", true => true;
            "a/b/c", true => true;
            "a/bc", false => false;
            "c.yaml", true => true;
            "d", false => false;
        );
        assert!(select(&["../up"]).is_err());
    }
}
