//! Go's types of blobs and properties, as far as decoding into them can fail.
//!
//! opm decodes with `encoding/json`, which goes on behind a value of another kind and tells the first of them, by the
//! full name of its field. So a value is looked at before it is read; what reads it afterwards takes what is there.

#[cfg(test)]
mod tests;
mod types;

use std::{borrow::Cow, collections::BTreeMap};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

pub(crate) use self::types::{
    BASIC, BUNDLE, BUNDLE_OBJECT, CHANNEL, CHANNEL_PROPERTY, CONSTRAINT, CSV_METADATA, DEPRECATION,
    GVK, GVK_REQUIRED, PACKAGE, PACKAGE_PROPERTY, PACKAGE_REQUIRED, SEMVER, SUBSTITUTES,
};
use crate::json::{Kind, Node};

/// Only constraints nest, as deep as their authors like.
const DEPTH: usize = 64;

/// What a field may hold; `null` leaves any of them empty.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Type {
    /// A text of this Go type.
    Text(&'static str),
    /// A whole number of so many bits.
    Int(u32),
    /// `true` or `false`.
    Bool,
    /// Base64; whether it is any is found by who decodes it ([`base64`]).
    Bytes,
    /// Whatever it is.
    Raw,
    /// Texts by name.
    Texts,
    /// A list.
    List(&'static Type),
    /// An object.
    Struct(&'static Struct),
}

/// A Go struct.
#[derive(Debug)]
pub(crate) struct Struct {
    /// With its package: `declcfg.Channel`.
    name: &'static str,
    fields: &'static [(&'static str, Type)],
    /// Whether a field that it does not have is an error.
    is_strict: bool,
}

/// A value that does not fit, on its way up to the name of its field.
struct Wrong {
    found: String,
    /// The Go type; none for a field that nobody knows.
    expected: Option<String>,
    /// The innermost struct.
    owner: Option<&'static str>,
    /// Fields, the innermost first.
    path: Vec<&'static str>,
}

/// Whether Go would decode a value into a struct.
///
/// # Errors
/// What it says otherwise: `json: cannot unmarshal number into Go struct field Channel.name of type string`.
pub(crate) fn check(value: Node<'_>, of: &'static Struct) -> Result<(), String> {
    let type_ = Type::Struct(of);
    if wrong(value, type_, Order::Written, 0).is_none() {
        return Ok(());
    }
    // Blobs are kept with sorted keys, so the first of them is the one to be told; of equal keys the last counts.
    match wrong(value, type_, Order::Sorted, 0) {
        None => Ok(()),
        Some(wrong) => Err(wrong.to_string()),
    }
}

/// A text of a struct that was checked; empty when there is none.
pub(crate) fn text(value: Node<'_>, field: &str) -> String {
    borrowed(value, field).into_owned()
}

/// As [`text`], without taking memory.
pub(crate) fn borrowed<'a>(value: Node<'a>, field: &str) -> Cow<'a, str> {
    let found = value.field(field).and_then(Node::text);
    found.unwrap_or_default()
}

/// The values of a list that was checked; a `null` among them is an empty one.
pub(crate) fn list<'a>(value: Node<'a>, field: &str) -> impl Iterator<Item = Node<'a>> {
    value.field(field).into_iter().flat_map(Node::items)
}

/// Returns the value of a property. `null` is a value.
pub(crate) fn property_value(property: Node<'_>) -> Option<Node<'_>> {
    let value = property.entries().filter(|(key, _)| key.folds_to("value"));
    let value = value.last().map(|(_, value)| value);
    property.field("value").or(value)
}

/// The bytes of a text in base64: line breaks do not count, nor bits that are left over.
///
/// # Errors
/// Go's text, with the place where Go notices it.
pub(crate) fn base64(text: &str) -> Result<Vec<u8>, String> {
    const BASE64: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let joined = if text.contains(['\r', '\n']) {
        Cow::Owned(text.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(text)
    };
    BASE64.decode(joined.as_bytes()).map_err(|_| {
        let at = corrupt(text.as_bytes());
        format!("illegal base64 data at input byte {at}")
    })
}

/// Where Go's decoder stops.
fn corrupt(text: &[u8]) -> usize {
    let is_break = |byte: u8| matches!(byte, b'\r' | b'\n');
    let mut digits = 0;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => digits += 1,
            _ if is_break(byte) => {}
            b'=' if digits % 4 >= 2 => {
                // What has to follow is another one, or nothing.
                let mut rest = (at + 1..).zip(text.get(at + 1..).unwrap_or_default());
                let mut next = || rest.find(|(_, byte)| !is_break(**byte));
                if digits % 4 == 2 {
                    match next() {
                        None => return text.len(),
                        Some((_, b'=')) => {}
                        Some((place, _)) => return place - 1,
                    }
                }
                return next().map_or(text.len(), |(place, _)| place);
            }
            _ => return at,
        }
    }
    text.len() - digits % 4
}

