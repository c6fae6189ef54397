//! What of each document of a catalog goes into a store: its bytes into the file at once, and what the index needs.

use std::sync::{Mutex, PoisonError};

use prost::{Message, encoding};
use prost_types::{ListValue, Struct, Value, value::Kind as ValueKind};
use serde_json::Value as Json;

use super::{
    csv,
    index::{BlobRow, BundleRow, Piece},
    store::{self, Writer, field},
    wire::{Dependency, GroupVersionKind, Property},
};
use crate::{
    json::{Node, write_text},
    shape,
    walk::Meta,
};

/// What one document gives beside what [`crate::load`] knows of it.
#[derive(Debug)]
pub(super) enum Part {
    Package(Package),
    Bundle(Box<Bundle>),
    Blob(BlobRow),
    /// All of a package cannot be served.
    Refused {
        package: String,
        reason: String,
    },
    /// A blob cannot be served.
    Odd(String),
    /// All there is to know is known.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) icon: Piece,
    pub(super) description: Piece,
}

#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) package: String,
    /// All but APIs and deprecation.
    pub(super) row: BundleRow,
}

/// What a bundle gives before it is written.
#[derive(Default)]
struct Texts {
    light: Vec<u8>,
    csv: Vec<u8>,
    objects: Vec<u8>,
}

impl Part {
    /// Writes what is to be kept of a document.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn of(meta: &Meta<'_>, writer: &Mutex<Writer>) -> store::Result<Self> {
        let package = || meta.package.clone().into_owned();
        Ok(match &*meta.schema {
            "olm.package" => {
                let (icon, description) = (csv::icon(meta.root), csv::description(meta.root));
                let mut writer = lock(writer);
                Self::Package(Package {
                    name: meta.name.clone().into_owned(),
                    icon: writer.manifest(&icon)?,
                    description: writer.manifest(&description)?,
                })
            }
            "olm.bundle" => match bundle(meta) {
                Ok((mut bundle, texts)) => {
                    let mut writer = lock(writer);
                    bundle.row.light = writer.listed(&texts.light)?;
                    bundle.row.csv = writer.manifest(&texts.csv)?;
                    bundle.row.objects = writer.manifest(&texts.objects)?;
                    Self::Bundle(Box::new(bundle))
                }
                Err(reason) => Self::Refused {
                    package: package(),
                    reason,
                },
            },
            "olm.channel" | "olm.deprecations" => Self::Nothing,
            _ => match blob(meta) {
                Ok(bytes) => Self::Blob(BlobRow {
                    schema: meta.schema.clone().into_owned(),
                    package: package(),
                    blob: lock(writer).manifest(&bytes)?,
                }),
                Err(reason) => Self::Odd(reason),
            },
        })
    }
}

