//! Contribution of each document to a store: its content is written to the file immediately, and its row is returned
//! for the index.

use parking_lot::Mutex;
use prost::{Message, encoding};
use prost_types::{ListValue, Struct, Value, value::Kind as ValueKind};
use serde_json::Value as Json;

use super::{
    index::{BlobRow, BundleRow, FileRange},
    proto::{Dependency, GroupVersionKind, Property},
    store::{self, Writer, encode_field},
    synthetic_csv,
};
use crate::{
    documents::Meta,
    go_json,
    json::{Node, write_text},
};

/// Data that a document adds to the model of [`crate::load`].
#[derive(Debug)]
pub(super) enum DocumentPart {
    Package(Package),
    Bundle(Box<Bundle>),
    Blob(BlobRow),
    /// The package cannot be served.
    Rejected {
        package: String,
        reason: String,
    },
    /// The blob cannot be served.
    Unindexed(String),
    /// The document adds nothing to the model.
    Empty,
}

#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) icon: FileRange,
    pub(super) description: FileRange,
}

#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) package: String,
    /// Row without provided APIs and deprecation.
    pub(super) row: BundleRow,
}

/// Encoded fields of a bundle before they are written.
#[derive(Default)]
struct BundleFields {
    list_fields: Vec<u8>,
    csv: Vec<u8>,
    objects: Vec<u8>,
}

impl DocumentPart {
    /// Writes the content of a document that the store needs.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn from_document(meta: &Meta<'_>, writer: &Mutex<Writer>) -> store::Result<Self> {
        let package = || meta.package.clone().into_owned();
        Ok(match &*meta.schema {
            "olm.package" => {
                let (icon, description) = (
                    synthetic_csv::icon(meta.root),
                    synthetic_csv::description(meta.root),
                );
                let mut writer = writer.lock();
                Self::Package(Package {
                    name: meta.name.clone().into_owned(),
                    icon: writer.manifest(&icon)?,
                    description: writer.manifest(&description)?,
                })
            }
            "olm.bundle" => match bundle(meta) {
                Ok((mut bundle, texts)) => {
                    let mut writer = writer.lock();
                    bundle.row.list_fields = writer.listed(&texts.list_fields)?;
                    bundle.row.csv = writer.manifest(&texts.csv)?;
                    bundle.row.objects = writer.manifest(&texts.objects)?;
                    Self::Bundle(Box::new(bundle))
                }
                Err(reason) => Self::Rejected {
                    package: package(),
                    reason,
                },
            },
            "olm.channel" | "olm.deprecations" => Self::Empty,
            _ => match blob(meta) {
                Ok(bytes) => Self::Blob(BlobRow {
                    schema: meta.schema.clone().into_owned(),
                    package: package(),
                    blob: writer.lock().manifest(&bytes)?,
                }),
                Err(reason) => Self::Unindexed(reason),
            },
        })
    }
}

/// Reports whether a schema or package name of a blob is valid: `^[a-zA-Z0-9][a-zA-Z0-9._-]*$`.
pub(super) fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn bundle(meta: &Meta<'_>) -> Result<(Bundle, BundleFields), String> {
    let name = &*meta.name;
    let mut bundle = Bundle {
        package: meta.package.clone().into_owned(),
        row: BundleRow {
            name: name.to_owned(),
            ..BundleRow::default()
        },
    };
    let mut version = String::new();
    let (mut provided, mut required) = (Vec::new(), Vec::new());
    let (mut dependencies, mut properties) = (Vec::new(), Vec::new());
    let (mut metadata, mut objects): (Option<Node>, Vec<String>) = (None, Vec::new());
    let mut csv = None;
    for (at, property) in items(meta.root, "properties").enumerate() {
        let kind = property
            .field("type")
            .and_then(Node::text)
            .unwrap_or_default();
        let Some(value) = go_json::property_value(property) else {
            continue;
        };
        match &*kind {
            "olm.csv.metadata" => {
                if metadata.replace(value).is_some() {
                    return Err(format!(
                        "bundle {name:?}: expected at most 1 property of type \"olm.csv.metadata\", found several"
                    ));
                }
                continue;
            }
            "olm.bundle.object" => {
                let (text, is_csv) = object(value).map_err(|problem| {
                    format!("bundle {name:?}: property at index {at}: {problem}")
                })?;
                if is_csv && csv.is_none() {
                    csv = Some(objects.len());
                }
                objects.push(text);
                continue;
            }
            "olm.gvk" => provided.push(gvk(value)),
            "olm.gvk.required" => {
                required.push(gvk(value));
                dependencies.push(Dependency {
                    r#type: "olm.gvk".into(),
                    value: sorted(value),
                });
            }
            "olm.package.required" => dependencies.push(Dependency {
                r#type: "olm.package".into(),
                value: package_dependency(value),
            }),
            "olm.package" => version = text(value, "version"),
            _ => {}
        }
        properties.push(Property {
            r#type: kind.into_owned(),
            value: sorted(value),
        });
    }

    let image = text(meta.root, "image");
    let mut texts = BundleFields::default();
    let list_fields = &mut texts.list_fields;
    encode_field(1, name.as_bytes(), list_fields);
    encode_field(2, bundle.package.as_bytes(), list_fields);
    encode_field(6, image.as_bytes(), list_fields);
    encoding::message::encode_repeated(7, &provided, list_fields);
    encoding::message::encode_repeated(8, &required, list_fields);
    encode_field(9, version.as_bytes(), list_fields);
    encoding::message::encode_repeated(11, &dependencies, list_fields);
    encoding::message::encode_repeated(12, &properties, list_fields);
    for object in &objects {
        encoding::string::encode(5, object, &mut texts.objects);
    }
    let row = &mut bundle.row;
    row.has_image = !image.is_empty();
    match (csv.and_then(|at| objects.get(at)), metadata) {
        (Some(csv), _) => texts.csv = csv.clone().into_bytes(),
        (None, Some(metadata)) => {
            let images = meta.root.field("relatedImages");
            let is_described =
                synthetic_csv::csv_prefix(metadata, name, &version, images, &mut texts.csv);
            row.csv_is_synthetic = true;
            row.needs_description = !is_described;
            row.csv_is_only_object = objects.is_empty();
        }
        (None, None) => {}
    }
    Ok((bundle, texts))
}