#[derive(Clone, Copy)]
enum Order {
    Written,
    Sorted,
}

fn wrong(value: Node<'_>, of: Type, order: Order, depth: usize) -> Option<Wrong> {
    match (of, value.kind()) {
        (_, Kind::Null)
        | (Type::Raw, _)
        | (Type::Text(_) | Type::Bytes, Kind::String)
        | (Type::Bool, Kind::Bool) => None,
        (Type::Int(bits), Kind::Number) => {
            let number = value.number()?;
            let bound = 2_f64.powi(i32::try_from(bits).unwrap_or(0) - 1);
            let fits = number.fract() == 0.0 && (-bound..bound).contains(&number);
            (!fits).then(|| {
                let mut text = Vec::new();
                value.sorted(&mut text);
                Wrong::new(format!("number {}", String::from_utf8_lossy(&text)), of)
            })
        }
        (Type::Texts, Kind::Object) => value
            .entries()
            .find_map(|(_, value)| wrong(value, Type::Text("string"), order, depth)),
        (Type::List(of), Kind::Array) => value.items().find_map(|it| wrong(it, *of, order, depth)),
        (Type::Struct(of), Kind::Object) if depth < DEPTH => match order {
            Order::Written => value
                .entries()
                .find_map(|(key, value)| of.wrong(key, value, order, depth)),
            Order::Sorted => {
                let entries = value.entries();
                let sorted: BTreeMap<_, _> = entries
                    .map(|it| (it.0.text().unwrap_or_default(), it))
                    .collect();
                sorted
                    .into_values()
                    .find_map(|(key, value)| of.wrong(key, value, order, depth))
            }
        },
        (Type::Struct(of), Kind::Object) => Some(Wrong {
            found: format!("json: {} nested deeper than {DEPTH} levels", of.name),
            expected: None,
            owner: None,
            path: Vec::new(),
        }),
        (_, kind) => Some(Wrong::new(kind.name().to_owned(), of)),
    }
}

// === impl Struct ===

impl Struct {
    /// What is wrong with one of its fields.
    fn wrong(
        &'static self,
        key: Node<'_>,
        value: Node<'_>,
        order: Order,
        depth: usize,
    ) -> Option<Wrong> {
        let Some((name, type_)) = self.fields.iter().find(|(name, _)| key.folds_to(name)) else {
            return self.is_strict.then(|| {
                let text: String = key.text().unwrap_or_default().chars().take(60).collect();
                Wrong {
                    found: format!("json: unknown field {text:?}"),
                    expected: None,
                    owner: None,
                    path: Vec::new(),
                }
            });
        };
        let mut wrong = wrong(value, *type_, order, depth + 1)?;
        wrong.owner.get_or_insert(self.name);
        wrong.path.push(name);
        Some(wrong)
    }
}

// === impl Type ===

impl Type {
    fn name(self) -> Cow<'static, str> {
        match self {
            Self::Text(name) => name.into(),
            Self::Int(64) => "int".into(),
            Self::Int(bits) => format!("int{bits}").into(),
            Self::Bool => "bool".into(),
            Self::Bytes => "[]uint8".into(),
            Self::Raw => "json.RawMessage".into(),
            Self::Texts => "map[string]string".into(),
            Self::List(of) => format!("[]{}", of.name()).into(),
            Self::Struct(of) => of.name.into(),
        }
    }
}

// === impl Wrong ===

impl Wrong {
    fn new(found: String, of: Type) -> Self {
        Self {
            found,
            expected: Some(of.name().into_owned()),
            owner: None,
            path: Vec::new(),
        }
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(expected) = &self.expected else {
            return f.write_str(&self.found);
        };
        write!(f, "json: cannot unmarshal {} into Go ", self.found)?;
        match self.owner {
            None => f.write_str("value")?,
            Some(owner) => {
                let owner = owner.rsplit('.').next().unwrap_or(owner);
                write!(f, "struct field {owner}")?;
                for field in self.path.iter().rev() {
                    write!(f, ".{field}")?;
                }
            }
        }
        write!(f, " of type {expected}")
    }
}