/// Whether schemas and packages of blobs may have this name: `^[a-zA-Z0-9][a-zA-Z0-9._-]*$`.
pub(super) fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Whoever panicked while writing has ended the build.
fn lock(writer: &Mutex<Writer>) -> std::sync::MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bundle(meta: &Meta<'_>) -> Result<(Bundle, Texts), String> {
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
        let Some(value) = property.field("value") else {
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
                let (text, is_csv) = object(value)
                    .map_err(|it| format!("bundle {name:?}: property at index {at}: {it}"))?;
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
                value: wanted(value),
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
    let mut texts = Texts::default();
    let light = &mut texts.light;
    field(1, name.as_bytes(), light);
    field(2, bundle.package.as_bytes(), light);
    field(6, image.as_bytes(), light);
    encoding::message::encode_repeated(7, &provided, light);
    encoding::message::encode_repeated(8, &required, light);
    field(9, version.as_bytes(), light);
    encoding::message::encode_repeated(11, &dependencies, light);
    encoding::message::encode_repeated(12, &properties, light);
    for object in &objects {
        encoding::string::encode(5, object, &mut texts.objects);
    }
    let row = &mut bundle.row;
    row.has_image = !image.is_empty();
    match (csv.and_then(|at| objects.get(at)), metadata) {
        (Some(csv), _) => texts.csv = csv.clone().into_bytes(),
        (None, Some(metadata)) => {
            let images = meta.root.field("relatedImages");
            let is_described = csv::begin(metadata, name, &version, images, &mut texts.csv);
            row.is_made = true;
            row.wants_description = !is_described;
            row.is_alone = objects.is_empty();
        }
        (None, None) => {}
    }
    Ok((bundle, texts))
}

/// A manifest as JSON, and whether it is a ClusterServiceVersion.
fn object(value: Node<'_>) -> Result<(String, bool), String> {
    let bytes = shape::base64(&shape::borrowed(value, "data"))?;
    let json = match serde_json::from_slice::<Json>(&bytes) {
        Ok(json) => json,
        Err(_) => match manifests::yaml::documents(&bytes).next() {
            Some(Ok(document)) => document,
            // What begins like JSON is passed on by Go, whatever it is.
            Some(Err(_)) if bytes.trim_ascii_start().starts_with(b"{") => {
                return Ok((lossy(bytes), false));
            }
            Some(Err(error)) => return Err(format!("neither JSON nor YAML: {error}")),
            None => Json::Null,
        },
    };
    let is_csv = json
        .get("kind")
        .is_some_and(|it| it == "ClusterServiceVersion");
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

/// A required package as the older view has it.
fn wanted(value: Node<'_>) -> String {
    let mut out = br#"{"packageName":"#.to_vec();
    write_text(&text(value, "packageName"), &mut out);
    out.extend_from_slice(br#","version":"#);
    write_text(&text(value, "versionRange"), &mut out);
    out.push(b'}');
    lossy(out)
}

/// A blob of an unknown schema as a message.
fn blob(meta: &Meta<'_>) -> Result<Vec<u8>, String> {
    let place = format!("{}:{}", meta.file, meta.line);
    for (what, name) in [("schema", &meta.schema), ("package", &meta.package)] {
        let is_absent = what == "package" && name.is_empty();
        if !is_plain(name) && !is_absent {
            let name = name.chars().take(100).collect::<String>();
            return Err(format!(
                "{place}: invalid custom schema meta: {what} {name:?} has other characters than letters, digits, \".\", \"_\" and \"-\""
            ));
        }
    }
    let mut text = Vec::new();
    meta.root.sorted(&mut text);
    // Bounds the depth, for messages are written by recursion, and read by it.
    match serde_json::from_slice(&text) {
        Ok(Json::Object(map)) => Ok(structure(map).encode_to_vec()),
        Ok(_) => Err(format!(
            "{place}: invalid custom schema meta: it is no object"
        )),
        Err(error) => Err(format!("{place}: invalid custom schema meta: {error}")),
    }
}

fn structure(map: serde_json::Map<String, Json>) -> Struct {
    Struct {
        fields: map
            .into_iter()
            .map(|(key, it)| (key, protobuf(it)))
            .collect(),
    }
}

fn protobuf(json: Json) -> Value {
    let kind = match json {
        Json::Null => ValueKind::NullValue(0),
        Json::Bool(it) => ValueKind::BoolValue(it),
        Json::Number(it) => ValueKind::NumberValue(it.as_f64().unwrap_or_default()),
        Json::String(it) => ValueKind::StringValue(it),
        Json::Array(it) => ValueKind::ListValue(ListValue {
            values: it.into_iter().map(protobuf).collect(),
        }),
        Json::Object(it) => ValueKind::StructValue(structure(it)),
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

/// As opm has read it: into a map, whose keys are sorted.
fn sorted(value: Node<'_>) -> String {
    let mut out = Vec::new();
    value.sorted(&mut out);
    lossy(out)
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|it| String::from_utf8_lossy(it.as_bytes()).into_owned())
}
