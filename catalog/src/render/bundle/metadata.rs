//! `metadata/`: what is said of a bundle beside its manifests. Names of files do not matter.

use manifests::{content::Content, openshift::MAX_PROPERTY, path::Path, yaml};
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
        dependencies = dependencies.or_else(|| list(&value, "dependencies", &file.bytes));
        properties = properties.or_else(|| list(&value, "properties", &file.bytes));
        let knows = [
            package.is_some(),
            dependencies.is_some(),
            properties.is_some(),
        ];
        if more && knows != known {
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
fn list(value: &Value, key: &str, bytes: &[u8]) -> Option<Vec<Property>> {
    let items = field(value, key)?.as_array()?;
    let is_json = is_json(bytes);
    let mut list = Vec::with_capacity(items.len());
    for item in items {
        if !matches!(item, Value::Object(_) | Value::Null) {
            return None;
        }
        let type_ = match field(item, "type") {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other @ (Value::Number(_) | Value::Bool(_))) if !is_json => other.to_string(),
            Some(_) => return None,
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
        keep_digits(bytes, key, &mut list);
    }
    (!list.is_empty()).then_some(list)
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

/// Keeps the digits of max OpenShift versions: YAML's `4.10` is the number 4.1, which would block every cluster.
fn keep_digits(bytes: &[u8], key: &str, list: &mut [Property]) {
    let numbers = list.iter_mut().enumerate();
    let (paths, numbers): (Vec<Path>, Vec<&mut Property>) = numbers
        .filter(|(_, property)| {
            property.type_ == MAX_PROPERTY
                && serde_json::from_slice::<Number>(&property.value).is_ok()
        })
        .map(|(at, property)| (Path::from([key]).index(at).key("value"), property))
        .unzip();
    let written = yaml::written_all(bytes, 0, &paths);
    for (property, written) in numbers.into_iter().zip(written) {
        let text = written.map(|written| written.text);
        // `0x1F` and `1_000` are not numbers in JSON.
        if let Some(text) = text.filter(|text| serde_json::from_str::<Number>(text).is_ok()) {
            property.value = text.into_bytes();
        }
    }
}

/// A field of a Go struct: cases do not count, and of several spellings the last one in order wins.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let map = value.as_object()?;
    let mut same = map.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    same.next_back()
        .map(|(_, value)| value)
        .filter(|it| !it.is_null())
}
