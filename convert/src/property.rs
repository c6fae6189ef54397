//! Properties: `{type, value}` pairs whose values keep the text they were written in.
//!
//! A value is JSON text, never a parsed number: YAML's `4.10` is 4.1 to every parser, and a bundle whose
//! `olm.maxOpenShiftVersion` turned from 4.10 to 4.1 blocks every cluster's upgrade.

use manifests::{content::Content, object::type_name, path::Path, yaml};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, value::RawValue};

use crate::{
    budget::MAX_ANNOTATIONS,
    code::Code,
    report::{Findings, Level, Place},
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
    // Properties become part of the pods' annotations; dependencies are the catalogs' business, and converting goes on.
    let (code, level) = if key == "dependencies" {
        (Code::Dependency, Level::Warning)
    } else {
        (Code::Property, Level::Error)
    };
    let Value::Array(list) = list else {
        findings.add(
            level,
            code,
            Some(place.at(&Path::from([key]))),
            format!("{key} is {}, not a list", type_name(list)),
            "write a list of `type` and `value`",
        );
        return Default::default();
    };
    let bytes = content.read(file).map(AsRef::as_ref).unwrap_or_default();
    let mut entries = Vec::with_capacity(list.len());
    for (at, entry) in list.iter().enumerate() {
        let path = Path::from([key]).index(at);
        match entry.get("type").and_then(Value::as_str) {
            Some(type_) if !type_.is_empty() => {
                let value = entry.get("value").unwrap_or(&Value::Null);
                entries.push((type_, path.key("value"), value));
            }
            _ => findings.add(
                level,
                code,
                Some(place.at(&path)),
                format!("{path} has no type"),
                "write `type: …` and `value: …`",
            ),
        }
    }
    let mut numbers = Vec::new();
    for (_, path, value) in &entries {
        collect_numbers(value, path.clone(), &mut numbers);
    }
    let mut spelt = spellings(numbers, bytes, &place, findings).into_iter();
    let mut properties = Vec::with_capacity(entries.len());
    let mut places = Vec::with_capacity(entries.len());
    for (type_, path, value) in entries {
        let mut json = String::new();
        write(value, &mut spelt, &mut json);
        match RawValue::from_string(json) {
            Ok(value) => {
                properties.push(Property {
                    type_: type_.to_owned(),
                    value,
                });
                places.push(place.at(&path));
            }
            Err(_) => findings.add(
                level,
                code,
                Some(place.at(&path)),
                format!("{path} cannot be written as JSON"),
                "quote it",
            ),
        }
    }
    (properties, places)
}

/// Reads the JSON list of a CSV's `olm.properties` annotation; the texts of values stay as they are.
///
/// # Errors
/// Returns an error if the text is not a JSON list of objects with `type` and `value`, or longer than an annotation can be.
pub(crate) fn parse_list(json: &str) -> Result<Vec<Property>, String> {
    if json.len() > MAX_ANNOTATIONS {
        let length = json.len();
        return Err(format!(
            "it has {length} bytes, and all annotations of an object together at most {MAX_ANNOTATIONS}"
        ));
    }
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// How numbers of a file were written, each of which is worth a word; `None` where JSON cannot say it so.
fn spellings(
    numbers: Vec<(Path, Number)>,
    bytes: &[u8],
    place: &Place,
    findings: &mut Findings,
) -> Vec<Option<String>> {
    let (paths, numbers): (Vec<_>, Vec<_>) = numbers.into_iter().unzip();
    let written = yaml::written_all(bytes, 0, &paths);
    let mut spelt = Vec::with_capacity(numbers.len());
    for ((path, number), written) in paths.iter().zip(numbers).zip(written) {
        let text = written.map(|written| written.text);
        if let Some(text) = &text {
            findings.warn(
                Code::UnquotedNumber,
                place.at(path),
                format!("{path} is the unquoted number {text}; other tools read it as {number}"),
                &format!("write \"{text}\""),
            );
        }
        // `0x1F` and `1_000` are no numbers in JSON.
        spelt.push(text.filter(|text| serde_json::from_str::<Number>(text).is_ok()));
    }
    spelt
}

fn collect_numbers(value: &Value, path: Path, numbers: &mut Vec<(Path, Number)>) {
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

/// Writes compact JSON; each number takes the next spelling, or its own where there is none.
fn write(value: &Value, spelt: &mut impl Iterator<Item = Option<String>>, out: &mut String) {
    match value {
        Value::Number(number) => match spelt.next().flatten() {
            Some(text) => out.push_str(&text),
            None => out.push_str(&number.to_string()),
        },
        Value::Array(list) => {
            out.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(value, spelt, out);
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
                write(value, spelt, out);
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

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use manifests::content::{Builder, Limits};

    use super::*;

    #[test]
    fn each_number_of_a_long_list_keeps_its_own_spelling() {
        let mut text = "properties:\n".to_owned();
        for at in 0..4000 {
            writeln!(text, "- type: t\n  value: [{at}.10, {at}.0, 0x{at}]").unwrap();
            writeln!(text, "- value: {at}.20").unwrap();
        }
        let mut files = Builder::new(Limits::default());
        files
            .add("metadata/a.yaml", 0o644, &mut text.as_bytes())
            .unwrap();
        let mut document = yaml::documents(text.as_bytes()).next().unwrap().unwrap();
        let list = document["properties"].take();
        let content = files.finish();
        let (properties, places) = read_file(
            &content,
            "metadata/a.yaml",
            "properties",
            &list,
            &mut Findings::default(),
        );
        assert_eq!((properties.len(), places.len()), (4000, 4000));
        for (at, property) in properties.iter().enumerate() {
            let hex = usize::from_str_radix(&at.to_string(), 16).unwrap();
            assert_eq!(property.value.get(), format!("[{at}.10,{at}.0,{hex}]"));
        }
    }
}
