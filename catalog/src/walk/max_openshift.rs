//! The max OpenShift version in the blob of a bundle, in one form before anything else reads the blob.
//!
//! A number becomes a string with the digits that were written: YAML and Go make 4.1 of `4.10`, which would block every
//! cluster. The key of the enhancement "maxOpenShiftVersion" directly in the blob becomes a property. So checks, choices,
//! rendered and served catalogs all have the same property.

use manifests::{
    object::shortened,
    openshift::{MAX_ANNOTATION, MAX_PROPERTY, maximum},
    path::{Path, Step},
    yaml,
};
use memchr::memmem;
use serde_json::Value;

use crate::json::{Kind, Node};

/// A part of the names of property and key: without it a blob declares nothing.
const MARK: &[u8] = b"axOpenShiftVersion";
/// Unquoted numbers of one document that are reported.
const MAX_UNQUOTED: usize = 20;
/// Characters of a number that are reported.
const MAX_DIGITS: usize = 40;

/// A max OpenShift version that was written as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unquoted {
    /// The line of the value, from 1.
    pub(crate) line: usize,
    /// The digits that were written.
    pub(crate) text: String,
    /// The number that other programs read.
    pub(crate) read_as: String,
}

/// A document of which some bytes were replaced. Its lines are those of the original.
pub(super) struct Normalized {
    pub(super) bytes: Vec<u8>,
    pub(super) unquoted: Vec<Unquoted>,
}

/// Replaces numbers of a YAML document by the text that was written, in the blobs of a template, too. `first` is the line in
/// its file where `text` begins.
pub(super) fn quote_yaml(text: &[u8], first: usize, value: &mut Value) -> Vec<Unquoted> {
    let mut paths = numbers(value, &Path::root());
    let entries = value.get("entries").and_then(Value::as_array);
    for (at, entry) in entries.into_iter().flatten().enumerate() {
        paths.append(&mut numbers(entry, &Path::from(["entries"]).index(at)));
    }
    let written = yaml::written_all(text, 0, &paths);
    let places = yaml::locate_all(text, 0, &paths);
    let mut unquoted = Vec::new();
    for ((path, written), place) in paths.iter().zip(written).zip(places) {
        let found = path.steps().iter().try_fold(&mut *value, step_into);
        let (Some(written), Some(found)) = (written, found) else {
            continue;
        };
        if unquoted.len() < MAX_UNQUOTED {
            unquoted.push(Unquoted {
                line: place.map_or(first, |(line, _)| first + line.saturating_sub(1)),
                text: shortened(&written.text, MAX_DIGITS),
                read_as: shortened(&found.to_string(), MAX_DIGITS),
            });
        }
        *found = Value::String(written.text);
    }
    unquoted
}

fn step_into<'v>(value: &'v mut Value, step: &Step) -> Option<&'v mut Value> {
    match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(at) => value.get_mut(at),
    }
}

/// Returns the paths of numbers in the blob at this path.
fn numbers(blob: &Value, path: &Path) -> Vec<Path> {
    let mut paths = Vec::new();
    if let Some((properties, Value::Array(list))) = field(blob, "properties") {
        for (at, property) in list.iter().enumerate() {
            let type_ = field(property, "type").and_then(|(_, type_)| type_.as_str());
            if type_ == Some(MAX_PROPERTY)
                && let Some((value, Value::Number(_))) = field(property, "value")
            {
                paths.push(path.clone().key(properties).index(at).key(value));
            }
        }
    }
    if blob.get(MAX_ANNOTATION).is_some_and(Value::is_number) {
        paths.push(path.clone().key(MAX_ANNOTATION));
    }
    paths
}

/// Returns a field and its name as it was written: Go ignores the case of names.
fn field<'v>(object: &'v Value, name: &str) -> Option<(&'v String, &'v Value)> {
    let mut fields = object.as_object()?.iter();
    fields.rfind(|(key, _)| key.eq_ignore_ascii_case(name))
}

/// Replaces numbers of a bundle's blob by strings, and adds the property that its key declares. Returns `None` if nothing
/// changes. `bytes` are those that `root` was read from, and `first` is the line in their file where they begin.
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
    };
    let properties = root.field("properties");
    let listed = properties.into_iter().flat_map(Node::items);
    let listed = listed.filter(|property| {
        let type_ = property.field("type");
        type_.is_some_and(|type_| type_.is(MAX_PROPERTY))
    });
    let mut values = Vec::new();
    for value in listed.filter_map(|property| property.field("value")) {
        if value.kind() == Kind::Number {
            edits.quote(value);
        }
        values.push(string_of(value));
    }
    if let Some(value) = root.get(MAX_ANNOTATION) {
        let json = string_of(value);
        if value.kind() == Kind::Number {
            edits.report(value);
        }
        // The property may declare the same release in another form; two properties would declare nothing.
        let release = |json: &[u8]| maximum(&String::from_utf8_lossy(json)).ok();
        let is_same = |value: &Vec<u8>| {
            *value == json || release(value).is_some_and(|found| release(&json) == Some(found))
        };
        if !values.iter().any(is_same) {
            edits.add(root, properties, &json);
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

/// Insertions into a document, by their offset.
struct Edits<'a> {
    bytes: &'a [u8],
    first: usize,
    list: Vec<(usize, Vec<u8>)>,
    unquoted: Vec<Unquoted>,
}

impl Edits<'_> {
    fn quote(&mut self, number: Node<'_>) {
        let range = number.range();
        self.list.push((range.start, b"\"".to_vec()));
        self.list.push((range.end, b"\"".to_vec()));
        self.report(number);
    }

    fn report(&mut self, number: Node<'_>) {
        if self.unquoted.len() >= MAX_UNQUOTED {
            return;
        }
        let before = self.bytes.get(..number.range().start).unwrap_or_default();
        let mut read_as = Vec::new();
        number.sorted(&mut read_as);
        self.unquoted.push(Unquoted {
            line: self.first + memchr::memchr_iter(b'\n', before).count(),
            text: shortened(&String::from_utf8_lossy(number.raw()), MAX_DIGITS),
            read_as: shortened(&String::from_utf8_lossy(&read_as), MAX_DIGITS),
        });
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
        self.list.push((end.saturating_sub(1), text));
    }

    fn apply(mut self) -> Option<Normalized> {
        if self.list.is_empty() {
            return None;
        }
        self.list.sort_by_key(|(at, _)| *at);
        let added: usize = self.list.iter().map(|(_, text)| text.len()).sum();
        let mut bytes = Vec::with_capacity(self.bytes.len() + added);
        let mut from = 0;
        for (at, text) in &self.list {
            bytes.extend_from_slice(self.bytes.get(from..*at).unwrap_or_default());
            bytes.extend_from_slice(text);
            from = *at;
        }
        bytes.extend_from_slice(self.bytes.get(from..).unwrap_or_default());
        Some(Normalized {
            bytes,
            unquoted: self.unquoted,
        })
    }
}
