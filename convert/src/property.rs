//! Properties: `{type, value}` pairs that preserve the original text of the values.
//!
//! A value is JSON text, never a parsed number. All YAML parsers read `4.10` as 4.1, and a bundle whose
//! `olm.maxOpenShiftVersion` changed from 4.10 to 4.1 would block the upgrade of every cluster.

use std::collections::BTreeMap;

use manifests::content::{Content, MetadataMatch};
use manifests::object::type_name;
use manifests::openshift::{MAX_PROPERTY, Unquoted, properties};
use manifests::path::{Path, Step};
use manifests::version_range::Range;
use manifests::{version, yaml};
use serde::Serialize;
use serde_json::{Number, Value, value::RawValue};

use crate::{
    budget::MAX_ANNOTATIONS,
    finding::{Findings, Level, Location, code::Code},
};

/// Maximum size of the paths of all unquoted numbers in a file, in bytes.
const MAX_PATHS: usize = 2 << 20;

/// A property or dependency.
#[derive(Debug, Clone, Serialize)]
pub struct Property {
    /// Type of the property, such as `olm.maxOpenShiftVersion`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Original JSON text of the value.
    pub value: Box<RawValue>,
}

impl PartialEq for Property {
    fn eq(&self, other: &Self) -> bool {
        self.type_ == other.type_ && self.value.get() == other.value.get()
    }
}

/// The entries of `properties.yaml` or `dependencies.yaml`.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) entries: Vec<Property>,
    /// The places of the values.
    pub(crate) places: Vec<Location>,
    /// The max OpenShift versions that are numbers, by index.
    pub(crate) unquoted: BTreeMap<usize, Unquoted>,
}

/// Reads the list of `properties.yaml` or `dependencies.yaml`.
pub(crate) fn read_file(
    content: &Content,
    key: &str,
    found: &MetadataMatch,
    findings: &mut Findings,
) -> Listed {
    let (place, name) = (Location::file(&*found.file), found.key.as_str());
    // Properties become part of the pods' annotations. Dependencies only affect catalogs, so conversion continues.
    let (code, level) = if key == "dependencies" {
        (Code::Dependency, Level::Warning)
    } else {
        (Code::Property, Level::Error)
    };
    let Value::Array(list) = &found.value else {
        findings.add(
            level,
            code,
            Some(place.at(&Path::from([name]))),
            format!("{name} is {}, not a list", type_name(&found.value)),
            "use a list of objects with `type` and `value`",
        );
        return Listed::default();
    };
    let bytes = content
        .read(&found.file)
        .map(AsRef::as_ref)
        .unwrap_or_default();
    let mut entries = Vec::with_capacity(list.len());
    for (at, entry) in list.iter().enumerate() {
        let path = Path::from([name]).index(at);
        let type_ = field(entry, "type").and_then(|(_, type_)| type_.as_str());
        match type_ {
            Some(type_) if !type_.is_empty() => {
                let (name, value) = field(entry, "value").unwrap_or(("value", &Value::Null));
                entries.push((type_, path.key(name), value));
            }
            _ => findings.add(
                level,
                code,
                Some(place.at(&path)),
                format!("{path} has no type"),
                "set `type: …` and `value: …`",
            ),
        }
    }
    let mut numbers = Numbers::default();
    for (type_, path, value) in &entries {
        numbers.collect(type_, value, &mut path.steps().to_vec());
    }
    let Some(numbers) = numbers.into_numbers() else {
        findings.add(
            level,
            Code::TooMany,
            Some(place),
            format!("the paths of the unquoted numbers in {key} have more than {MAX_PATHS} bytes"),
            "put the numbers in quotes",
        );
        return Listed::default();
    };
    let mut spellings = number_spellings(numbers, key, bytes, &place, findings).into_iter();
    let mut listed = Listed::default();
    for (type_, path, value) in entries {
        let mut json = String::new();
        if type_ == MAX_PROPERTY && value.is_number() {
            let spelling = spellings.next().flatten();
            let number = Unquoted::new(&spelling.unwrap_or_else(|| value.to_string()));
            // `0x48` and `+4.8` are not JSON numbers.
            json = if is_number(number.spelling()) {
                number.spelling().to_owned()
            } else {
                number.to_json()
            };
            listed.unquoted.insert(listed.entries.len(), number);
        } else {
            write(value, &mut spellings, &mut json);
        }
        match RawValue::from_string(json) {
            Ok(value) => {
                listed.entries.push(Property {
                    type_: type_.to_owned(),
                    value,
                });
                listed.places.push(place.at(&path));
            }
            Err(_) => findings.add(
                level,
                code,
                Some(place.at(&path)),
                format!("{path} cannot be written as JSON"),
                "put the value in quotes",
            ),
        }
    }
    listed
}

