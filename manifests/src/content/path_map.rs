//! Map of values by validated path.

use std::collections::BTreeMap;

use super::Irregular;

/// Ordered map of values and irregular entries by normalized relative path. No path has both, is repeated, or lies below
/// another one. Only an [`EntryLimiter`](super::EntryLimiter) creates a map, so that its users do not have to validate
/// the paths again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMap<T> {
    values: BTreeMap<String, T>,
    /// Entries of the source that are not regular files, and therefore have no value.
    irregular: BTreeMap<String, Irregular>,
}

impl<T> Default for PathMap<T> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            irregular: BTreeMap::new(),
        }
    }
}

impl<T> PathMap<T> {
    pub(super) fn insert(&mut self, path: String, value: T) {
        self.values.insert(path, value);
    }

    pub(super) fn insert_irregular(&mut self, path: String, entry: Irregular) {
        self.irregular.insert(path, entry);
    }

    pub(super) fn remove_irregular(&mut self, path: &str) {
        self.irregular.remove(path);
    }

    /// Reports whether a path has a value or is an entry that is not a regular file.
    pub(super) fn is_taken(&self, path: &str) -> bool {
        self.values.contains_key(path) || self.irregular.contains_key(path)
    }

    /// Returns a path below a directory: that of a value, or else of an irregular entry.
    pub(super) fn first_below(&self, directory: &str) -> Option<&str> {
        let below = format!("{directory}/");
        let value = self.values.range(below.clone()..).next();
        let irregular = self.irregular.range(below.clone()..).next();
        let mut paths = [value.map(|(path, _)| path), irregular.map(|(path, _)| path)]
            .into_iter()
            .flatten();
        paths
            .find(|path| path.starts_with(&below))
            .map(String::as_str)
    }

    /// Returns the entries of the source that are not regular files, ordered by path.
    pub fn irregular(&self) -> impl Iterator<Item = (&str, &Irregular)> {
        self.irregular
            .iter()
            .map(|(path, entry)| (path.as_str(), entry))
    }

    /// Returns all values, ordered by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.values
            .iter()
            .map(|(path, value)| (path.as_str(), value))
    }

    /// Returns the value at a path.
    pub fn get(&self, path: &str) -> Option<&T> {
        self.values.get(path)
    }

    /// Returns the values below a directory, ordered, with their paths relative to it. `""` is the root.
    pub fn dir<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (&'a str, &'a T)> {
        self.values
            .range(directory.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(directory))
            .filter_map(move |(path, value)| {
                let rest = path.strip_prefix(directory)?;
                let inside = if directory.is_empty() {
                    rest
                } else {
                    rest.strip_prefix('/')?
                };
                Some((inside, value))
            })
    }

    /// Reports whether a directory contains at least one value.
    pub fn has_folder(&self, directory: &str) -> bool {
        self.dir(directory).next().is_some()
    }

    /// Returns the values below a directory as a new map, with paths relative to the directory. Irregular entries outside
    /// of the directory are kept as `../…`, so that they are still assessed.
    #[must_use]
    pub fn into_folder(self, directory: &str) -> Self {
        let below = format!("{directory}/");
        let values = self.values.into_iter().filter_map(|(path, value)| {
            let path = path.strip_prefix(&below)?;
            Some((path.to_owned(), value))
        });
        let irregular = self.irregular.into_iter().map(|(path, entry)| {
            let path = match path.strip_prefix(&below) {
                Some(path) => path.to_owned(),
                None => format!("../{path}"),
            };
            (path, entry)
        });
        Self {
            values: values.collect(),
            irregular: irregular.collect(),
        }
    }

    /// Replaces the values, and keeps the paths.
    ///
    /// # Errors
    /// Returns the first error of `change`.
    pub fn try_map<U, E>(
        self,
        mut change: impl FnMut(&str, T) -> Result<U, E>,
    ) -> Result<PathMap<U>, E> {
        let values = self.values.into_iter().map(|(path, value)| {
            let value = change(&path, value)?;
            Ok((path, value))
        });
        Ok(PathMap {
            values: values.collect::<Result<_, E>>()?,
            irregular: self.irregular,
        })
    }

    /// Replaces the values, and keeps the paths.
    #[must_use]
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> PathMap<U> {
        let values = self.values.into_iter();
        PathMap {
            values: values.map(|(path, value)| (path, change(value))).collect(),
            irregular: self.irregular,
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Reports whether the map has no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
