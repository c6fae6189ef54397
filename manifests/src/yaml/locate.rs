//! Positions of values in a file by path. Computed on demand: the document is parsed again.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a path to a method has no lifetime for every search"
)]

use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

use libyaml_safer::ScalarStyle;

use super::{
    Documents, Limits,
    decode::{is_merge, scalar},
    document,
    node::{self, Id, Kind, Tree},
    scalar::Scalar,
    split::DocumentText,
};
use crate::path::{Path, Step};

/// Position of a value in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Line in the input, from 1.
    pub line: usize,
    /// Column in that line in characters, from 1.
    pub column: usize,
    /// Original form of the value, or `None` for mappings and sequences.
    pub scalar: Option<SourceScalar>,
}

/// A scalar in its original form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceScalar {
    /// Text before its conversion to a number, boolean or null, such as `1.10` or `yes`, without quotes and escapes.
    pub text: String,
    /// Whether the scalar could have another type than string.
    pub style: Style,
}

/// Style of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Plain: without quotes.
    Plain,
    /// Single or double quotes, or a literal or folded block: always a string.
    Quoted,
}

/// Finds the value at `path` in a document (index from 0, as yielded by [`super::documents`]).
///
/// A value that starts on the line of its key has its own position, all other values that of their key. A merged or aliased
/// value has the position of the original. Returns `None` if the value does not exist.
pub fn locate(input: &[u8], document: usize, path: &Path) -> Option<Location> {
    let paths = std::slice::from_ref(path);
    let (line, column) = locate_all(input, document, paths).pop()??;
    Some(Location {
        line,
        column,
        scalar: written_all(input, document, paths).pop()?,
    })
}

/// Returns line and column of many values, like [`locate`], at the cost of one.
pub fn locate_all(input: &[u8], document: usize, paths: &[Path]) -> Vec<Option<(usize, usize)>> {
    places(input, document, paths, |search, path| search.find(path))
}

/// Returns line and column of many values, or of the nearest enclosing value if one does not exist, at the cost of one.
pub fn locate_nearest(
    input: &[u8],
    document: usize,
    paths: &[Path],
) -> Vec<Option<(usize, usize)>> {
    places(input, document, paths, |search, path| search.nearest(path))
}

/// Maximum memory for finding lines, in bytes. Positions are optional: a larger document gets none.
const MAX_MEMORY: usize = 32 << 20;

fn places(
    input: &[u8],
    document: usize,
    paths: &[Path],
    find: impl Fn(&mut Search<'_>, &Path) -> Option<NodeMatch>,
) -> Vec<Option<(usize, usize)>> {
    let limits = Limits {
        memory: MAX_MEMORY,
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
    let places = document::places(&chunk, starts.collect());
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

/// Returns the original form of many scalars at the cost of one; `None` also for mappings and sequences.
///
/// Text that aliases share is copied for each path. Request only paths of a value that was read within [`Limits::text`].
pub fn written_all(input: &[u8], document: usize, paths: &[Path]) -> Vec<Option<SourceScalar>> {
    let Some((_, tree)) = read(input, document, paths, &Limits::default()) else {
        return vec![None; paths.len()];
    };
    find_all(&tree, paths, |search, path| search.find(path))
        .into_iter()
        .map(|found| written(&tree, found?.value))
        .collect()
}

/// Parses the document again, unless `paths` is empty.
fn read<'a>(
    input: &'a [u8],
    document: usize,
    paths: &[Path],
    limits: &Limits,
) -> Option<(DocumentText<'a>, Tree)> {
    if paths.is_empty() {
        return None;
    }
    let mut documents = Documents::new(input, *limits);
    for _ in 0..document {
        documents.next_text()?.ok()?;
    }
    let chunk = documents.next_text()?.ok()?;
    let tree = node::read(document::utf8(&chunk.text).ok()?, limits).ok()?;
    Some((chunk, tree))
}

fn written(tree: &Tree, id: Id) -> Option<SourceScalar> {
    match &tree.node(follow(tree, id)).ok()?.kind {
        Kind::Scalar { text, style, .. } => Some(SourceScalar {
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
    find: impl Fn(&mut Search<'_>, &Path) -> Option<NodeMatch>,
) -> Vec<Option<NodeMatch>> {
    let mut search = Search {
        tree,
        indexes: BTreeMap::new(),
        merges: 1_000_000,
    };
    paths.iter().map(|path| find(&mut search, path)).collect()
}

/// A value, and the node before it: its key, or the value itself.
#[derive(Clone, Copy)]
struct NodeMatch {
    key: Id,
    value: Id,
}

/// Entries of one mapping with their positions.
#[derive(Default)]
struct Index<'a> {
    /// The last entry of each key.
    keys: BTreeMap<Cow<'a, str>, (usize, NodeMatch)>,
    /// The values of `<<`.
    merges: Vec<(usize, Id)>,
}

struct Search<'a> {
    tree: &'a Tree,
    /// Indexes of the mappings that were searched.
    indexes: BTreeMap<Id, Rc<Index<'a>>>,
    /// Remaining number of merges to follow, because nested merges could take exponential time.
    merges: usize,
}

impl<'a> Search<'a> {
    fn find(&mut self, path: &Path) -> Option<NodeMatch> {
        let steps = path.steps().iter();
        steps.fold(self.root(), |found, step| self.step(found?, step))
    }

    /// Finds the value, or the nearest enclosing one.
    fn nearest(&mut self, path: &Path) -> Option<NodeMatch> {
        let mut found = self.root()?;
        for step in path.steps() {
            match self.step(found, step) {
                Some(next) => found = next,
                None => break,
            }
        }
        Some(found)
    }

    fn root(&self) -> Option<NodeMatch> {
        let root = self.tree.root?;
        Some(NodeMatch {
            key: root,
            value: root,
        })
    }

    fn step(&mut self, from: NodeMatch, step: &Step) -> Option<NodeMatch> {
        let parent = follow(self.tree, from.value);
        match (&self.tree.node(parent).ok()?.kind, step) {
            (Kind::Mapping(_), Step::Key(key)) => self.entry(parent, key, 0),
            (Kind::Sequence(items), Step::Index(index)) => {
                let item = *items.get(*index)?;
                Some(NodeMatch {
                    key: item,
                    value: item,
                })
            }
            _ => None,
        }
    }

    /// Finds the effective entry: the last one in document order, because each overwrites its predecessors.
    fn entry(&mut self, mapping: Id, key: &str, depth: usize) -> Option<NodeMatch> {
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
            // If the budget is exhausted, the effective entry is unknown.
            if merged.is_some() || self.merges == 0 {
                return merged;
            }
        }
        own.map(|(_, found)| *found)
    }

    fn merged(&mut self, id: Id, key: &str, depth: usize) -> Option<NodeMatch> {
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
                index.keys.insert(text, (at, NodeMatch { key, value }));
            }
        }
        let index = Rc::new(index);
        self.indexes.insert(mapping, Rc::clone(&index));
        Some(index)
    }
}

/// Returns the key of a mapping entry in JSON.
pub(super) fn key_text(tree: &Tree, id: Id) -> Option<Cow<'_, str>> {
    match scalar(tree, follow(tree, id)).ok()? {
        Scalar::Text(text) => Some(text),
        other => other.key().map(Cow::Owned),
    }
}

/// Returns the target of an alias, or the node itself; aliases cannot have anchors.
fn follow(tree: &Tree, id: Id) -> Id {
    match tree.node(id).map(|node| &node.kind) {
        Ok(Kind::Alias(target)) => *target,
        _ => id,
    }
}
