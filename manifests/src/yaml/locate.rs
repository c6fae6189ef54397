//! Where in a file the value of a path was written. Costs nothing until asked: the document is read again.

use std::collections::BTreeMap;

use libyaml_safer::ScalarStyle;

use super::{
    Documents, Limits, chunk,
    decode::{is_merge, scalar},
    node::{self, Id, Kind, Tree},
};
use crate::path::{Path, Step};

/// The place of a value in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The line in the input, from 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
    /// How the value was written; `None` for mappings and sequences.
    pub scalar: Option<Written>,
}

/// A scalar as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its text, before it was taken for a number, a boolean or null: `1.10`, `yes`. Without quotes and escapes.
    pub text: String,
    /// Whether it could be taken for something else than text.
    pub style: Style,
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// In single or double quotes, or as a literal or folded block: always text.
    Quoted,
}

/// Finds the value of `path` in a document (counted from 0, as [`super::documents`] yields them).
///
/// A value that starts on the line of its key is located itself, any other by its key. A value merged or aliased
/// from elsewhere is where it was written. `None` when there is no such value.
pub fn locate(input: &[u8], document: usize, path: &Path) -> Option<Location> {
    locate_all(input, document, std::slice::from_ref(path))
        .pop()
        .flatten()
}

/// [`locate`] for many paths at the price of one.
pub fn locate_all(input: &[u8], document: usize, paths: &[Path]) -> Vec<Option<Location>> {
    find_all(input, document, paths).unwrap_or_else(|| vec![None; paths.len()])
}

fn find_all(input: &[u8], document: usize, paths: &[Path]) -> Option<Vec<Option<Location>>> {
    let limits = Limits::default();
    let mut documents = Documents::new(input, limits);
    for _ in 0..document {
        documents.next_text()?.ok()?;
    }
    let chunk = documents.next_text()?.ok()?;
    let text = chunk::utf8(&chunk.text).ok()?;
    let tree = node::read(text, &limits).ok()?;
    let mut search = Search {
        tree: &tree,
        depth: limits.depth,
        left: 0,
    };
    let found: Vec<_> = paths.iter().map(|path| search.find(path)).collect();
    let starts = found
        .iter()
        .flatten()
        .flat_map(|found| [found.key, found.value]);
    let starts = starts.flat_map(|id| tree.node(id)).map(|node| node.start);
    let places = chunk::places(&chunk, starts.collect());
    Some(
        found
            .into_iter()
            .map(|found| location(&tree, &places, found?))
            .collect(),
    )
}

fn location(
    tree: &Tree,
    places: &BTreeMap<usize, (usize, usize)>,
    found: Found,
) -> Option<Location> {
    let place = |id| places.get(&tree.node(id).ok()?.start);
    let (key, value) = (place(found.key)?, place(found.value)?);
    let (line, column) = *if key.0 == value.0 { value } else { key };
    let scalar = match &tree.node(follow(tree, found.value)).ok()?.kind {
        Kind::Scalar { text, style, .. } => Some(Written {
            text: text.clone(),
            style: if *style == ScalarStyle::Plain {
                Style::Plain
            } else {
                Style::Quoted
            },
        }),
        _ => None,
    };
    Some(Location {
        line,
        column,
        scalar,
    })
}

/// A value and what introduces it: its key, or itself.
#[derive(Clone, Copy)]
struct Found {
    key: Id,
    value: Id,
}

struct Search<'a> {
    tree: &'a Tree,
    depth: usize,
    /// Entries that may still be looked at for this path; merges of merges could take forever.
    left: usize,
}

impl Search<'_> {
    fn find(&mut self, path: &Path) -> Option<Found> {
        self.left = 10_000_000;
        let root = self.tree.root?;
        let mut found = Found {
            key: root,
            value: root,
        };
        for step in path.steps() {
            let parent = follow(self.tree, found.value);
            found = match (&self.tree.node(parent).ok()?.kind, step) {
                (Kind::Mapping(_), Step::Key(key)) => self.entry(parent, key, 0)?,
                (Kind::Sequence(items), Step::Index(index)) => {
                    let item = *items.get(*index)?;
                    Found {
                        key: item,
                        value: item,
                    }
                }
                _ => return None,
            };
        }
        Some(found)
    }

    /// The entry that wins, in the order in which the decoder overwrites.
    fn entry(&mut self, mapping: Id, key: &str, depth: usize) -> Option<Found> {
        let Kind::Mapping(entries) = &self.tree.node(mapping).ok()?.kind else {
            return None;
        };
        let mut last = None;
        for &(at, value) in entries {
            self.left = self.left.checked_sub(1)?;
            if is_merge(self.tree, at) && depth < self.depth {
                let merged = match &self.tree.node(value).ok()?.kind {
                    Kind::Sequence(items) => {
                        items.iter().find_map(|item| self.merged(*item, key, depth))
                    }
                    _ => self.merged(value, key, depth),
                };
                last = merged.or(last);
            } else if self.is_key(at, key) {
                last = Some(Found { key: at, value });
            }
        }
        last
    }

    fn merged(&mut self, id: Id, key: &str, depth: usize) -> Option<Found> {
        self.entry(follow(self.tree, id), key, depth + 1)
    }

    fn is_key(&self, id: Id, key: &str) -> bool {
        scalar(self.tree, follow(self.tree, id)).is_ok_and(|scalar| scalar.matches(key))
    }
}

/// The node an alias stands for, or the node itself; anchors cannot stand on aliases.
fn follow(tree: &Tree, id: Id) -> Id {
    match tree.node(id).map(|node| &node.kind) {
        Ok(Kind::Alias(target)) => *target,
        _ => id,
    }
}