/// Returns a field of an entry, with the spelling of its name. As in Go, names are case-insensitive, and the last one in
/// sorted order is used.
fn field<'v>(entry: &'v Value, name: &str) -> Option<(&'v str, &'v Value)> {
    let mut fields = entry.as_object()?.iter();
    let (name, value) = fields.rfind(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some((name, value))
}

/// Parses the JSON list of a CSV's `olm.properties` annotation like Go, preserving the text of the values.
///
/// # Errors
/// Returns an error if the text is not a JSON list of objects, or exceeds the maximum length of an annotation.
pub(crate) fn parse_list(json: &str) -> Result<Vec<Property>, String> {
    if json.len() > MAX_ANNOTATIONS {
        let length = json.len();
        return Err(format!(
            "its size of {length} bytes exceeds the limit of {MAX_ANNOTATIONS} bytes for all annotations of an object"
        ));
    }
    let list = properties::parse_list(json).map_err(|error| error.to_string())?;
    let list = list.into_iter().map(|property| Property {
        type_: property.type_,
        value: property.value.unwrap_or_else(|| RawValue::NULL.to_owned()),
    });
    Ok(list.collect())
}

/// Returns the spellings of numbers in a file, and warns about each. `key` is the key of the list.
fn number_spellings(
    numbers: Vec<(&str, Path, Number)>,
    key: &str,
    bytes: &[u8],
    place: &Location,
    findings: &mut Findings,
) -> Vec<Option<String>> {
    let mut types = Vec::with_capacity(numbers.len());
    let mut paths = Vec::with_capacity(numbers.len());
    for (type_, path, number) in numbers {
        types.push((type_, number));
        paths.push(path);
    }
    let scalars = yaml::written_all(bytes, 0, &paths);
    let mut spellings = Vec::with_capacity(paths.len());
    for ((path, (type_, number)), scalar) in paths.iter().zip(types).zip(scalars) {
        let text = scalar.map(|scalar| scalar.text);
        if let Some(text) = &text {
            let is_value = path.steps().len() == 3;
            let (message, remedy) = if type_ == MAX_PROPERTY && is_value {
                let number = Unquoted::new(text);
                (number.message(&path.to_string()), number.remedy())
            } else {
                let message = format!(
                    "{path} is the unquoted number {text}; other programs read it as {number}"
                );
                (message, remedy(key, type_, path, text))
            };
            findings.warn(Code::UnquotedNumber, place.at(path), message, &remedy);
        }
        spellings.push(text);
    }
    spellings
}

/// Returns the remedy for a number in place of a string: the quoted number, unless OLM also rejects that.
fn remedy(list: &str, type_: &str, path: &Path, text: &str) -> String {
    let field = match path.steps().last() {
        Some(Step::Key(field)) => field.as_str(),
        _ => "",
    };
    let is_range = field == "versionRange" || (list, field) == ("dependencies", "version");
    match type_ {
        "olm.package"
            if !is_range && field == "version" && version::parse_strict(text).is_err() =>
        {
            "use a version such as \"1.0.0\"".to_owned()
        }
        "olm.package" | "olm.package.required" | "olm.constraint"
            if is_range && Range::parse(text).is_err() =>
        {
            "use a range such as \">=1.0.0 <2.0.0\"".to_owned()
        }
        MAX_PROPERTY => "use a string such as \"4.16\"".to_owned(),
        _ => format!("use \"{text}\""),
    }
}

fn is_number(json: &str) -> bool {
    serde_json::from_str::<Number>(json).is_ok()
}

/// Unquoted numbers in values, each with its own path. Their number is limited, because long keys above many numbers would
/// take gigabytes.
#[derive(Default)]
struct Numbers<'v> {
    numbers: Vec<(&'v str, Path, Number)>,
    /// Size of all paths in bytes.
    size: usize,
}

impl<'v> Numbers<'v> {
    /// Adds the numbers in a value of an entry with this type; `steps` is the path of the value.
    fn collect(&mut self, type_: &'v str, value: &Value, steps: &mut Vec<Step>) {
        if self.size > MAX_PATHS {
            return;
        }
        match value {
            Value::Number(number) => {
                let len = |step: &Step| match step {
                    Step::Key(key) => key.len(),
                    Step::Index(_) => 0,
                };
                self.size += (steps.iter())
                    .map(|step| size_of::<Step>() + len(step))
                    .sum::<usize>();
                if self.size <= MAX_PATHS {
                    let path = Path::from(steps.clone());
                    self.numbers.push((type_, path, number.clone()));
                }
            }
            Value::Array(list) => {
                for (at, value) in list.iter().enumerate() {
                    steps.push(Step::Index(at));
                    self.collect(type_, value, steps);
                    steps.pop();
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    steps.push(Step::Key(key.clone()));
                    self.collect(type_, value, steps);
                    steps.pop();
                }
            }
            _ => {}
        }
    }

    /// Returns the numbers, or `None` if their paths exceed [`MAX_PATHS`].
    fn into_numbers(self) -> Option<Vec<(&'v str, Path, Number)>> {
        (self.size <= MAX_PATHS).then_some(self.numbers)
    }
}

/// Writes compact JSON. Each number takes the next spelling if that is valid JSON, otherwise its own.
fn write(value: &Value, spellings: &mut impl Iterator<Item = Option<String>>, out: &mut String) {
    match value {
        Value::Number(number) => match spellings.next().flatten().filter(|text| is_number(text)) {
            Some(text) => out.push_str(&text),
            None => out.push_str(&number.to_string()),
        },
        Value::Array(list) => {
            out.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(value, spellings, out);
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
                write(value, spellings, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// Formats the list as JSON like Go's encoder: compact, with `<`, `>` and `&` escaped.
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

/// Removes white space between JSON tokens; all other text is unchanged.
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

    use super::*;
    use crate::testing::content;

    #[test]
    fn each_number_of_a_long_list_keeps_its_own_spelling() {
        let mut text = "properties:\n".to_owned();
        for at in 0..4000 {
            let list = format!("[{at}.10, {at}.0, 0x{at}]");
            writeln!(text, "- type: t\n  value: {list}\n- value: {at}.20").unwrap();
        }
        let (listed, _) = read_text("properties", &text);
        assert_eq!((listed.entries.len(), listed.places.len()), (4000, 4000));
        for (at, property) in listed.entries.iter().enumerate() {
            let hex = usize::from_str_radix(&at.to_string(), 16).unwrap();
            assert_eq!(property.value.get(), format!("[{at}.10,{at}.0,{hex}]"));
        }
    }

    #[test]
    fn paths_of_numbers_are_bounded() {
        let long = "k".repeat(200_000);
        let numbers = vec!["1"; 8000].join(",");
        for (value, is_accepted) in ::tests::rows![
            format!("{{? {long} : [{numbers}]}}") => false;
            format!("{{? {long} : [1, 2]}}") => true;
            format!("[{numbers}]") => true;
            ["{k: ".repeat(400), "[".into(), vec!["1"; 500].join(","), "]".into(), "}".repeat(400)].concat() => false;
        ] {
            for key in ["properties", "dependencies"] {
                let (listed, remedies) = read(key, &format!("{{type: a, value: {value}}}"));
                assert_eq!(listed.entries.len(), usize::from(is_accepted), "{key}");
                assert_rows!(remedies == ["put the numbers in quotes"] => !is_accepted, "{key}");
            }
        }
    }

    /// Reads a file with one entry.
    fn read(key: &str, entry: &str) -> (Listed, Vec<String>) {
        read_text(key, &format!("{key}:\n- {entry}\n"))
    }

    /// Returns the properties of a file, and the remedies of the findings.
    fn read_text(name: &str, text: &str) -> (Listed, Vec<String>) {
        let file = "metadata/a.yaml".to_owned();
        let content = content([(&*file, text)]);
        let mut document = yaml::documents(text.as_bytes()).next().unwrap().unwrap();
        let (key, value) = (name.to_owned(), document[name].take());
        let (found, mut findings) = (MetadataMatch { file, key, value }, Findings::default());
        let listed = read_file(&content, name, &found, &mut findings);
        let findings = findings.finish().into_iter();
        let remedies = findings.filter_map(|finding| finding.remedy);
        (listed, remedies.collect())
    }

    #[test]
    fn advised_values_are_valid() {
        let max = "use a string such as \"4.16\"";
        let version = "use a version such as \"1.0.0\"";
        let range = "use a range such as \">=1.0.0 <2.0.0\"";
        assert_each!(|key, entry, remedy| read(key, entry).1 => [remedy];
            "properties", "{type: olm.maxOpenShiftVersion, value: 4.10}" => "use \"4.10\"";
            "properties", "{type: olm.maxOpenShiftVersion, value: 4}" => max;
            "properties", "{type: olm.maxOpenShiftVersion, value: +4.8}" => max;
            "properties", "{type: olm.maxOpenShiftVersion, value: [4.8]}" => max;
            "properties", "{type: olm.package, value: {packageName: 7}}" => "use \"7\"";
            "properties", "{type: olm.package, value: {version: 1.0}}" => version;
            "dependencies", "{type: olm.package, value: {version: 1.0}}" => range;
            "properties", "{type: olm.package.required, value: {versionRange: 1.0}}" => range;
            "properties", "{type: olm.gvk, value: {version: 1}}" => "use \"1\"";
            "properties", "{type: other, value: 1.0}" => "use \"1.0\"";
        );
    }

    #[test]
    fn field_names_ignore_case() {
        let (listed, remedies) = read("properties", "{Type: a, VALUE: 4.10}");
        assert_eq!(listed.entries[0].type_, "a");
        assert_eq!(listed.entries[0].value.get(), "4.10");
        assert_eq!(listed.places[0].path.to_string(), "properties[0].VALUE");
        assert_eq!(remedies, ["use \"4.10\""]);
        let list = r#"[{"Type": "a", "type": "b", "Value": 4.10}, {"type": "c"}]"#;
        let list = parse_list(list).unwrap().into_iter();
        let list = list.map(|property| format!("{}={}", property.type_, property.value.get()));
        assert_eq!(list.collect::<Vec<_>>(), ["b=4.10", "c=null"]);
    }
}
