//! Keys that a mapping has more than once. Go, and so [`super::documents`], takes the last one; strict readers report them.
//! Pure; no I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Cut, Documents, Limits, chunk,
    decode::is_merge,
    locate::key_text,
    node::{self, Id, Kind, Tree},
    split,
};
use crate::{
    object::shortened,
    path::{Path, Step},
};

/// The maximum number of repeated keys of a document that are located.
pub const MAX_REPEATED: usize = 100;

/// The maximum length of a key in a path, in characters: keys may have megabytes.
const MAX_KEY_LEN: usize = 200;

/// The keys that the mappings of a document have more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repeated {
    /// The path of each repetition and its line in the input, from 1, in the order of the lines; at most
    /// [`MAX_REPEATED`]. Long keys are shortened.
    pub keys: Vec<(Path, usize)>,
    /// The number of all repetitions.
    pub count: usize,
}

/// Returns the first key that a mapping of a document has twice, and the line of the second one: for inputs in which the
/// last of equal keys must not win. What `<<` merges is overwritten on purpose. `None` also when the document cannot be
/// read.
pub fn repeated(input: &[u8], document: usize) -> Option<(String, usize)> {
    let found = repeated_all(input, &BTreeSet::from([document])).remove(&document)??;
    let (path, line) = found.keys.into_iter().next()?;
    match path.steps().last()? {
        Step::Key(key) => Some((key.clone(), line)),
        Step::Index(_) => None,
    }
}

/// Returns the keys that mappings of some documents (counted from 0) have more than once, at the price of reading the
/// input once. `None` stands for a document that is malformed or exceeds [`Limits`].
pub fn repeated_all(
    input: &[u8],
    documents: &BTreeSet<usize>,
) -> BTreeMap<usize, Option<Repeated>> {
    let Some(last) = documents.last() else {
        return BTreeMap::new();
    };
    let limits = Limits::default();
    let mut cuts = Documents::new(input, limits);
    let mut all = BTreeMap::new();
    // Of JSON: the bytes that are behind, and their lines.
    let (mut behind, mut line) = (0, 0);
    for document in 0..=*last {
        let Some(Ok(cut)) = cuts.cut() else { break };
        let found = match cut {
            Cut::Json(_, range) => {
                line += split::lines(input.get(behind..range.start).unwrap_or_default());
                behind = range.start;
                let text = input.get(range).unwrap_or_default();
                documents
                    .contains(&document)
                    .then(|| Some(in_json(text, line)))
            }
            Cut::Yaml(chunk) => documents.contains(&document).then(|| {
                let tree = node::read(chunk::utf8(&chunk.text).ok()?, &limits).ok()?;
                Some(in_tree(&tree, |starts| chunk::places(&chunk, starts)))
            }),
        };
        if let Some(found) = found {
            all.insert(document, found);
        }
    }
    all
}

/// Lines and columns of bytes of a document.
type Places = BTreeMap<usize, (usize, usize)>;

fn in_tree(tree: &Tree, places: impl Fn(BTreeSet<usize>) -> Places) -> Repeated {
    let mut found: Vec<(usize, Id, Id)> = Vec::new();
    for (id, node) in tree.nodes().iter().enumerate() {
        let Kind::Mapping(entries) = &node.kind else {
            continue;
        };
        let mut seen = BTreeSet::new();
        let keys = entries.iter().map(|(key, _)| *key);
        for key in keys.filter(|key| !is_merge(tree, *key)) {
            if let Some(text) = key_text(tree, key)
                && !seen.insert(text)
                && let Ok(node) = tree.node(key)
            {
                found.push((node.start, id, key));
            }
        }
    }
    let count = found.len();
    found.sort_unstable();
    found.truncate(MAX_REPEATED);
    if found.is_empty() {
        return Repeated::default();
    }
    let places = places(found.iter().map(|(start, ..)| *start).collect());
    let parents = parents(tree);
    let keys = found.into_iter().filter_map(|(start, mapping, key)| {
        let (line, _) = *places.get(&start)?;
        let path = path(tree, &parents, mapping);
        Some((
            path.key(shortened(&key_text(tree, key)?, MAX_KEY_LEN)),
            line,
        ))
    });
    Repeated {
        keys: keys.collect(),
        count,
    }
}

