//! Go types of blobs and properties, for validation of values before they are read.
//!
//! opm decodes with `encoding/json`, which continues after a value of the wrong type and reports the first one, with
//! the full name of its field. A value is therefore validated before it is read, and the reader accepts all of its
//! content.

#[cfg(test)]
mod tests;
mod types;

use std::{borrow::Cow, collections::BTreeMap};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};

pub(crate) use self::types::{
    BASIC, BUNDLE, BUNDLE_OBJECT, CHANNEL, CHANNEL_PROPERTY, CONSTRAINT, CSV_METADATA, DEPRECATION,
    GVK, GVK_REQUIRED, PACKAGE, PACKAGE_PROPERTY, PACKAGE_REQUIRED, SEMVER, SUBSTITUTES,
};
use crate::json::{Kind, Node};

/// Maximum nesting depth. Only constraints nest to an arbitrary depth.
const MAX_DEPTH: usize = 64;

/// Type of a field. `null` is allowed for every type and leaves the field empty.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GoType {
    /// String of this Go type.
    Text(&'static str),
    /// Integer with this number of bits.
    Int(u32),
    /// `true` or `false`.
    Bool,
    /// Base64 data; [`base64`] checks its encoding.
    Bytes,
    /// Any JSON value.
    Raw,
    /// Object with string values.
    Texts,
    /// List of values of this type.
    List(&'static GoType),
    /// Object of this Go struct.
    Struct(&'static GoStruct),
}

/// A Go struct.
#[derive(Debug)]
pub(crate) struct GoStruct {
    /// Name with its package: `declcfg.Channel`.
    name: &'static str,
    fields: &'static [(&'static str, GoType)],
    /// True if unknown fields are errors.
    is_strict: bool,
}

/// A value of the wrong type. The name of its field is completed while the error is returned.
struct TypeMismatch {
    found: String,
    /// Expected Go type; `None` for an unknown field.
    expected: Option<String>,
    /// Name of the innermost struct.
    owner: Option<&'static str>,
    /// Names of the fields, the innermost first.
    path: Vec<&'static str>,
}

/// Checks that Go can decode a value into a struct.
///
/// # Errors
/// Returns Go's message: `json: cannot unmarshal number into Go struct field Channel.name of type string`.
pub(crate) fn check(value: Node<'_>, ty: &'static GoStruct) -> Result<(), String> {
    let type_ = GoType::Struct(ty);
    if find_mismatch(value, type_, Order::Declared, 0).is_none() {
        return Ok(());
    }
    // Blobs are stored with sorted keys, so the first error in sort order is reported; of equal keys, the last one is
    // used.
    match find_mismatch(value, type_, Order::Sorted, 0) {
        None => Ok(()),
        Some(mismatch) => Err(mismatch.to_string()),
    }
}

/// Returns a string field of a validated struct, or an empty string if it is absent.
pub(crate) fn text(value: Node<'_>, field: &str) -> String {
    type_name_of(value, field).into_owned()
}

/// Returns the same string as [`text`] without allocation.
pub(crate) fn type_name_of<'a>(value: Node<'a>, field: &str) -> Cow<'a, str> {
    let text = value.field(field).and_then(Node::text);
    text.unwrap_or_default()
}

/// Returns the items of a validated list field. `null` items are empty values.
pub(crate) fn list<'a>(value: Node<'a>, field: &str) -> impl Iterator<Item = Node<'a>> {
    value.field(field).into_iter().flat_map(Node::items)
}

/// Returns the value of a property. `null` is a value.
pub(crate) fn property_value(property: Node<'_>) -> Option<Node<'_>> {
    let value = property
        .entries()
        .filter(|(key, _)| key.equals_fold("value"));
    let value = value.last().map(|(_, value)| value);
    property.field("value").or(value)
}

/// Decodes base64. Line breaks and trailing bits are ignored.
///
/// # Errors
/// Returns Go's message with the position at which Go detects the error.
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
        let at = error_offset(text.as_bytes());
        format!("illegal base64 data at input byte {at}")
    })
}

/// Returns the data of an icon in canonical base64, or `None` if it is empty or malformed. As in opm, spaces are ignored.
pub(crate) fn icon_data(text: &str) -> Option<String> {
    let data = base64(&text.replace(' ', "")).ok()?;
    (!data.is_empty()).then(|| BASE64_STANDARD.encode(data))
}

