//! Normalization of the max OpenShift version in the blob of a bundle, before anything else reads the blob.
//!
//! A number becomes a string with its spelling: YAML and Go read `4.10` as 4.1, which would block upgrades of every
//! cluster. The key "maxOpenShiftVersion" of the enhancement, directly in the blob, becomes the property, unless the
//! property declares a lower release. Checks, choices, and rendered and served catalogs therefore all use the same
//! property.

use std::ops::Range;

use manifests::{
    openshift::{
        Declarations, MAX_ANNOTATION, MAX_PROPERTY, Problem, Spelling, Unquoted as Number,
    },
    path::{Path, Step},
    yaml,
};
use memchr::memmem;
use serde_json::Value;

use crate::{
    go_json::property_value,
    json::{Kind, Node},
};

/// Property with the annotations of a ClusterServiceVersion.
const METADATA: &str = "olm.csv.metadata";
/// Common part of the names of property and key. A blob without it declares no maximum.
const MARK: &[u8] = b"axOpenShiftVersion";
/// Maximum number of reported unquoted numbers per document.
const MAX_UNQUOTED: usize = 20;

/// A max OpenShift version that is not a string in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unquoted {
    /// Line of the value, starting at 1.
    pub(crate) line: usize,
    /// The number. For an annotation, any scalar that is not a string.
    pub(crate) number: Number,
    pub(crate) place: ValuePosition,
}

/// Position of a value in the blob of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValuePosition {
    Property,
    Key,
    /// An annotation in `olm.csv.metadata`.
    Annotation,
}

/// A document in which some bytes were replaced. Its lines are those of the original.
pub(super) struct Normalized {
    pub(super) bytes: Vec<u8>,
    pub(super) unquoted: Vec<Unquoted>,
    /// Problems of a key and a property that the property of the new blob does not show.
    pub(super) problems: Vec<Problem>,
}

// === impl Unquoted ===

impl Unquoted {
    /// Reports whether the value of a property is the spelling of this number.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.place == ValuePosition::Property && self.number.spelling() == text
    }
}

/// Replaces numbers of a YAML document by their spelling, also in the blobs of a template. `first` is the line in its
/// file where `text` starts. Annotations are not changed, because opm rejects them.
pub(super) fn quote_yaml(text: &[u8], first: usize, value: &mut Value) -> Vec<Unquoted> {
    let mut declarations = values(value, &Path::root());
    let entries = value.get("entries").and_then(Value::as_array);
    for (at, entry) in entries.into_iter().flatten().enumerate() {
        declarations.append(&mut values(entry, &Path::from(["entries"]).index(at)));
    }
    let (paths, kinds): (Vec<_>, Vec<_>) = declarations.into_iter().unzip();
    let scalars = yaml::written_all(text, 0, &paths);
    let lines = yaml::locate_all(text, 0, &paths);
    let mut unquoted = Vec::new();
    for (((path, place), scalar), line) in paths.iter().zip(kinds).zip(scalars).zip(lines) {
        let target = path.steps().iter().try_fold(&mut *value, step_into);
        let (Some(scalar), Some(target)) = (scalar, target) else {
            continue;
        };
        if unquoted.len() < MAX_UNQUOTED {
            unquoted.push(Unquoted {
                line: line.map_or(first, |(line, _)| first + line.saturating_sub(1)),
                number: Number::new(&scalar.text),
                place,
            });
        }
        if place != ValuePosition::Annotation {
            *target = Value::String(scalar.text);
        }
    }
    unquoted
}

fn step_into<'v>(value: &'v mut Value, step: &Step) -> Option<&'v mut Value> {
    match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(at) => value.get_mut(at),
    }
}

