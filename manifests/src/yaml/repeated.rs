//! Keys that occur more than once in a mapping. Go, and therefore [`super::documents`], uses the last one; strict parsers
//! report them. Pure; no I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Documents, Limits, RawDocument,
    decode::is_merge,
    document,
    locate::key_text,
    node::{self, Id, Kind, Tree},
    split,
};
use crate::{
    object::truncate,
    path::{Path, Step},
};

/// Maximum number of repeated keys in a document that are located.
pub const MAX_REPEATED: usize = 100;

/// Maximum length of a key in a path, in characters: keys may have megabytes.
const MAX_KEY_LEN: usize = 200;

/// Repeated keys in the mappings of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repeated {
    /// The path of each repetition and its line in the input, from 1, ordered by line; at most [`MAX_REPEATED`]. Long keys
    /// are truncated.
    pub keys: Vec<(Path, usize)>,
    /// Total number of repetitions.
    pub count: usize,
}

/// Returns the first key that a mapping of a document contains twice, and the line of the second one, for inputs in which
/// the last of equal keys must not win. Overriding keys of a `<<` merge is intended and not reported. Returns `None` also
/// if the document is malformed.
pub fn repeated(input: &[u8], document: usize) -> Option<(String, usize)> {
    let repeated = repeated_all(input, &BTreeSet::from([document])).remove(&document)??;
    let (path, line) = repeated.keys.into_iter().next()?;
    match path.steps().last()? {
        Step::Key(key) => Some((key.clone(), line)),
        Step::Index(_) => None,
    }
}

/// Returns the repeated keys in the mappings of several documents (index from 0), at the cost of reading the input once. A
/// document that is malformed or exceeds [`Limits`] has the value `None`.
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
    // For JSON: the bytes that were processed, and their lines.
    let (mut processed, mut line) = (0, 0);
    for document in 0..=*last {
        let Some(Ok(cut)) = cuts.cut() else { break };
        let found = match cut {
            RawDocument::Json(_, range) => {
                line += split::lines(input.get(processed..range.start).unwrap_or_default());
                processed = range.start;
                let text = input.get(range).unwrap_or_default();
                documents
                    .contains(&document)
                    .then(|| Some(in_json(text, line)))
            }
            RawDocument::Yaml(chunk) => documents.contains(&document).then(|| {
                let tree = node::read(document::utf8(&chunk.text).ok()?, &limits).ok()?;
                Some(in_tree(&tree, |starts| document::places(&chunk, starts)))
            }),
        };
        if let Some(found) = found {
            all.insert(document, found);
        }
    }
    all
}

/// Lines and columns by byte offset in a document.
type Places = BTreeMap<usize, (usize, usize)>;

fn in_tree(tree: &Tree, places: impl Fn(BTreeSet<usize>) -> Places) -> Repeated {
    let mut found: Vec<(usize, Id, Id)> = Vec::new();
    for (id, node) in tree.nodes().iter().enumerate() {
        let Kind::Mapping(entries) = &node.kind else {
            continue;
        };
        let mut distinct = BTreeSet::new();
        let keys = entries.iter().map(|(key, _)| *key);
        for key in keys.filter(|key| !is_merge(tree, *key)) {
            if let Some(text) = key_text(tree, key)
                && !distinct.insert(text)
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
        Some((path.key(truncate(&key_text(tree, key)?, MAX_KEY_LEN)), line))
    });
    Repeated {
        keys: keys.collect(),
        count,
    }
}

/// Step from a collection to one of its nodes.
#[derive(Clone, Copy)]
enum Child {
    /// Index in a sequence.
    Item(usize),
    /// Key in a mapping.
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
                    .map(|key| truncate(&key, MAX_KEY_LEN))
                    .unwrap_or_default(),
            ),
        });
        id = *parent;
    }
    steps.reverse();
    steps.into()
}

/// A JSON collection that is not closed yet.
enum OpenCollection {
    Object {
        /// Keys so far.
        keys: BTreeSet<String>,
        /// The last key, and whether its value is next.
        key: String,
        has_key: bool,
    },
    Array(usize),
}

/// Finds the repeated keys of a JSON value that was parsed before. `line` is the number of lines before it.
///
/// The YAML parser does not support all escapes of JSON.
fn in_json(text: &[u8], mut line: usize) -> Repeated {
    let mut found = Repeated::default();
    let mut open: Vec<OpenCollection> = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'\n' => line += 1,
            b'{' => open.push(OpenCollection::Object {
                keys: BTreeSet::new(),
                key: String::new(),
                has_key: false,
            }),
            b'[' => open.push(OpenCollection::Array(0)),
            b'}' | b']' => {
                open.pop();
            }
            b',' => match open.last_mut() {
                Some(OpenCollection::Object { has_key, .. }) => *has_key = false,
                Some(OpenCollection::Array(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                at = string_end(text, at);
                let Some(OpenCollection::Object { keys, key, has_key }) = open.last_mut() else {
                    continue;
                };
                if std::mem::replace(has_key, true) {
                    continue;
                }
                let written = text.get(start..at).unwrap_or_default();
                *key = serde_json::from_slice(written).unwrap_or_default();
                if !keys.insert(key.clone()) {
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

/// Returns the offset after the closing quote of a string; `at` is the offset after the opening one.
fn string_end(text: &[u8], mut at: usize) -> usize {
    loop {
        match text.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at + 1,
            Some(_) => at += 1,
        }
    }
}

fn open_path(open: &[OpenCollection]) -> Path {
    let steps = open.iter().map(|open| match open {
        OpenCollection::Object { key, .. } => Step::Key(truncate(key, MAX_KEY_LEN)),
        OpenCollection::Array(index) => Step::Index(*index),
    });
    steps.collect::<Vec<_>>().into()
}
