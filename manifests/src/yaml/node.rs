//! First half of the complete parser: builds a tree of nodes from libyaml's events, and resolves anchors.
//!
//! Go also builds such a tree, and some of its rules (merge keys, the alias budget) depend on it.

mod commas;

use std::{collections::HashMap, io::BufReader, iter::Peekable, panic};

use libyaml_safer::{
    Encoding, ErrorKind, Event, EventData, MappingStyle, Parser, ScalarStyle, SequenceStyle,
};

use super::{Limits, cost, error::DocumentError};

/// Index of a node in its [`Tree`].
pub(super) type Id = usize;

/// A node; positions are byte offsets in the document.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) start: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    Scalar {
        tag: Option<String>,
        text: String,
        /// Whether the scalar is plain and has no tag.
        implicit: bool,
        style: ScalarStyle,
    },
    Sequence(Vec<Id>),
    Mapping(Vec<(Id, Id)>),
    Alias(Id),
}

/// All nodes of one document.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The root node, or `None` for a document without content.
    pub(super) root: Option<Id>,
    /// Estimated memory of the tree in bytes.
    pub(super) memory: usize,
}

impl Tree {
    /// Returns a node. Ids come from the tree itself, so a missing node is a bug, which is reported like other errors.
    pub(super) fn node(&self, id: Id) -> Result<&Node, DocumentError> {
        self.nodes
            .get(id)
            .ok_or_else(|| DocumentError::new(0, "internal error: missing node"))
    }

    /// Returns all nodes in the order in which they start. The index of a node is its [`Id`].
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// Parses the first YAML document in `text`. Like go-yaml, it ignores everything after the document.
pub(super) fn read(text: &str, limits: &Limits) -> Result<Tree, DocumentError> {
    if let Some(at) = inner_mark(text) {
        return Err(DocumentError::new(
            at,
            "a byte order mark is allowed only at the start",
        ));
    }
    commas::check(text, limits)?;
    // The only known panic is excluded above. This catches unknown ones, because the input is untrusted.
    panic::catch_unwind(|| compose(text, limits))
        .unwrap_or_else(|_| Err(DocumentError::new(0, "malformed YAML")))
}

/// Finds a byte order mark at the start of a line: go-yaml treats it as text, but libyaml-safer skips it.
fn inner_mark(text: &str) -> Option<usize> {
    let mut marks = text.match_indices('\u{feff}').map(|(at, _)| at);
    marks.find(|&at| {
        let before = text.get(..at).unwrap_or_default();
        before.is_empty() || before.ends_with(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
    })
}

/// Maximum number of bytes that the parser gets at once.
const INPUT_CAPACITY: usize = 16 << 10;

/// A collection that is not closed yet.
struct OpenCollection {
    id: Id,
    items: Vec<Id>,
    flow: bool,
}

fn compose(text: &str, limits: &Limits) -> Result<Tree, DocumentError> {
    // The parser buffers its whole input, with four bytes for each character.
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input(BufReader::with_capacity(INPUT_CAPACITY, text.as_bytes()));
    let mut tree = Tree::default();
    let mut anchors = HashMap::new();
    let mut open: Vec<OpenCollection> = Vec::new();
    let mut slashes = escaped_slashes(text).peekable();
    loop {
        let event = parser.parse().map_err(|error| syntax(text, &error))?;
        reject_escaped_slash(&event, &mut slashes)?;
        let start = index(event.start_mark.index);
        let in_flow = open.last().is_some_and(|parent| parent.flow);
        let (node, anchor, opens) = match node(event, &anchors)? {
            Parsed::Node(kind, anchor, opens) => (Node { kind, start }, anchor, opens),
            Parsed::Close => {
                let Some(OpenCollection { id, items, .. }) = open.pop() else {
                    return Err(DocumentError::new(start, "unbalanced collections"));
                };
                close(&mut tree, id, items);
                continue;
            }
            Parsed::Skip => continue,
            Parsed::End => return Ok(tree),
        };
        if in_flow && has_question_mark(&node) {
            return Err(DocumentError::new(
                start,
                "did not find expected ',' or bracket before '?'",
            ));
        }
        let id = tree.nodes.len();
        // Keys are also nodes, so each entry of a mapping counts twice.
        if id > limits.values.saturating_mul(2).saturating_add(2) {
            return Err(DocumentError::too_many(Some(start), limits));
        }
        tree.memory += memory(&node, anchor.as_deref());
        if tree.memory > limits.memory {
            return Err(DocumentError::too_large(Some(start), limits));
        }
        tree.nodes.push(node);
        match open.last_mut() {
            Some(parent) => parent.items.push(id),
            None => tree.root = Some(id),
        }
        if let Some(anchor) = anchor {
            anchors.insert(anchor, id);
        }
        if let Some(flow) = opens {
            if open.len() >= limits.depth {
                return Err(too_deep(start, limits));
            }
            let items = Vec::new();
            open.push(OpenCollection { id, items, flow });
        }
    }
}

/// Estimates the memory of a node, twice for parts that grow by doubling, and of its slot in a collection.
fn memory(node: &Node, anchor: Option<&str>) -> usize {
    const LINKS: usize = 4 * size_of::<Id>();
    let texts = match &node.kind {
        Kind::Scalar { tag, text, .. } => tag.as_deref().map_or(0, cost::text) + cost::text(text),
        Kind::Sequence(_) | Kind::Mapping(_) => LINKS,
        Kind::Alias(_) => 0,
    };
    2 * size_of::<Node>() + LINKS + texts + anchor.map_or(0, |anchor| 128 + cost::text(anchor))
}

/// Reports whether a plain scalar contains a `?`. In go-yaml, it ends a plain scalar in a flow collection, and cannot
/// follow one; for libyaml-safer it is text.
fn has_question_mark(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, style: ScalarStyle::Plain, .. } if text.contains('?'))
}