/// Decodes a manifest to JSON. Also returns whether it is a ClusterServiceVersion.
fn object(value: Node<'_>) -> Result<(String, bool), String> {
    let bytes = go_json::base64(&go_json::type_name_of(value, "data"))?;
    let json = match serde_json::from_slice::<Json>(&bytes) {
        Ok(json) => json,
        Err(_) => match manifests::yaml::documents(&bytes).next() {
            Some(Ok(document)) => document,
            // Go passes on everything that starts like JSON, even if it is malformed.
            Some(Err(_)) if bytes.trim_ascii_start().starts_with(b"{") => {
                return Ok((lossy(bytes), false));
            }
            Some(Err(error)) => return Err(format!("neither JSON nor YAML: {error}")),
            None => Json::Null,
        },
    };
    let is_csv = json
        .get("kind")
        .is_some_and(|kind| kind == "ClusterServiceVersion");
    Ok((json.to_string(), is_csv))
}

fn gvk(value: Node<'_>) -> GroupVersionKind {
    GroupVersionKind {
        group: text(value, "group"),
        version: text(value, "version"),
        kind: text(value, "kind"),
        plural: String::new(),
    }
}

/// Returns a required package in the format of dependencies.
fn package_dependency(value: Node<'_>) -> String {
    let mut out = br#"{"packageName":"#.to_vec();
    write_text(&text(value, "packageName"), &mut out);
    out.extend_from_slice(br#","version":"#);
    write_text(&text(value, "versionRange"), &mut out);
    out.push(b'}');
    lossy(out)
}

/// Encodes a blob of an unknown schema as a message.
fn blob(meta: &Meta<'_>) -> Result<Vec<u8>, String> {
    let location = format!("{}:{}", meta.file, meta.line);
    for (field, name) in [("schema", &meta.schema), ("package", &meta.package)] {
        let is_absent = field == "package" && name.is_empty();
        if !is_plain(name) && !is_absent {
            let name = name.chars().take(100).collect::<String>();
            return Err(format!(
                "{location}: invalid custom schema meta: {field} {name:?} contains characters other than letters, digits, \".\", \"_\" and \"-\""
            ));
        }
    }
    let mut text = Vec::new();
    meta.root.sorted(&mut text);
    // serde_json limits the depth; protobuf messages are written and read recursively.
    match serde_json::from_slice(&text) {
        Ok(Json::Object(map)) => Ok(to_protobuf_struct(map).encode_to_vec()),
        Ok(_) => Err(format!(
            "{location}: invalid custom schema meta: not an object"
        )),
        Err(error) => Err(format!("{location}: invalid custom schema meta: {error}")),
    }
}

fn to_protobuf_struct(map: serde_json::Map<String, Json>) -> Struct {
    Struct {
        fields: map
            .into_iter()
            .map(|(key, value)| (key, to_protobuf_value(value)))
            .collect(),
    }
}

fn to_protobuf_value(json: Json) -> Value {
    let kind = match json {
        Json::Null => ValueKind::NullValue(0),
        Json::Bool(value) => ValueKind::BoolValue(value),
        Json::Number(number) => ValueKind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => ValueKind::StringValue(text),
        Json::Array(items) => ValueKind::ListValue(ListValue {
            values: items.into_iter().map(to_protobuf_value).collect(),
        }),
        Json::Object(map) => ValueKind::StructValue(to_protobuf_struct(map)),
    };
    Value { kind: Some(kind) }
}

fn items<'a>(node: Node<'a>, name: &str) -> impl Iterator<Item = Node<'a>> {
    node.field(name).into_iter().flat_map(Node::items)
}

fn text(node: Node<'_>, name: &str) -> String {
    node.field(name)
        .and_then(Node::text)
        .unwrap_or_default()
        .into_owned()
}

/// Returns the JSON with sorted keys, because opm reads it into a map.
fn sorted(value: Node<'_>) -> String {
    let mut out = Vec::new();
    value.sorted(&mut out);
    lossy(out)
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
