//! Properties: `{type, value}` pairs whose values keep the text they were written in.
//!
//! A value is JSON text, never a parsed number: YAML's `4.10` is 4.1 to every parser, and a bundle whose
//! `olm.maxOpenShiftVersion` turned from 4.10 to 4.1 blocks every cluster's upgrade.

use manifests::{content::Content, object::type_name, path::Path, yaml};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    code::Code,
    report::{Findings, Place},
};

/// A property or dependency.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Property {
    /// Such as `olm.maxOpenShiftVersion`.
    #[serde(rename = "type")]
    pub type_: String,
    /// JSON text, as it was written.
    pub value: Box<RawValue>,
}

impl PartialEq for Property {
    fn eq(&self, other: &Self) -> bool {
        self.type_ == other.type_ && self.value.get() == other.value.get()
    }
}

/// Reads the list of `properties.yaml` or `dependencies.yaml`; each entry with the place of its value.
pub(crate) fn read_file(
    content: &Content,
    file: &str,
    key: &str,
    list: &Value,
    findings: &mut Findings,
) -> (Vec<Property>, Vec<Place>) {
    let place = Place::file(file);
    let code = if key == "dependencies" {
        Code::Dependency
    } else {
        Code::Property
    };
    let Value::Array(list) = list else {
        findings.error(
            code,
            place.at(&Path::from([key])),
            format!("{key} is {}, not a list", type_name(list)),
            "write a list of `type` and `value`",
        );
        return Default::default();
    };
    let bytes = content.read(file).map(AsRef::as_ref).unwrap_or_default();
    let mut properties = Vec::with_capacity(list.len());
    let mut places = Vec::with_capacity(list.len());
    for (at, entry) in list.iter().enumerate() {
        let path = Path::from([key]).index(at);
        match entry.get("type").and_then(Value::as_str) {
            Some(type_) if !type_.is_empty() => {
                let path = path.key("value");
                let value = entry.get("value").unwrap_or(&Value::Null);
                match raw(value, bytes, &path, &place, findings) {
                    Some(value) => {
                        properties.push(Property {
                            type_: type_.to_owned(),
                            value,
                        });
                        places.push(place.at(&path));
                    }
                    None => findings.error(
                        code,
                        place.at(&path),
                        format!("{path} cannot be written as JSON"),
                        "quote it",
                    ),
                }
            }
            _ => findings.error(
                code,
                place.at(&path),
                format!("{path} has no type"),
                "write `type: …` and `value: …`",
            ),
        }
    }
    (properties, places)
}

/// Reads the JSON list of a CSV's `olm.properties` annotation; the texts of values stay as they are.
///
/// # Errors
/// When it is not a JSON list of objects with `type` and `value`.
pub(crate) fn parse_list(json: &str) -> Result<Vec<Property>, serde_json::Error> {
    serde_json::from_str(json)
}

/// The JSON text of a YAML value, in which every number keeps its spelling.
fn raw(
    value: &Value,
    bytes: &[u8],
    path: &Path,
    place: &Place,
    findings: &mut Findings,
) -> Option<Box<RawValue>> {
    let mut numbers = Vec::new();
    collect_numbers(value, path.clone(), &mut numbers);
    let mut spelt = Vec::with_capacity(numbers.len());
    if !numbers.is_empty() {
        let paths: Vec<Path> = numbers.iter().map(|(path, _)| path.clone()).collect();
        let located = yaml::locate_all(bytes, 0, &paths);
        for (at, ((path, number), location)) in numbers.iter().zip(located).enumerate() {
            let Some(text) = location
                .and_then(|location| location.scalar)
                .map(|scalar| scalar.text)
            else {
                continue;
            };
            findings.warn(
                Code::UnquotedNumber,
                place.at(path),
                format!("{path} is the unquoted number {text}; other tools read it as {number}"),
                &format!("write \"{text}\""),
            );
            // Only what JSON takes for a number can keep its text; `0x1F` or `1_000` cannot.
            if text != number.to_string()
                && serde_json::from_str::<serde_json::Number>(&text).is_ok()
            {
                spelt.push((at, text));
            }
        }
    }
    let mut out = String::new();
    write(value, &mut 0, &spelt, &mut out);
    RawValue::from_string(out).ok()
}

fn collect_numbers(value: &Value, path: Path, numbers: &mut Vec<(Path, serde_json::Number)>) {
    match value {
        Value::Number(number) => numbers.push((path, number.clone())),
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                collect_numbers(value, path.clone().index(at), numbers);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                collect_numbers(value, path.clone().key(key), numbers);
            }
        }
        _ => {}
    }
}

/// Writes compact JSON; the numbers listed in `spelt` (by their order of appearance) in their own spelling.
fn write(value: &Value, seen: &mut usize, spelt: &[(usize, String)], out: &mut String) {
    match value {
        Value::Number(number) => {
            match spelt.iter().find(|(at, _)| at == seen) {
                Some((_, text)) => out.push_str(text),
                None => out.push_str(&number.to_string()),
            }
            *seen += 1;
        }
        Value::Array(list) => {
            out.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(value, seen, spelt, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(value, seen, spelt, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// The JSON list as Go's encoder writes it: compact, `<`, `>` and `&` escaped.
pub(crate) fn to_annotation(properties: &[Property]) -> String {
    let mut out = String::from("[");
    for (at, property) in properties.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str("{\"type\":");
        out.push_str(&Value::from(property.type_.as_str()).to_string());
        out.push_str(",\"value\":");
        compact(property.value.get(), &mut out);
        out.push('}');
    }
    out.push(']');
    out.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// JSON without white space between its tokens; nothing else changes.
fn compact(json: &str, out: &mut String) {
    let (mut quoted, mut escaped) = (false, false);
    for c in json.chars() {
        if quoted {
            out.push(c);
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = false,
                _ => {}
            }
        } else if !c.is_ascii_whitespace() {
            quoted = c == '"';
            out.push(c);
        }
    }
}
