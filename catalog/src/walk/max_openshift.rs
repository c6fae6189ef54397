//! The max OpenShift version in the blob of a bundle, in one form before anything else reads the blob.
//!
//! A number becomes a string with its spelling: YAML and Go make 4.1 of `4.10`, which would block every cluster. The key of the
//! enhancement "maxOpenShiftVersion" directly in the blob becomes the property, unless the property declares a lower release. So
//! checks, choices, rendered and served catalogs all have the same property.

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
    json::{Kind, Node},
    shape::property_value,
};

/// The property with the annotations of a ClusterServiceVersion.
const METADATA: &str = "olm.csv.metadata";
/// A part of the names of property and key: without it a blob declares nothing.
const MARK: &[u8] = b"axOpenShiftVersion";
/// Unquoted numbers of one document that are reported.
const MAX_UNQUOTED: usize = 20;

/// A max OpenShift version that is not a string in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unquoted {
    /// The line of the value, from 1.
    pub(crate) line: usize,
    /// The number; of an annotation, any scalar that is not a string.
    pub(crate) number: Number,
    pub(crate) place: Place,
}

/// The place of a value in the blob of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Property,
    Key,
    /// An annotation in `olm.csv.metadata`.
    Annotation,
}

/// A document of which some bytes were replaced. Its lines are those of the original.
pub(super) struct Normalized {
    pub(super) bytes: Vec<u8>,
    pub(super) unquoted: Vec<Unquoted>,
    /// The problems of a key and a property that the property of the new blob does not show.
    pub(super) problems: Vec<Problem>,
}

// === impl Unquoted ===

impl Unquoted {
    /// Reports whether the value of a property is the spelling of this number.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.place == Place::Property && self.number.spelling() == text
    }
}

/// Replaces numbers of a YAML document by their spelling, in the blobs of a template, too. `first` is the line in its file
/// where `text` begins. Annotations stay as they are: opm rejects them.
pub(super) fn quote_yaml(text: &[u8], first: usize, value: &mut Value) -> Vec<Unquoted> {
    let mut found = values(value, &Path::root());
    let entries = value.get("entries").and_then(Value::as_array);
    for (at, entry) in entries.into_iter().flatten().enumerate() {
        found.append(&mut values(entry, &Path::from(["entries"]).index(at)));
    }
    let (paths, kinds): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let written = yaml::written_all(text, 0, &paths);
    let lines = yaml::locate_all(text, 0, &paths);
    let mut unquoted = Vec::new();
    for (((path, place), written), line) in paths.iter().zip(kinds).zip(written).zip(lines) {
        let found = path.steps().iter().try_fold(&mut *value, step_into);
        let (Some(written), Some(found)) = (written, found) else {
            continue;
        };
        if unquoted.len() < MAX_UNQUOTED {
            unquoted.push(Unquoted {
                line: line.map_or(first, |(line, _)| first + line.saturating_sub(1)),
                number: Number::new(&written.text),
                place,
            });
        }
        if place != Place::Annotation {
            *found = Value::String(written.text);
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

/// Returns the paths of values that are not strings in the blob at this path.
fn values(blob: &Value, path: &Path) -> Vec<(Path, Place)> {
    let mut found = Vec::new();
    if let Some((properties, Value::Array(list))) = field(blob, "properties") {
        for (at, property) in list.iter().enumerate() {
            let type_ = field(property, "type").and_then(|(_, type_)| type_.as_str());
            let Some((name, value)) = field(property, "value") else {
                continue;
            };
            let path = || path.clone().key(properties).index(at).key(name);
            match type_ {
                Some(MAX_PROPERTY) if value.is_number() => found.push((path(), Place::Property)),
                Some(METADATA) => {
                    let annotations = field(value, "annotations");
                    let is_scalar = annotations.is_some_and(|(_, annotations)| {
                        let value = annotations.get(MAX_ANNOTATION);
                        value.is_some_and(|value| value.is_number() || value.is_boolean())
                    });
                    if let (Some((name, _)), true) = (annotations, is_scalar) {
                        found.push((path().key(name).key(MAX_ANNOTATION), Place::Annotation));
                    }
                }
                _ => {}
            }
        }
    }
    if blob.get(MAX_ANNOTATION).is_some_and(Value::is_number) {
        found.push((path.clone().key(MAX_ANNOTATION), Place::Key));
    }
    found
}

/// Returns a field and its name as it was written: Go ignores the case of names.
fn field<'v>(object: &'v Value, name: &str) -> Option<(&'v String, &'v Value)> {
    let mut fields = object.as_object()?.iter();
    fields.rfind(|(key, _)| key.eq_ignore_ascii_case(name))
}

/// Replaces numbers of a bundle's blob by strings, and makes a property of its key. Returns `None` if nothing changes. `bytes` are those that `root` was read from, and `first` is the line in their file where they begin.
pub(super) fn normalize(root: Node<'_>, bytes: &[u8], first: usize) -> Option<Normalized> {
    // The names can be written with escapes.
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
            edits.report(value, Place::Annotation);
        }
    }
    let replaced = root
        .get(MAX_ANNOTATION)
        .and_then(|key| edits.decide(root, properties, &listed, key));
    for value in listed
        .into_iter()
        .filter(|value| value.kind() == Kind::Number)
    {
        edits.report(value, Place::Property);
        if replaced != Some(value.range()) {
            edits.replace(value, string_of(value));
        }
    }
    edits.apply()
}

/// Returns a value as compact JSON, a number as a string.
fn string_of(value: Node<'_>) -> Vec<u8> {
    let mut json = Vec::new();
    if value.kind() == Kind::Number {
        json.push(b'"');
        json.extend_from_slice(value.raw());
        json.push(b'"');
    } else {
        value.compact(&mut json);
    }
    json
}

/// Returns a value as [`Declarations`] read it: a number in its spelling.
fn text_of(value: Node<'_>) -> String {
    String::from_utf8_lossy(value.raw()).into_owned()
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

    fn report(&mut self, value: Node<'_>, place: Place) {
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

    /// Makes a property of the key, or replaces the value of the one property, if the key counts. Returns the range of a
    /// replaced value.
    fn decide(
        &mut self,
        root: Node<'_>,
        properties: Option<Node<'_>>,
        listed: &[Node<'_>],
        key: Node<'_>,
    ) -> Option<Range<usize>> {
        if key.kind() == Kind::Number {
            self.report(key, Place::Key);
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

    /// Adds a property to the list, or else a list. A list of another kind is an error that is reported elsewhere.
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
