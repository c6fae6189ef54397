//! Where in a file the value of a path was written. Costs nothing until asked: the document is read again.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a path to a method has no lifetime for every search"
)]

use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

use libyaml_safer::ScalarStyle;

use super::{
    Documents, Limits, chunk,
    decode::{is_merge, scalar},
    node::{self, Id, Kind, Tree},
    scalar::Scalar,
    split::Chunk,
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
    let paths = std::slice::from_ref(path);
    let (line, column) = locate_all(input, document, paths).pop()??;
    Some(Location {
        line,
        column,
        scalar: written_all(input, document, paths).pop()?,
    })
}

/// Line and column, as [`locate`] finds them, of many values at the price of one.
pub fn locate_all(input: &[u8], document: usize, paths: &[Path]) -> Vec<Option<(usize, usize)>> {
    places(input, document, paths, |search, path| search.find(path))
}

/// Line and column of many values, or of the nearest ones around those that do not exist, at the price of one.
pub fn locate_nearest(
    input: &[u8],
    document: usize,
    paths: &[Path],
) -> Vec<Option<(usize, usize)>> {
    places(input, document, paths, |search, path| search.nearest(path))
}

/// The bytes of memory that looking for lines may take. It is a convenience: a larger document gets none.
const MEMORY: usize = 32 << 20;

fn places(
    input: &[u8],
    document: usize,
    paths: &[Path],
    find: impl Fn(&mut Search<'_>, &Path) -> Option<Found>,
) -> Vec<Option<(usize, usize)>> {
    let limits = Limits {
        memory: MEMORY,
        ..Limits::default()
    };
    let Some((chunk, tree)) = read(input, document, paths, &limits) else {
        return vec![None; paths.len()];
    };
    let found = find_all(&tree, paths, find);
    let starts = found
        .iter()
        .flatten()
        .flat_map(|found| [found.key, found.value]);
    let starts = starts.flat_map(|id| tree.node(id)).map(|node| node.start);
    let places = chunk::places(&chunk, starts.collect());
    let place = |id| places.get(&tree.node(id).ok()?.start).copied();
    found
        .into_iter()
        .map(|found| {
            let found = found?;
            let (key, value) = (place(found.key)?, place(found.value)?);
            Some(if key.0 == value.0 { value } else { key })
        })
        .collect()
}

/// How many scalars were written, at the price of one; `None` also for mappings and sequences.
///
/// What aliases share is copied for each path: ask only for paths of a value that was read within [`Limits::text`].
pub fn written_all(input: &[u8], document: usize, paths: &[Path]) -> Vec<Option<Written>> {
    let Some((_, tree)) = read(input, document, paths, &Limits::default()) else {
        return vec![None; paths.len()];
    };
    find_all(&tree, paths, |search, path| search.find(path))
        .into_iter()
        .map(|found| written(&tree, found?.value))
        .collect()
}

/// Reads the document again, unless nothing is asked of it.
fn read<'a>(
    input: &'a [u8],
    document: usize,
    paths: &[Path],
    limits: &Limits,
) -> Option<(Chunk<'a>, Tree)> {
    if paths.is_empty() {
        return None;
    }
    let mut documents = Documents::new(input, *limits);
    for _ in 0..document {
        documents.next_text()?.ok()?;
    }
    let chunk = documents.next_text()?.ok()?;
    let tree = node::read(chunk::utf8(&chunk.text).ok()?, limits).ok()?;
    Some((chunk, tree))
}

fn written(tree: &Tree, id: Id) -> Option<Written> {
    match &tree.node(follow(tree, id)).ok()?.kind {
        Kind::Scalar { text, style, .. } => Some(Written {
            text: text.clone(),
            style: if *style == ScalarStyle::Plain {
                Style::Plain
            } else {
                Style::Quoted
            },
        }),
        _ => None,
    }
}

