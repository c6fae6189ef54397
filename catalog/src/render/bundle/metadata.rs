//! `metadata/`: what is said of a bundle beside its manifests. Names of files do not matter.

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
    manifests_folder::first,
};
use crate::json::Tape;

const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const OTHERS: [&str; 2] = [
    "operators.operatorframework.io.bundle.channels.v1",
    "operators.operatorframework.io.bundle.channel.default.v1",
];

/// Lists of `metadata/`, each in a file of the same name by convention.
const KEYS: [&str; 3] = ["annotations", "dependencies", "properties"];

/// Values in a file of properties or dependencies.
const VALUES: usize = 1_000_000;

/// What `metadata/` says.
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
    for (name, file) in content.folder("metadata") {
        if name.contains('/') {
            continue;
        }
        let Ok((value, more)) = first(&file.bytes, limits) else {
            warnings.push(format!(
                "failed to decode: metadata/{name}; the file is left out"
            ));
            continue;
        };
        let known = [
            package.is_some(),
            dependencies.is_some(),
            properties.is_some(),
        ];
        package = package.or_else(|| annotated(&value, is_json(&file.bytes)));
        let mut read = |key| {
            let found = list(&value, key, &file.bytes, warnings);
            found.unwrap_or_else(|problem| {
                warnings.push(format!(
                    "metadata/{name}: {problem}; opm ignores the whole list; write a list of entries with `type` and `value`"
                ));
                None
            })
        };
        dependencies = dependencies.or_else(|| read("dependencies"));
        properties = properties.or_else(|| read("properties"));
        let knows = [
            package.is_some(),
            dependencies.is_some(),
            properties.is_some(),
        ];
        let is_expected = KEYS.iter().any(|key| is_named_after(name, key));
        if more && (knows != known || is_expected) {
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

/// The package, if these are annotations of which opm knows one.
fn annotated(value: &Value, is_json: bool) -> Option<String> {
    let annotations = field(value, "annotations")?.as_object()?;
    let annotations = Value::Object(annotations.clone());
    let read = |key| match field(&annotations, key) {
        None => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        // YAML's numbers become texts where texts are wanted.
        Some(other @ (Value::Number(_) | Value::Bool(_))) if !is_json => Some(other.to_string()),
        Some(_) => None,
    };
    let package = read(PACKAGE)?;
    let others = OTHERS.map(read);
    let mut says = !package.is_empty();
    for other in others {
        says |= !other?.is_empty();
    }
    says.then_some(package)
}

/// The entries of a list with `type` and `value`, if there are any.
///
/// # Errors
/// Returns what Go cannot decode, for which opm ignores the list.
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
    let is_json = is_json(bytes);
    let mut list = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        if !matches!(item, Value::Object(_) | Value::Null) {
            return Err(format!("{name}[{at}] is {}", type_name(item)));
        }
        let type_ = match field(item, "type") {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other @ (Value::Number(_) | Value::Bool(_))) if !is_json => other.to_string(),
            Some(other) => {
                return Err(format!("the type of {name}[{at}] is {}", type_name(other)));
            }
        };
        let mut written = Vec::new();
        json::value(field(item, "value").unwrap_or(&Value::Null), &mut written);
        // YAML gets to be JSON on the way, with what is special in HTML escaped.
        list.push(Property {
            type_,
            value: json::escaped(&written),
        });
    }
    if is_json {
        as_written(bytes, key, &mut list);
    } else {
        let values: Vec<&str> = items
            .iter()
            .map(|item| named(item, "value").map_or("value", |(name, _)| name))
            .collect();
        keep_spelling(bytes, (name, &values), &mut list, warnings);
    }
    Ok((!list.is_empty()).then_some(list))
}

/// JSON is taken as it was written.
fn as_written(bytes: &[u8], key: &str, list: &mut [Property]) {
    let mut tape = Tape::default();
    let Ok(root) = tape.read(bytes, VALUES) else {
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

/// Keeps the spelling of max OpenShift versions: YAML's `4.10` is the number 4.1, which would block every cluster. `names`
/// are those of the list and of the value of each entry, as the file spells them.
fn keep_spelling(
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

/// Makes a string of a number, and returns the warning.
pub(super) fn quote(property: &mut Property, number: &Unquoted) -> String {
    property.value = number.to_json().into_bytes();
    let message = number.message(&format!("property {MAX_PROPERTY}"));
    format!("{message}; {}", number.remedy())
}

/// A field of a Go struct: cases do not count, and of several spellings the last one in order wins.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    named(value, name).map(|(_, value)| value)
}

/// The spelling of such a field, and its value.
fn named<'a>(value: &'a Value, name: &str) -> Option<(&'a str, &'a Value)> {
    let map = value.as_object()?;
    let name = field_name(map, name)?;
    let value = map.get(name).filter(|value| !value.is_null())?;
    Some((name, value))
}
