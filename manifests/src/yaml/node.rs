//! The complete reader, first half: libyaml's events become a tree of nodes, anchors resolved.
//!
//! Go keeps such a tree, too, and some of its rules (merge keys, the alias budget) only make sense on it.

mod commas;

use std::{collections::HashMap, io::BufReader, iter::Peekable, panic};

use libyaml_safer::{
    Encoding, ErrorKind, Event, EventData, MappingStyle, Parser, ScalarStyle, SequenceStyle,
};

use super::{Limits, cost, error::Fault};

/// The position of a node in its [`Tree`].
pub(super) type Id = usize;

/// One node; positions count bytes from the start of the document.
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
        /// Plain and without a tag.
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
    /// `None` for a document without content.
    pub(super) root: Option<Id>,
    /// Bytes of memory that it takes, estimated.
    pub(super) memory: usize,
}

impl Tree {
    /// Ids come from the tree itself, so a miss is a bug; it is reported like any other fault.
    pub(super) fn node(&self, id: Id) -> Result<&Node, Fault> {
        self.nodes
            .get(id)
            .ok_or_else(|| Fault::new(0, "lost a node"))
    }

    /// All nodes, in the order in which they begin. The position of a node is its [`Id`].
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// Reads the first YAML document in `text`; go-yaml, too, never looks behind it.
pub(super) fn read(text: &str, limits: &Limits) -> Result<Tree, Fault> {
    if let Some(at) = inner_mark(text) {
        return Err(Fault::new(
            at,
            "a byte order mark may only stand at the start",
        ));
    }
    commas::check(text, limits)?;
    // The one panic known is checked for; this is the net below, as the input comes from strangers.
    panic::catch_unwind(|| compose(text, limits))
        .unwrap_or_else(|_| Err(Fault::new(0, "malformed YAML")))
}

/// A byte order mark that starts a line: part of the text in go-yaml, skipped by libyaml-safer.
fn inner_mark(text: &str) -> Option<usize> {
    let mut marks = text.match_indices('\u{feff}').map(|(at, _)| at);
    marks.find(|&at| {
        let before = text.get(..at).unwrap_or_default();
        before.is_empty() || before.ends_with(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
    })
}

/// The bytes that the parser is offered at once.
const INPUT: usize = 16 << 10;

/// A collection that is still open.
struct Open {
    id: Id,
    items: Vec<Id>,
    flow: bool,
}

fn compose(text: &str, limits: &Limits) -> Result<Tree, Fault> {
    // The parser keeps all that it is offered at once, four bytes for each character.
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input(BufReader::with_capacity(INPUT, text.as_bytes()));
    let mut tree = Tree::default();
    let mut anchors = HashMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut slashes = escaped_slashes(text).peekable();
    loop {
        let event = parser.parse().map_err(|error| syntax(text, &error))?;
        refuse_escaped_slash(&event, &mut slashes)?;
        let start = index(event.start_mark.index);
        let in_flow = open.last().is_some_and(|parent| parent.flow);
        let (node, anchor, opens) = match node(event, &anchors)? {
            Parsed::Node(kind, anchor, opens) => (Node { kind, start }, anchor, opens),
            Parsed::Close => {
                let Some(Open { id, items, .. }) = open.pop() else {
                    return Err(Fault::new(start, "unbalanced collections"));
                };
                close(&mut tree, id, items);
                continue;
            }
            Parsed::Skip => continue,
            Parsed::End => return Ok(tree),
        };
        if in_flow && has_question_mark(&node) {
            return Err(Fault::new(
                start,
                "did not find expected ',' or bracket before '?'",
            ));
        }
        let id = tree.nodes.len();
        // Keys are nodes, too; each entry of a mapping is two.
        if id > limits.values.saturating_mul(2).saturating_add(2) {
            return Err(Fault::too_many(Some(start), limits));
        }
        tree.memory += memory(&node, anchor.as_deref());
        if tree.memory > limits.memory {
            return Err(Fault::too_large(Some(start), limits));
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
            open.push(Open { id, items, flow });
        }
    }
}

/// The memory of a node, twice that of what grows by doubling, and of its place in a collection.
fn memory(node: &Node, anchor: Option<&str>) -> usize {
    const LINKS: usize = 4 * size_of::<Id>();
    let texts = match &node.kind {
        Kind::Scalar { tag, text, .. } => tag.as_deref().map_or(0, cost::text) + cost::text(text),
        Kind::Sequence(_) | Kind::Mapping(_) => LINKS,
        Kind::Alias(_) => 0,
    };
    2 * size_of::<Node>() + LINKS + texts + anchor.map_or(0, |anchor| 128 + cost::text(anchor))
}

/// A `?` ends a plain scalar of a flow collection in go-yaml, and can follow none; for libyaml-safer it is text.
fn has_question_mark(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, style: ScalarStyle::Plain, .. } if text.contains('?'))
}

/// Where `\/` stands. An escape in YAML 1.2, and in libyaml-safer; an error in YAML 1.1, and in go-yaml.
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

fn refuse_escaped_slash(
    event: &Event,
    slashes: &mut Peekable<impl Iterator<Item = usize>>,
) -> Result<(), Fault> {
    let EventData::Scalar { style, .. } = event.data else {
        return Ok(());
    };
    let (start, end) = (index(event.start_mark.index), index(event.end_mark.index));
    while let Some(at) = slashes.next_if(|at| *at < end) {
        if at >= start && style == ScalarStyle::DoubleQuoted {
            return Err(Fault::new(at, "found unknown escape character"));
        }
    }
    Ok(())
}

/// The refusal of documents nested deeper than allowed.
pub(super) fn too_deep(at: usize, limits: &Limits) -> Fault {
    Fault::new(
        at,
        format!("nested deeper than the limit of {}", limits.depth),
    )
}

enum Parsed {
    /// A node, its anchor, and, when it is a collection that now opens, whether it is of flow style.
    Node(Kind, Option<String>, Option<bool>),
    Close,
    Skip,
    End,
}

fn node(event: Event, anchors: &HashMap<String, Id>) -> Result<Parsed, Fault> {
    let start = index(event.start_mark.index);
    Ok(match event.data {
        EventData::DocumentStart {
            version_directive: Some(version),
            ..
        } if (version.major, version.minor) != (1, 1) => {
            return Err(Fault::new(
                start,
                "found incompatible YAML document: only %YAML 1.1 is supported",
            ));
        }
        EventData::StreamStart { .. } | EventData::DocumentStart { .. } => Parsed::Skip,
        EventData::StreamEnd | EventData::DocumentEnd { .. } => Parsed::End,
        EventData::Alias { anchor } => match anchors.get(&anchor) {
            Some(id) => Parsed::Node(Kind::Alias(*id), None, None),
            None => {
                return Err(Fault::new(
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
            // libyaml always reports keys and values in turn.
            let (pairs, _) = items.as_chunks::<2>();
            entries.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        }
        _ => {}
    }
}

fn syntax(text: &str, error: &libyaml_safer::Error) -> Fault {
    let at = if error.kind() == ErrorKind::Reader {
        // The reader knows no marks, but what it refuses is easily found.
        text.find(|c| !is_allowed(c))
    } else {
        error.problem_mark().map(|mark| index(mark.index))
    };
    let message = match error.context() {
        Some(context) => format!("{context}: {}", error.problem()),
        None => error.problem().to_owned(),
    };
    Fault {
        message: message.into(),
        at,
        is_limit: false,
    }
}

/// The characters libyaml lets into a document.
pub(super) fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

fn index(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