fn find_all(
    tree: &Tree,
    paths: &[Path],
    find: impl Fn(&mut Search<'_>, &Path) -> Option<Found>,
) -> Vec<Option<Found>> {
    let mut search = Search {
        tree,
        indexes: BTreeMap::new(),
        merges: 1_000_000,
    };
    paths.iter().map(|path| find(&mut search, path)).collect()
}

/// A value and what introduces it: its key, or itself.
#[derive(Clone, Copy)]
struct Found {
    key: Id,
    value: Id,
}

/// The entries of one mapping, each with its position.
#[derive(Default)]
struct Index<'a> {
    /// The last entry of each key.
    keys: BTreeMap<Cow<'a, str>, (usize, Found)>,
    /// The values of `<<`.
    merges: Vec<(usize, Id)>,
}

struct Search<'a> {
    tree: &'a Tree,
    /// Of the mappings seen so far.
    indexes: BTreeMap<Id, Rc<Index<'a>>>,
    /// How many more merges may be followed; merges of merges could take forever.
    merges: usize,
}

impl<'a> Search<'a> {
    fn find(&mut self, path: &Path) -> Option<Found> {
        let steps = path.steps().iter();
        steps.fold(self.root(), |found, step| self.step(found?, step))
    }

    /// The value, or the nearest one around it.
    fn nearest(&mut self, path: &Path) -> Option<Found> {
        let mut found = self.root()?;
        for step in path.steps() {
            match self.step(found, step) {
                Some(next) => found = next,
                None => break,
            }
        }
        Some(found)
    }

    fn root(&self) -> Option<Found> {
        let root = self.tree.root?;
        Some(Found {
            key: root,
            value: root,
        })
    }

    fn step(&mut self, from: Found, step: &Step) -> Option<Found> {
        let parent = follow(self.tree, from.value);
        match (&self.tree.node(parent).ok()?.kind, step) {
            (Kind::Mapping(_), Step::Key(key)) => self.entry(parent, key, 0),
            (Kind::Sequence(items), Step::Index(index)) => {
                let item = *items.get(*index)?;
                Some(Found {
                    key: item,
                    value: item,
                })
            }
            _ => None,
        }
    }

    /// The entry that wins: the last one in document order, as each overwrites what it repeats.
    fn entry(&mut self, mapping: Id, key: &str, depth: usize) -> Option<Found> {
        let index = self.index(mapping)?;
        let own = index.keys.get(key);
        for (at, value) in index.merges.iter().rev() {
            if own.is_some_and(|(own, _)| own > at) {
                break;
            }
            let merged = match &self.tree.node(*value).ok()?.kind {
                Kind::Sequence(items) => {
                    items.iter().find_map(|item| self.merged(*item, key, depth))
                }
                _ => self.merged(*value, key, depth),
            };
            // Without the budget to look, nobody knows which entry wins.
            if merged.is_some() || self.merges == 0 {
                return merged;
            }
        }
        own.map(|(_, found)| *found)
    }

    fn merged(&mut self, id: Id, key: &str, depth: usize) -> Option<Found> {
        self.merges = self.merges.checked_sub(1)?;
        if depth >= Limits::default().depth {
            return None;
        }
        self.entry(follow(self.tree, id), key, depth + 1)
    }

    fn index(&mut self, mapping: Id) -> Option<Rc<Index<'a>>> {
        if let Some(index) = self.indexes.get(&mapping) {
            return Some(Rc::clone(index));
        }
        let tree = self.tree;
        let Kind::Mapping(entries) = &tree.node(mapping).ok()?.kind else {
            return None;
        };
        let mut index = Index::default();
        for (at, &(key, value)) in entries.iter().enumerate() {
            if is_merge(tree, key) {
                index.merges.push((at, value));
            } else if let Some(text) = key_text(tree, key) {
                index.keys.insert(text, (at, Found { key, value }));
            }
        }
        let index = Rc::new(index);
        self.indexes.insert(mapping, Rc::clone(&index));
        Some(index)
    }
}

/// What a mapping's key is in JSON.
pub(super) fn key_text(tree: &Tree, id: Id) -> Option<Cow<'_, str>> {
    match scalar(tree, follow(tree, id)).ok()? {
        Scalar::Text(text) => Some(text),
        other => other.key().map(Cow::Owned),
    }
}

/// The node an alias stands for, or the node itself; anchors cannot stand on aliases.
fn follow(tree: &Tree, id: Id) -> Id {
    match tree.node(id).map(|node| &node.kind) {
        Ok(Kind::Alias(target)) => *target,
        _ => id,
    }
}