/// Returns the position at which Go's decoder stops.
fn error_offset(text: &[u8]) -> usize {
    let is_break = |byte: u8| matches!(byte, b'\r' | b'\n');
    let mut digits = 0;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => digits += 1,
            _ if is_break(byte) => {}
            b'=' if digits % 4 >= 2 => {
                // Another padding character, or the end, must follow.
                let mut rest = (at + 1..).zip(text.get(at + 1..).unwrap_or_default());
                let mut next = || rest.find(|(_, byte)| !is_break(**byte));
                if digits % 4 == 2 {
                    match next() {
                        None => return text.len(),
                        Some((_, b'=')) => {}
                        Some((position, _)) => return position - 1,
                    }
                }
                return next().map_or(text.len(), |(position, _)| position);
            }
            _ => return at,
        }
    }
    text.len() - digits % 4
}

#[derive(Clone, Copy)]
enum Order {
    Declared,
    Sorted,
}

fn find_mismatch(value: Node<'_>, ty: GoType, order: Order, depth: usize) -> Option<TypeMismatch> {
    match (ty, value.kind()) {
        (_, Kind::Null)
        | (GoType::Raw, _)
        | (GoType::Text(_) | GoType::Bytes, Kind::String)
        | (GoType::Bool, Kind::Bool) => None,
        (GoType::Int(bits), Kind::Number) => {
            let number = value.number()?;
            let bound = 2_f64.powi(i32::try_from(bits).unwrap_or(0) - 1);
            let fits = number.fract() == 0.0 && (-bound..bound).contains(&number);
            (!fits).then(|| {
                let mut text = Vec::new();
                value.sorted(&mut text);
                TypeMismatch::new(format!("number {}", String::from_utf8_lossy(&text)), ty)
            })
        }
        (GoType::Texts, Kind::Object) => value
            .entries()
            .find_map(|(_, value)| find_mismatch(value, GoType::Text("string"), order, depth)),
        (GoType::List(ty), Kind::Array) => value
            .items()
            .find_map(|item| find_mismatch(item, *ty, order, depth)),
        (GoType::Struct(ty), Kind::Object) if depth < MAX_DEPTH => match order {
            Order::Declared => value
                .entries()
                .find_map(|(key, value)| ty.find_mismatch(key, value, order, depth)),
            Order::Sorted => {
                let entries = value.entries();
                let sorted: BTreeMap<_, _> = entries
                    .map(|entry| (entry.0.text().unwrap_or_default(), entry))
                    .collect();
                sorted
                    .into_values()
                    .find_map(|(key, value)| ty.find_mismatch(key, value, order, depth))
            }
        },
        (GoType::Struct(ty), Kind::Object) => Some(TypeMismatch {
            found: format!("json: {} nested deeper than {MAX_DEPTH} levels", ty.name),
            expected: None,
            owner: None,
            path: Vec::new(),
        }),
        (_, kind) => Some(TypeMismatch::new(kind.name().to_owned(), ty)),
    }
}

// === impl Struct ===

impl GoStruct {
    /// Finds a field of the wrong type.
    fn find_mismatch(
        &'static self,
        key: Node<'_>,
        value: Node<'_>,
        order: Order,
        depth: usize,
    ) -> Option<TypeMismatch> {
        let Some((name, type_)) = self.fields.iter().find(|(name, _)| key.equals_fold(name)) else {
            return self.is_strict.then(|| {
                let text: String = key.text().unwrap_or_default().chars().take(60).collect();
                TypeMismatch {
                    found: format!("json: unknown field {text:?}"),
                    expected: None,
                    owner: None,
                    path: Vec::new(),
                }
            });
        };
        let mut mismatch = find_mismatch(value, *type_, order, depth + 1)?;
        mismatch.owner.get_or_insert(self.name);
        mismatch.path.push(name);
        Some(mismatch)
    }
}

// === impl GoType ===

impl GoType {
    fn name(self) -> Cow<'static, str> {
        match self {
            Self::Text(name) => name.into(),
            Self::Int(64) => "int".into(),
            Self::Int(bits) => format!("int{bits}").into(),
            Self::Bool => "bool".into(),
            Self::Bytes => "[]uint8".into(),
            Self::Raw => "json.RawMessage".into(),
            Self::Texts => "map[string]string".into(),
            Self::List(ty) => format!("[]{}", ty.name()).into(),
            Self::Struct(ty) => ty.name.into(),
        }
    }
}

// === impl TypeMismatch ===

impl TypeMismatch {
    fn new(found: String, ty: GoType) -> Self {
        Self {
            found,
            expected: Some(ty.name().into_owned()),
            owner: None,
            path: Vec::new(),
        }
    }
}

impl std::fmt::Display for TypeMismatch {
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