/// Returns the paths of values that are not strings, in the blob at this path.
fn values(blob: &Value, path: &Path) -> Vec<(Path, ValuePosition)> {
    let mut values = Vec::new();
    if let Some((properties, Value::Array(list))) = field(blob, "properties") {
        for (at, property) in list.iter().enumerate() {
            let type_ = field(property, "type").and_then(|(_, type_)| type_.as_str());
            let Some((name, value)) = field(property, "value") else {
                continue;
            };
            let path = || path.clone().key(properties).index(at).key(name);
            match type_ {
                Some(MAX_PROPERTY) if value.is_number() => {
                    values.push((path(), ValuePosition::Property));
                }
                Some(METADATA) => {
                    let annotations = field(value, "annotations");
                    let is_scalar = annotations.is_some_and(|(_, annotations)| {
                        let value = annotations.get(MAX_ANNOTATION);
                        value.is_some_and(|value| value.is_number() || value.is_boolean())
                    });
                    if let (Some((name, _)), true) = (annotations, is_scalar) {
                        values.push((
                            path().key(name).key(MAX_ANNOTATION),
                            ValuePosition::Annotation,
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    if blob.get(MAX_ANNOTATION).is_some_and(Value::is_number) {
        values.push((path.clone().key(MAX_ANNOTATION), ValuePosition::Key));
    }
    values
}

/// Returns a field with its name as written; Go ignores the case of names.
fn field<'v>(object: &'v Value, name: &str) -> Option<(&'v String, &'v Value)> {
    let mut fields = object.as_object()?.iter();
    fields.rfind(|(key, _)| key.eq_ignore_ascii_case(name))
}

/// Replaces numbers of a bundle's blob by strings, and converts its key to a property. Returns `None` if nothing
/// changes. `bytes` is the text of `root`, and `first` is its first line in the file.
pub(super) fn normalize(root: Node<'_>, bytes: &[u8], first: usize) -> Option<Normalized> {
    // Names can contain escapes.
    if memmem::find(bytes, MARK).is_none() && memmem::find(bytes, br"\u").is_none() {
        return None;
    }
    if !root
        .field("schema")
        .is_some_and(|schema| schema.is("olm.bundle"))
    {
        return None;
    }
    let mut edits = Edits {
        bytes,
        first,
        list: Vec::new(),
        unquoted: Vec::new(),
        problems: Vec::new(),
    };
    let properties = root.field("properties");
    let mut listed = Vec::new();
    for property in properties.into_iter().flat_map(Node::items) {
        let (Some(type_), Some(value)) = (property.field("type"), property_value(property)) else {
            continue;
        };
        if type_.is(MAX_PROPERTY) {
            listed.push(value);
        } else if type_.is(METADATA)
            && let Some(annotations) = value.field("annotations")
            && let Some(value) = annotations.get(MAX_ANNOTATION)
            && matches!(value.kind(), Kind::Number | Kind::Bool)
        {
            edits.report(value, ValuePosition::Annotation);
        }
    }
    let replaced = root
        .get(MAX_ANNOTATION)
        .and_then(|key| edits.decide(root, properties, &listed, key));
    for value in listed
        .into_iter()
        .filter(|value| value.kind() == Kind::Number)
    {
        edits.report(value, ValuePosition::Property);
        if replaced != Some(value.range()) {
            edits.replace(value, string_of(value));
        }
    }
    edits.apply()
}

/// Returns a value as compact JSON. Numbers become strings.
fn string_of(value: Node<'_>) -> Vec<u8> {
    let mut json = Vec::new();
    if value.kind() == Kind::Number {
        json.push(b'"');
        json.extend_from_slice(value.source());
        json.push(b'"');
    } else {
        value.compact(&mut json);
    }
    json
}

/// Returns a value as [`Declarations`] read it: a number with its spelling.
fn text_of(value: Node<'_>) -> String {
    String::from_utf8_lossy(value.source()).into_owned()
}

/// Replacements of parts of a document.
struct Edits<'a> {
    bytes: &'a [u8],
    first: usize,
    list: Vec<(Range<usize>, Vec<u8>)>,
    unquoted: Vec<Unquoted>,
    problems: Vec<Problem>,
}

impl Edits<'_> {
    fn replace(&mut self, value: Node<'_>, json: Vec<u8>) {
        self.list.push((value.range(), json));
    }

    fn report(&mut self, value: Node<'_>, place: ValuePosition) {
        if self.unquoted.len() >= MAX_UNQUOTED {
            return;
        }
        let before = self.bytes.get(..value.range().start).unwrap_or_default();
        self.unquoted.push(Unquoted {
            line: self.first + memchr::memchr_iter(b'\n', before).count(),
            number: Number::new(&text_of(value)),
            place,
        });
    }

    /// Converts the key to a property, or replaces the value of the only property, if the key is effective. Returns the
    /// range of a replaced value.
    fn decide(
        &mut self,
        root: Node<'_>,
        properties: Option<Node<'_>>,
        listed: &[Node<'_>],
        key: Node<'_>,
    ) -> Option<Range<usize>> {
        if key.kind() == Kind::Number {
            self.report(key, ValuePosition::Key);
        }
        let mut declarations = Declarations::default();
        for value in listed {
            declarations.add(Spelling::CatalogProperties, &text_of(*value));
        }
        declarations.add(Spelling::CatalogKey, &text_of(key));
        let decision = declarations.decide();
        let is_key = |source| source == Spelling::CatalogKey;
        let counts = decision
            .declared
            .is_some_and(|declared| is_key(declared.source));
        let replaced = match listed {
            [] => {
                self.add(root, properties, &string_of(key));
                return None;
            }
            [value] if counts => {
                self.replace(*value, string_of(key));
                Some(value.range())
            }
            _ => None,
        };
        self.problems = decision.problems;
        // Readers of the blob find the other problems of the property.
        self.problems.retain(|problem| {
            let is_difference = matches!(problem, Problem::Differs { .. });
            is_difference || replaced.is_some() || is_key(problem.declared().source)
        });
        replaced
    }

    /// Adds a property to the list, or adds a list. A list of another type is an error that is reported elsewhere.
    fn add(&mut self, root: Node<'_>, properties: Option<Node<'_>>, json: &[u8]) {
        let mut property = format!("{{\"type\":\"{MAX_PROPERTY}\",\"value\":").into_bytes();
        property.extend_from_slice(json);
        property.push(b'}');
        let (end, text) = match properties {
            None => (
                root.range().end,
                [&b",\"properties\":["[..], &property, b"]"].concat(),
            ),
            Some(list) if list.kind() != Kind::Array => return,
            Some(list) if list.items().next().is_some() => {
                (list.range().end, [&b","[..], &property].concat())
            }
            Some(list) => (list.range().end, property),
        };
        let end = end.saturating_sub(1);
        self.list.push((end..end, text));
    }

    fn apply(mut self) -> Option<Normalized> {
        if self.list.is_empty() && self.unquoted.is_empty() && self.problems.is_empty() {
            return None;
        }
        self.list.sort_by_key(|(range, _)| range.start);
        let added: usize = self.list.iter().map(|(_, text)| text.len()).sum();
        let mut bytes = Vec::with_capacity(self.bytes.len() + added);
        let mut from = 0;
        for (range, text) in &self.list {
            bytes.extend_from_slice(self.bytes.get(from..range.start).unwrap_or_default());
            bytes.extend_from_slice(text);
            from = range.end;
        }
        bytes.extend_from_slice(self.bytes.get(from..).unwrap_or_default());
        Some(Normalized {
            bytes,
            unquoted: self.unquoted,
            problems: self.problems,
        })
    }
}
