//! `olm.csv.metadata`: the ClusterServiceVersion data that catalogs display, as Go's types print it.

use manifests::content::field_name;
use manifests::go_types::{self, ProblemKind};
use serde_json::{Map, Value};

use super::{
    blob::{CSV_METADATA, Property},
    json,
};
use crate::json::write_text;

/// Format of a field.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    Number,
    /// Any JSON value.
    Raw,
    Texts,
    /// Object with string values.
    Map,
    List(&'static [Field]),
    Struct(&'static [Field]),
}

/// A field of a Go struct. The output follows the order of the struct.
struct Field {
    name: &'static str,
    type_: Type,
    /// True if empty values are omitted.
    optional: bool,
}

const fn required(name: &'static str, type_: Type) -> Field {
    Field {
        name,
        type_,
        optional: false,
    }
}

const fn optional(name: &'static str, type_: Type) -> Field {
    Field {
        name,
        type_,
        optional: true,
    }
}

static DESCRIPTOR: [Field; 5] = [
    required("path", Type::Text),
    optional("displayName", Type::Text),
    optional("description", Type::Text),
    optional("x-descriptors", Type::Texts),
    optional("value", Type::Raw),
];

static RESOURCE: [Field; 3] = [
    required("name", Type::Text),
    required("kind", Type::Text),
    required("version", Type::Text),
];

static CRD: [Field; 9] = [
    required("name", Type::Text),
    required("version", Type::Text),
    required("kind", Type::Text),
    optional("displayName", Type::Text),
    optional("description", Type::Text),
    optional("resources", Type::List(&RESOURCE)),
    optional("statusDescriptors", Type::List(&DESCRIPTOR)),
    optional("specDescriptors", Type::List(&DESCRIPTOR)),
    optional("actionDescriptors", Type::List(&DESCRIPTOR)),
];

static API_SERVICE: [Field; 12] = [
    required("name", Type::Text),
    required("group", Type::Text),
    required("version", Type::Text),
    required("kind", Type::Text),
    optional("deploymentName", Type::Text),
    optional("containerPort", Type::Number),
    optional("displayName", Type::Text),
    optional("description", Type::Text),
    optional("resources", Type::List(&RESOURCE)),
    optional("statusDescriptors", Type::List(&DESCRIPTOR)),
    optional("specDescriptors", Type::List(&DESCRIPTOR)),
    optional("actionDescriptors", Type::List(&DESCRIPTOR)),
];

static API_SERVICES: [Field; 2] = [
    optional("owned", Type::List(&API_SERVICE)),
    optional("required", Type::List(&API_SERVICE)),
];

static CRDS: [Field; 2] = [
    optional("owned", Type::List(&CRD)),
    optional("required", Type::List(&CRD)),
];

static INSTALL_MODE: [Field; 2] = [
    required("type", Type::Text),
    required("supported", Type::Bool),
];

static LINK: [Field; 2] = [optional("name", Type::Text), optional("url", Type::Text)];

static MAINTAINER: [Field; 2] = [optional("name", Type::Text), optional("email", Type::Text)];

static KIND: [Field; 3] = [
    required("group", Type::Text),
    required("version", Type::Text),
    required("kind", Type::Text),
];

/// Fields of the property, each with its path in the ClusterServiceVersion.
static METADATA: [(&[&str], Field); 14] = [
    (
        &["metadata", "annotations"],
        optional("annotations", Type::Map),
    ),
    (
        &["spec", "apiservicedefinitions"],
        required("apiServiceDefinitions", Type::Struct(&API_SERVICES)),
    ),
    (
        &["spec", "customresourcedefinitions"],
        required("crdDescriptions", Type::Struct(&CRDS)),
    ),
    (
        &["spec", "description"],
        optional("description", Type::Text),
    ),
    (
        &["spec", "displayName"],
        optional("displayName", Type::Text),
    ),
    (
        &["spec", "installModes"],
        optional("installModes", Type::List(&INSTALL_MODE)),
    ),
    (&["spec", "keywords"], optional("keywords", Type::Texts)),
    (&["metadata", "labels"], optional("labels", Type::Map)),
    (&["spec", "links"], optional("links", Type::List(&LINK))),
    (
        &["spec", "maintainers"],
        optional("maintainers", Type::List(&MAINTAINER)),
    ),
    (&["spec", "maturity"], optional("maturity", Type::Text)),
    (
        &["spec", "minKubeVersion"],
        optional("minKubeVersion", Type::Text),
    ),
    (
        &["spec", "nativeAPIs"],
        optional("nativeAPIs", Type::List(&KIND)),
    ),
    (
        &["spec", "provider"],
        required("provider", Type::Struct(&LINK)),
    ),
];

/// Builds the property for a ClusterServiceVersion.
///
/// # Errors
/// Returns an error if a value of the ClusterServiceVersion does not match OLM's type.
pub(super) fn property(csv: &Value) -> Result<Property, String> {
    for problem in go_types::check(csv, go_types::csv()) {
        if let ProblemKind::Mismatch {
            expected, found, ..
        } = problem.kind
        {
            let path = problem.path;
            return Err(format!(
                "the ClusterServiceVersion's {path} must be {expected}, not {found}"
            ));
        }
    }
    let mut out = vec![b'{'];
    for (path, field) in &METADATA {
        let value = path
            .iter()
            .try_fold(csv, |value, name| value_of(value, name));
        print(field, value, &mut out);
    }
    out.push(b'}');
    Ok(Property {
        type_: CSV_METADATA.to_owned(),
        value: out,
    })
}

fn print(field: &Field, value: Option<&Value>, out: &mut Vec<u8>) {
    if field.optional && value.is_none_or(|value| is_empty_value(value, field.type_)) {
        return;
    }
    let value = value.unwrap_or(&Value::Null);
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_text(field.name, out);
    out.push(b':');
    match field.type_ {
        Type::Text => write_text(value.as_str().unwrap_or_default(), out),
        Type::Bool => json::value(&Value::Bool(value == &Value::Bool(true)), out),
        Type::Number => json::value(value, out),
        Type::Raw => {
            let mut raw = Vec::new();
            json::value(value, &mut raw);
            out.append(&mut json::escape_html(&raw));
        }
        Type::Texts => list(value, out, |item, out| {
            write_text(item.as_str().unwrap_or_default(), out);
        }),
        Type::Map => {
            out.push(b'{');
            for (at, (key, text)) in value.as_object().into_iter().flatten().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write_text(text.as_str().unwrap_or_default(), out);
            }
            out.push(b'}');
        }
        Type::List(fields) => list(value, out, |item, out| object(fields, item, out)),
        Type::Struct(fields) => object(fields, value, out),
    }
}

fn object(fields: &[Field], value: &Value, out: &mut Vec<u8>) {
    out.push(b'{');
    for field in fields {
        print(field, value_of(value, field.name), out);
    }
    out.push(b'}');
}

/// Returns the value of a field of a Go struct. Go ignores the case of the key.
fn value_of<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let map = value.as_object()?;
    map.get(field_name(map, name)?)
}

fn list(value: &Value, out: &mut Vec<u8>, write: impl Fn(&Value, &mut Vec<u8>)) {
    out.push(b'[');
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// Reports whether Go omits the value. Raw values are omitted only if they are absent.
fn is_empty_value(value: &Value, type_: Type) -> bool {
    if matches!(type_, Type::Raw) {
        return false;
    }
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => Map::is_empty(map),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}
