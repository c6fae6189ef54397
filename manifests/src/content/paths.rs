//! Values under checked paths.

use std::collections::BTreeMap;

/// An ordered set of values under normalised relative paths, none of which is a file and a folder at once. Only a
/// [`Gate`](super::Gate) makes one, so that whoever holds it need not check the paths again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths<T> {
    values: BTreeMap<String, T>,
}

impl<T> Default for Paths<T> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
        }
    }
}

impl<T> Paths<T> {
    pub(super) fn new(values: BTreeMap<String, T>) -> Self {
        Self { values }
    }

    /// All values, ordered by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.values
            .iter()
            .map(|(path, value)| (path.as_str(), value))
    }

    /// The value at one path.
    pub fn get(&self, path: &str) -> Option<&T> {
        self.values.get(path)
    }

    /// The values below a folder, with their paths relative to it, ordered. `""` is the root.
    pub fn folder<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a T)> {
        self.values
            .range(folder.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(folder))
            .filter_map(move |(path, value)| {
                let rest = path.strip_prefix(folder)?;
                let inside = if folder.is_empty() {
                    rest
                } else {
                    rest.strip_prefix('/')?
                };
                Some((inside, value))
            })
    }

    /// Whether a folder has at least one value below it.
    pub fn has_folder(&self, folder: &str) -> bool {
        self.folder(folder).next().is_some()
    }

    /// The values below a folder as a set of their own, with their paths relative to it.
    #[must_use]
    pub fn into_folder(self, folder: &str) -> Self {
        let below = format!("{folder}/");
        let values = self.values.into_iter().filter_map(|(path, value)| {
            let path = path.strip_prefix(&below)?;
            Some((path.to_owned(), value))
        });
        Self::new(values.collect())
    }

    /// The same paths with other values.
    ///
    /// # Errors
    /// The first error that `change` returns.
    pub fn try_map<U, E>(
        self,
        mut change: impl FnMut(&str, T) -> Result<U, E>,
    ) -> Result<Paths<U>, E> {
        let values = self.values.into_iter().map(|(path, value)| {
            let value = change(&path, value)?;
            Ok((path, value))
        });
        Ok(Paths::new(values.collect::<Result<_, E>>()?))
    }

    /// The same paths with other values.
    #[must_use]
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> Paths<U> {
        let values = self.values.into_iter();
        Paths::new(values.map(|(path, value)| (path, change(value))).collect())
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no value at all.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
