//! Reader of the directory `metadata`: annotations, dependencies and properties of a bundle. The names of the files do
//! not matter.

use manifests::{
    content::{Content, field_name, is_named_after},
    object::type_name,
    openshift::{MAX_PROPERTY, Unquoted},
    path::Path,
    yaml,
};
use serde_json::{Number, Value};

use super::{
    super::{Error, blob::Property, json},
    manifests_dir::first,
};
use crate::json::Tape;

const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const OTHERS: [&str; 2] = [
    "operators.operatorframework.io.bundle.channels.v1",
    "operators.operatorframework.io.bundle.channel.default.v1",
];

/// Keys of the lists in `metadata/`. By convention, each is in a file of the same name.
const KEYS: [&str; 3] = ["annotations", "dependencies", "properties"];

/// Maximum number of values in a file of properties or dependencies.
const MAX_VALUES: usize = 1_000_000;

/// Content of the directory `metadata`.
pub(super) struct Metadata {
    pub(super) package: String,
    pub(super) dependencies: Vec<Property>,
    pub(super) properties: Vec<Property>,
}

pub(super) fn read(
    content: &Content,
    limits: &mut yaml::Limits,
    warnings: &mut Vec<String>,
) -> Result<Metadata, Error> {
    let (mut package, mut dependencies, mut properties) = (None, None, None);
    for (name, file) in content.dir("metadata") {
        if name.contains('/') {
            continue;
        }
        let Ok((value, more)) = first(&file.bytes, limits) else {
            warnings.push(format!(
                "failed to decode: metadata/{name}; the file is skipped"
            ));
            continue;
        };
        let before = [
            package.is_some(),
            dependencies.is_some(),
            properties.is_some(),
        ];
        package = package.or_else(|| annotated_package(&value));
        let mut read = |key| {
            let entries = list(&value, key, &file.bytes, warnings);
            entries.unwrap_or_else(|problem| {
                warnings.push(format!(
                    "metadata/{name}: {problem}; opm ignores the whole list; use a list of entries with `type` and `value`"
                ));
                None
            })
        };
        dependencies = dependencies.or_else(|| read("dependencies"));
        properties = properties.or_else(|| read("properties"));
        let after = [
            package.is_some(),
            dependencies.is_some(),
            properties.is_some(),
        ];
        let is_expected = KEYS.iter().any(|key| is_named_after(name, key));
        if more && (after != before || is_expected) {
            warnings.push(format!(
                "found more than one document inside metadata/{name}, using only the first one"
            ));
        }
    }
    Ok(Metadata {
        package: package.ok_or(Error::NoAnnotations)?,
        dependencies: dependencies.unwrap_or_default(),
        properties: properties.unwrap_or_default(),
    })
}

fn is_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

/// Returns the package if the annotations contain at least one that opm recognizes.
fn annotated_package(value: &Value) -> Option<String> {
    let annotations = field(value, "annotations")?.as_object()?;
    let annotations = Value::Object(annotations.clone());
    let read = |key| match field(&annotations, key) {
        None => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        // Go's YAML decoder converts numbers to strings where a string is expected. opm reads a JSON file with such values as YAML.
        Some(other @ (Value::Number(_) | Value::Bool(_))) => Some(other.to_string()),
        Some(_) => None,
    };
    let package = read(PACKAGE)?;
    let others = OTHERS.map(read);
    let mut has_value = !package.is_empty();
    for other in others {
        has_value |= !other?.is_empty();
    }
    has_value.then_some(package)
}

/// Returns the entries of a list with `type` and `value`, or `None` if the list is absent or empty.
///
/// # Errors
/// Returns the problem because of which Go cannot decode the list; opm then ignores the list.
fn list(
    value: &Value,
    key: &str,
    bytes: &[u8],
    warnings: &mut Vec<String>,
) -> Result<Option<Vec<Property>>, String> {
    let (name, items) = match named(value, key) {
        None => return Ok(None),
        Some((name, Value::Array(items))) => (name, items),
        Some((name, other)) => return Err(format!("{name} is {}", type_name(other))),
    };
    let mut is_json = is_json(bytes);
    let mut list = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        if !matches!(item, Value::Object(_) | Value::Null) {
            return Err(format!("{name}[{at}] is {}", type_name(item)));
        }
        let type_ = match field(item, "type") {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other @ (Value::Number(_) | Value::Bool(_))) => {
                is_json = false;
                other.to_string()
            }
            Some(other) => {
                return Err(format!("the type of {name}[{at}] is {}", type_name(other)));
            }
        };
        let mut written = Vec::new();
        json::value(field(item, "value").unwrap_or(&Value::Null), &mut written);
        // YAML is converted to JSON, which escapes the special characters of HTML.
        list.push(Property {
            type_,
            value: json::escape_html(&written),
        });
    }
    if is_json {
        use_original_text(bytes, key, &mut list);
    } else {
        let values: Vec<&str> = items
            .iter()
            .map(|item| named(item, "value").map_or("value", |(name, _)| name))
            .collect();
        preserve_spelling(bytes, (name, &values), &mut list, warnings);
    }
    Ok((!list.is_empty()).then_some(list))
}

/// Replaces the values with the original JSON text.
fn use_original_text(bytes: &[u8], key: &str, list: &mut [Property]) {
    let mut tape = Tape::default();
    let Ok(root) = tape.read(bytes, MAX_VALUES) else {
        return; // several documents: the spelling of numbers is all that is lost
    };
    let Some(items) = root.field(key) else {
        return;
    };
    for (property, item) in list.iter_mut().zip(items.items()) {
        if let Some(value) = item.field("value") {
            property.value.clear();
            value.compact(&mut property.value);
        }
    }
}

/// Preserves the spelling of max OpenShift versions. YAML reads `4.10` as the number 4.1, which would block upgrades of
/// every cluster. `names` contains the spelling of the list's key and of each entry's value key.
fn preserve_spelling(
    bytes: &[u8],
    (name, values): (&str, &[&str]),
    list: &mut [Property],
    warnings: &mut Vec<String>,
) {
    let numbers = list.iter_mut().zip(values).enumerate();
    let (paths, numbers): (Vec<Path>, Vec<&mut Property>) = numbers
        .filter(|(_, (property, _))| {
            property.type_ == MAX_PROPERTY
                && serde_json::from_slice::<Number>(&property.value).is_ok()
        })
        .map(|(at, (property, value))| (Path::from([name]).index(at).key(*value), property))
        .unzip();
    let written = yaml::written_all(bytes, 0, &paths);
    for (property, written) in numbers.into_iter().zip(written) {
        let Some(text) = written.map(|written| written.text) else {
            continue;
        };
        // `0x48` and `+4.8` are not numbers in JSON.
        if serde_json::from_str::<Number>(&text).is_ok() {
            property.value = text.into_bytes();
        } else {
            warnings.push(quote(property, &Unquoted::new(&text)));
        }
    }
}

/// Converts a number to a string and returns the warning.
pub(super) fn quote(property: &mut Property, number: &Unquoted) -> String {
    property.value = number.to_json().into_bytes();
    let message = number.message(&format!("property {MAX_PROPERTY}"));
    format!("{message}; {}", number.remedy())
}

/// Returns a field of a Go struct. Keys are compared without case; of several spellings, the last in sort order is
/// used.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    named(value, name).map(|(_, value)| value)
}

/// Returns such a field with the spelling of its key.
fn named<'a>(value: &'a Value, name: &str) -> Option<(&'a str, &'a Value)> {
    let map = value.as_object()?;
    let name = field_name(map, name)?;
    let value = map.get(name).filter(|value| !value.is_null())?;
    Some((name, value))
}