/// A step from a collection to one of its nodes.
#[derive(Clone, Copy)]
enum Child {
    /// The position in a sequence.
    Item(usize),
    /// The key in a mapping.
    Value(Id),
}

/// Returns the parent of each node, and the step from there; `None` for the root and for keys.
fn parents(tree: &Tree) -> Vec<Option<(Id, Child)>> {
    let mut parents = vec![None; tree.nodes().len()];
    let mut set = |id: Id, parent, child| {
        if let Some(slot) = parents.get_mut(id) {
            *slot = Some((parent, child));
        }
    };
    for (parent, node) in tree.nodes().iter().enumerate() {
        match &node.kind {
            Kind::Sequence(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(at, id)| set(*id, parent, Child::Item(at)));
            }
            Kind::Mapping(entries) => {
                let entries = entries.iter();
                entries.for_each(|(key, value)| set(*value, parent, Child::Value(*key)));
            }
            Kind::Scalar { .. } | Kind::Alias(_) => {}
        }
    }
    parents
}

fn path(tree: &Tree, parents: &[Option<(Id, Child)>], mut id: Id) -> Path {
    let mut steps = Vec::new();
    while let Some(Some((parent, child))) = parents.get(id) {
        steps.push(match child {
            Child::Item(at) => Step::Index(*at),
            Child::Value(key) => Step::Key(
                key_text(tree, *key)
                    .map(|key| shortened(&key, MAX_KEY_LEN))
                    .unwrap_or_default(),
            ),
        });
        id = *parent;
    }
    steps.reverse();
    steps.into()
}

/// A collection of JSON that is open.
enum Open {
    Object {
        /// The keys so far.
        seen: BTreeSet<String>,
        /// The last key, and whether its value is next.
        key: String,
        has_key: bool,
    },
    Array(usize),
}

/// Finds the repeated keys of a JSON value that was read before. `line` is the number of lines before it.
///
/// The reader of YAML does not know all escapes of JSON.
fn in_json(text: &[u8], mut line: usize) -> Repeated {
    let mut found = Repeated::default();
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'\n' => line += 1,
            b'{' => open.push(Open::Object {
                seen: BTreeSet::new(),
                key: String::new(),
                has_key: false,
            }),
            b'[' => open.push(Open::Array(0)),
            b'}' | b']' => {
                open.pop();
            }
            b',' => match open.last_mut() {
                Some(Open::Object { has_key, .. }) => *has_key = false,
                Some(Open::Array(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                at = string_end(text, at);
                let Some(Open::Object { seen, key, has_key }) = open.last_mut() else {
                    continue;
                };
                if std::mem::replace(has_key, true) {
                    continue;
                }
                let written = text.get(start..at).unwrap_or_default();
                *key = serde_json::from_slice(written).unwrap_or_default();
                if !seen.insert(key.clone()) {
                    found.count += 1;
                    if found.keys.len() < MAX_REPEATED {
                        found.keys.push((open_path(&open), line + 1));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the byte behind the closing quote of a string; `at` is the byte behind the opening one.
fn string_end(text: &[u8], mut at: usize) -> usize {
    loop {
        match text.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at + 1,
            Some(_) => at += 1,
        }
    }
}

fn open_path(open: &[Open]) -> Path {
    let steps = open.iter().map(|open| match open {
        Open::Object { key, .. } => Step::Key(shortened(key, MAX_KEY_LEN)),
        Open::Array(index) => Step::Index(*index),
    });
    steps.collect::<Vec<_>>().into()
}
