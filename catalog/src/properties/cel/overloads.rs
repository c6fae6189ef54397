//! Functions of CEL's standard library and of OLM.

use std::{collections::HashMap, sync::LazyLock};

use super::types::CelType;

/// Names of types.
pub(super) const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// Names of messages without the prefix `google.protobuf.`.
pub(super) const MESSAGES: [&str; 15] = [
    "Any",
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "Duration",
    "Empty",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "ListValue",
    "StringValue",
    "Struct",
    "Timestamp",
    "UInt32Value",
    "UInt64Value",
];

/// Functions as `parameters:result`, with a letter for each type: `b`ool, `i`nt, `u`int, `d`ouble, `s`tring, b`y`tes,
/// `D`uration, `T`imestamp, `t`ype, `*` for any type, `A` and `B` for type variables, `[A` for a list, `{AB` for a map.
/// A leading dot marks a method.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("_?_:_", &["bAA:A"]),
    ("_&&_", &["bb:b"]),
    ("_||_", &["bb:b"]),
    ("!_", &["b:b"]),
    ("_==_", &["AA:b"]),
    ("_!=_", &["AA:b"]),
    ("_<_", ORDERED),
    ("_<=_", ORDERED),
    ("_>_", ORDERED),
    ("_>=_", ORDERED),
    ("@in", &["A[A:b", "A{AB:b"]),
    ("_[_]", &["[Ai:A", "{ABA:B"]),
    (
        "_+_",
        &[
            "ii:i", "uu:u", "dd:d", "ss:s", "yy:y", "[A[A:[A", "DD:D", "TD:T", "DT:T",
        ],
    ),
    ("_-_", &["ii:i", "uu:u", "dd:d", "DD:D", "TD:T", "TT:D"]),
    ("_*_", NUMBERS),
    ("_/_", NUMBERS),
    ("_%_", &["ii:i", "uu:u"]),
    ("-_", &["i:i", "d:d"]),
    (
        "size",
        &[
            "s:i", "y:i", "[A:i", "{AB:i", ".s:i", ".y:i", ".[A:i", ".{AB:i",
        ],
    ),
    ("bool", &["b:b", "s:b"]),
    ("bytes", &["y:y", "s:y"]),
    ("double", &["d:d", "i:d", "u:d", "s:d"]),
    ("duration", &["D:D", "s:D", "i:D"]),
    ("dyn", &["A:*"]),
    ("int", &["i:i", "u:i", "d:i", "s:i", "T:i", "D:i"]),
    (
        "string",
        &["s:s", "b:s", "i:s", "u:s", "d:s", "y:s", "T:s", "D:s"],
    ),
    ("timestamp", &["T:T", "s:T", "i:T"]),
    ("type", &["A:t"]),
    ("uint", &["u:u", "i:u", "d:u", "s:u"]),
    ("contains", &[".ss:b"]),
    ("endsWith", &[".ss:b"]),
    ("startsWith", &[".ss:b"]),
    ("matches", &["ss:b", ".ss:b"]),
    ("getDate", DATE),
    ("getDayOfMonth", DATE),
    ("getDayOfWeek", DATE),
    ("getDayOfYear", DATE),
    ("getFullYear", DATE),
    ("getMonth", DATE),
    ("getHours", TIME),
    ("getMinutes", TIME),
    ("getSeconds", TIME),
    ("getMilliseconds", TIME),
    ("semver_compare", &["**:i"]),
];
const ORDERED: &[&str] = &[
    "bb:b", "ii:b", "uu:b", "dd:b", "ss:b", "yy:b", "TT:b", "DD:b",
];
const NUMBERS: &[&str] = &["ii:i", "uu:u", "dd:d"];
const DATE: &[&str] = &[".T:i", ".Ts:i"];
const TIME: &[&str] = &[".T:i", ".Ts:i", ".D:i"];

/// One overload of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) is_method: bool,
    pub(super) parameters: Vec<CelType>,
    pub(super) result: CelType,
}

/// Parsed overloads of all functions.
static OVERLOADS: LazyLock<HashMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    let read = |texts: &[&str]| texts.iter().filter_map(|text| overload(text)).collect();
    let all = FUNCTIONS.iter().map(|(name, texts)| (*name, read(texts)));
    all.collect()
});

/// Returns the overloads of a function; empty for an unknown function.
pub(super) fn overloads(name: &str) -> &'static [Overload] {
    OVERLOADS.get(name).map_or(&[], Vec::as_slice)
}

fn overload(text: &str) -> Option<Overload> {
    let bare = text.strip_prefix('.');
    let mut letters = bare.unwrap_or(text).chars().peekable();
    let mut parameters = Vec::new();
    while letters.next_if_eq(&':').is_none() {
        parameters.push(kind(&mut letters)?);
    }
    Some(Overload {
        is_method: bare.is_some(),
        parameters,
        result: kind(&mut letters)?,
    })
}

fn kind(letters: &mut impl Iterator<Item = char>) -> Option<CelType> {
    Some(match letters.next()? {
        'b' => CelType::Bool,
        'i' => CelType::Int,
        'u' => CelType::Uint,
        'd' => CelType::Double,
        's' => CelType::Text,
        'y' => CelType::Bytes,
        'D' => CelType::Duration,
        'T' => CelType::Timestamp,
        't' => CelType::Type,
        '*' => CelType::Dyn,
        'A' => CelType::Variable(0),
        'B' => CelType::Variable(1),
        '[' => CelType::list(kind(letters)?),
        '{' => {
            let key = kind(letters)?;
            CelType::map(key, kind(letters)?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_parses() {
        for (name, texts) in FUNCTIONS {
            assert_eq!(overloads(name).len(), texts.len(), "{name}");
        }
        assert!(overloads("nothing").is_empty());
    }
}