/// Finds the positions of `\/`, which is an escape in YAML 1.2 and libyaml-safer, but an error in YAML 1.1 and go-yaml.
fn escaped_slashes(text: &str) -> impl Iterator<Item = usize> {
    let has_any = text.contains("\\/");
    let bytes = text.bytes().enumerate().take_while(move |_| has_any);
    let mut escaped = false;
    bytes.filter_map(move |(at, c)| {
        let found = escaped && c == b'/';
        escaped = c == b'\\' && !escaped;
        found.then_some(at)
    })
}

fn reject_escaped_slash(
    event: &Event,
    slashes: &mut Peekable<impl Iterator<Item = usize>>,
) -> Result<(), DocumentError> {
    let EventData::Scalar { style, .. } = event.data else {
        return Ok(());
    };
    let (start, end) = (index(event.start_mark.index), index(event.end_mark.index));
    while let Some(at) = slashes.next_if(|at| *at < end) {
        if at >= start && style == ScalarStyle::DoubleQuoted {
            return Err(DocumentError::new(at, "found unknown escape character"));
        }
    }
    Ok(())
}

/// Returns the error of a document that exceeds the depth limit.
pub(super) fn too_deep(at: usize, limits: &Limits) -> DocumentError {
    DocumentError::new(
        at,
        format!("nested deeper than the limit of {}", limits.depth),
    )
}

enum Parsed {
    /// A node, its anchor, and, if it opens a collection, whether the style is flow.
    Node(Kind, Option<String>, Option<bool>),
    Close,
    Skip,
    End,
}

fn node(event: Event, anchors: &HashMap<String, Id>) -> Result<Parsed, DocumentError> {
    let start = index(event.start_mark.index);
    Ok(match event.data {
        EventData::DocumentStart {
            version_directive: Some(version),
            ..
        } if (version.major, version.minor) != (1, 1) => {
            return Err(DocumentError::new(
                start,
                "found incompatible YAML document: only %YAML 1.1 is supported",
            ));
        }
        EventData::StreamStart { .. } | EventData::DocumentStart { .. } => Parsed::Skip,
        EventData::StreamEnd | EventData::DocumentEnd { .. } => Parsed::End,
        EventData::Alias { anchor } => match anchors.get(&anchor) {
            Some(id) => Parsed::Node(Kind::Alias(*id), None, None),
            None => {
                return Err(DocumentError::new(
                    start,
                    format!("unknown anchor {anchor:?} referenced"),
                ));
            }
        },
        EventData::Scalar {
            anchor,
            tag,
            value,
            plain_implicit,
            style,
            ..
        } => {
            let kind = Kind::Scalar {
                tag,
                text: value,
                implicit: plain_implicit,
                style,
            };
            Parsed::Node(kind, anchor, None)
        }
        EventData::SequenceStart { anchor, style, .. } => {
            let flow = style == SequenceStyle::Flow;
            Parsed::Node(Kind::Sequence(Vec::new()), anchor, Some(flow))
        }
        EventData::MappingStart { anchor, style, .. } => {
            let flow = style == MappingStyle::Flow;
            Parsed::Node(Kind::Mapping(Vec::new()), anchor, Some(flow))
        }
        EventData::SequenceEnd | EventData::MappingEnd => Parsed::Close,
    })
}

fn close(tree: &mut Tree, id: Id, items: Vec<Id>) {
    match tree.nodes.get_mut(id).map(|node| &mut node.kind) {
        Some(Kind::Sequence(elements)) => *elements = items,
        Some(Kind::Mapping(entries)) => {
            // libyaml always reports keys and values alternately.
            let (pairs, _) = items.as_chunks::<2>();
            entries.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        }
        _ => {}
    }
}

fn syntax(text: &str, error: &libyaml_safer::Error) -> DocumentError {
    let at = if error.kind() == ErrorKind::Reader {
        // The reader reports no positions, but the invalid character is easy to find.
        text.find(|c| !is_allowed(c))
    } else {
        error.problem_mark().map(|mark| index(mark.index))
    };
    let message = match error.context() {
        Some(context) => format!("{context}: {}", error.problem()),
        None => error.problem().to_owned(),
    };
    DocumentError {
        message: message.into(),
        at,
        is_limit: false,
    }
}

/// Reports whether libyaml accepts a character in a document.
pub(super) fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

fn index(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
