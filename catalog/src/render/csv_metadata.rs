//! `olm.csv.metadata`: what catalogs show of a ClusterServiceVersion, as Go's types print it.

use manifests::{
    object::at,
    schema::{self, What},
};
use serde_json::{Map, Value};

use super::{
    blob::{CSV_METADATA, Property},
    json,
};
use crate::json::write_text;

/// How a field is printed.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    Number,
    /// Whatever it is.
    Raw,
    Texts,
    /// A mapping of texts.
    Map,
    List(&'static [Field]),
    Struct(&'static [Field]),
}

/// A field of a Go struct: the struct's order is that of the output.
struct Field {
    name: &'static str,
    type_: Type,
    /// Whether it is left out when it says nothing.
    optional: bool,
}

const fn always(name: &'static str, type_: Type) -> Field {
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
    always("path", Type::Text),
    optional("displayName", Type::Text),
    optional("description", Type::Text),
    optional("x-descriptors", Type::Texts),
    optional("value", Type::Raw),
];

static RESOURCE: [Field; 3] = [
    always("name", Type::Text),
    always("kind", Type::Text),
    always("version", Type::Text),
];

static CRD: [Field; 9] = [
    always("name", Type::Text),
    always("version", Type::Text),
    always("kind", Type::Text),
    optional("displayName", Type::Text),
    optional("description", Type::Text),
    optional("resources", Type::List(&RESOURCE)),
    optional("statusDescriptors", Type::List(&DESCRIPTOR)),
    optional("specDescriptors", Type::List(&DESCRIPTOR)),
    optional("actionDescriptors", Type::List(&DESCRIPTOR)),
];

static API_SERVICE: [Field; 12] = [
    always("name", Type::Text),
    always("group", Type::Text),
    always("version", Type::Text),
    always("kind", Type::Text),
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

static INSTALL_MODE: [Field; 2] = [always("type", Type::Text), always("supported", Type::Bool)];

static LINK: [Field; 2] = [optional("name", Type::Text), optional("url", Type::Text)];

static MAINTAINER: [Field; 2] = [optional("name", Type::Text), optional("email", Type::Text)];

static KIND: [Field; 3] = [
    always("group", Type::Text),
    always("version", Type::Text),
    always("kind", Type::Text),
];

/// The fields of the property, and where the ClusterServiceVersion has them.
static METADATA: [(&[&str], Field); 14] = [
    (
        &["metadata", "annotations"],
        optional("annotations", Type::Map),
    ),
    (
        &["spec", "apiservicedefinitions"],
        always("apiServiceDefinitions", Type::Struct(&API_SERVICES)),
    ),
    (
        &["spec", "customresourcedefinitions"],
        always("crdDescriptions", Type::Struct(&CRDS)),
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
        always("provider", Type::Struct(&LINK)),
    ),
];

/// The property for a ClusterServiceVersion.
///
/// # Errors
/// When it is not what OLM's type says, wherever that is.
pub(super) fn property(csv: &Value) -> Result<Property, String> {
    for problem in schema::check(csv, schema::csv()) {
        if let What::Mismatch {
            expected, found, ..
        } = problem.what
        {
            let path = problem.path;
            return Err(format!(
                "the ClusterServiceVersion's {path} must be {expected}, not {found}"
            ));
        }
    }
    let mut out = vec![b'{'];
    for (path, field) in &METADATA {
        print(field, at(csv, path), &mut out);
    }
    out.push(b'}');
    Ok(Property {
        type_: CSV_METADATA.to_owned(),
        value: out,
    })
}

fn print(field: &Field, value: Option<&Value>, out: &mut Vec<u8>) {
    if field.optional && value.is_none_or(|it| says_nothing(it, field.type_)) {
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
            out.append(&mut json::escaped(&raw));
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
        print(field, value.get(field.name), out);
    }
    out.push(b'}');
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

/// What Go leaves out. Where it keeps whatever there is, nothing but absence counts.
fn says_nothing(value: &Value, type_: Type) -> bool {
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
