//! Lossless conversion of a CatalogSource between OLM's form (v1alpha1) and v1. Pure; no I/O.
//!
//! ```text
//!  v1alpha1, as it is stored                     v1, without the deprecated fields
//!  sourceType, image, …, grpcPodConfig ──to_v1──► catalogImageSource │ catalogServiceSource │ configMapSource
//!        ▲                                           └─ what these cannot say ─► an annotation, of this very source
//!        └───────────────to_v1alpha1─────────────────┘
//! ```
//!
//! Conversion between versions never fails, because a failure would break every list of CatalogSources in the cluster. A
//! round trip returns the same object for every stored object that the CRD accepts. Where converting back would give a
//! different object, the annotation [`labels::CATALOG_SOURCE`] records the difference, and the hash of the source that it
//! describes. The annotation takes effect only if converting the result again gives exactly this object. Therefore, a
//! client that changes the source in between gets its own values, and no removed value returns. A forged annotation cannot
//! store another image than the visible one, or a number in place of a string.
//!
//! The API server fails a whole list if the annotations of one object exceed [`MAX_ANNOTATIONS_SIZE`]. Such an object gets
//! no annotation, and v1 then omits its ignored fields. [`rewrite`] is for users and their files: it writes no annotation,
//! and reports the fields that it drops.

mod rewrite;
mod typed;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    GROUP,
    rules::{DEPRECATED, MEMBERS},
};
use crate::{api::labels, names};

pub use self::rewrite::{Dropped, Error, Form, Rewritten, drop_ignored, rewrite};

type Object = Map<String, Value>;

/// Maximum size of all annotations of an object in bytes, names and values (Kubernetes).
const MAX_ANNOTATIONS_SIZE: usize = 256 << 10;

/// Version of the CatalogSource API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// OLM's version, which is the stored one.
    V1alpha1,
    /// The version without the deprecated fields.
    V1,
}

/// Parts of an object that v1 cannot represent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1Record {
    /// Hash of the v1 source that this record describes.
    of: String,
    /// Whether the stored object has the source in the form of v1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    same: bool,
    /// Fields of the stored source that conversion from v1 would omit or change.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    set: Object,
    /// Previous content at the location of the annotation: its own value in an object, or the value that replaced the
    /// annotations map.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Value>,
    /// Previous value of `metadata`, if any, where it was not an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Vec<Value>>,
}

// === impl Version ===

impl Version {
    /// Returns the `apiVersion` of this version.
    pub fn api_version(self) -> String {
        let version = match self {
            Self::V1alpha1 => "v1alpha1",
            Self::V1 => "v1",
        };
        format!("{GROUP}/{version}")
    }

    /// Returns the version of an object, or `None` for other API versions.
    pub fn from_object(object: &Value) -> Option<Self> {
        let api_version = object.get("apiVersion")?.as_str()?;
        [Self::V1alpha1, Self::V1]
            .into_iter()
            .find(|version| version.api_version() == api_version)
    }
}

/// Converts a CatalogSource to a version. An object that already has this version, or an unknown one, is unchanged.
pub fn convert(object: Value, to: Version) -> Value {
    match (Version::from_object(&object), object, to) {
        (Some(Version::V1alpha1), Value::Object(object), Version::V1) => to_v1(object).into(),
        (Some(Version::V1), Value::Object(object), Version::V1alpha1) => to_v1alpha1(object).into(),
        (_, object, _) => object,
    }
}

fn to_v1(mut object: Object) -> Object {
    object.insert("apiVersion".into(), Version::V1.api_version().into());
    let stored = remove_source(&mut object);
    let source = v1_source(&stored);
    let same = MEMBERS.iter().any(|member| stored.contains_key(*member));
    let reverted = if same {
        source.clone()
    } else {
        legacy(&source)
    };
    if legacy(&source) != stored || is_annotated(&object) {
        let differs = |key: &String, value: &Value| reverted.get(key) != Some(value);
        let record = V1Record {
            of: hash(&source),
            same,
            // All fields of v1 come from the stored source and are converted back to it.
            set: stored
                .into_iter()
                .filter(|(key, value)| differs(key, value))
                .collect(),
            annotations: Vec::new(),
            metadata: None,
        };
        annotate(&mut object, record);
        if annotations_size(&object) > MAX_ANNOTATIONS_SIZE {
            remove_annotation(&mut object);
        }
    }
    insert_source(&mut object, source);
    object
}

fn to_v1alpha1(mut object: Object) -> Object {
    if let Some(stored) = read_record(&object) {
        return stored;
    }
    object.insert("apiVersion".into(), Version::V1alpha1.api_version().into());
    // The annotation describes a source that has changed since.
    remove_annotation(&mut object);
    let source = remove_source(&mut object);
    insert_source(&mut object, legacy(&source));
    object
}

/// Returns the stored object that the annotation records, if converting it again gives this object.
fn read_record(object: &Object) -> Option<Object> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(labels::CATALOG_SOURCE)?
        .as_str()?;
    let record: V1Record = serde_json::from_str(text).ok()?;
    let mut stored = object.clone();
    let source = remove_source(&mut stored);
    let mut before = if record.same { source } else { legacy(&source) };
    before.extend(record.set);
    if !typed::is_typed(&before) {
        return None;
    }
    insert_source(&mut stored, before);
    stored.insert("apiVersion".into(), Version::V1alpha1.api_version().into());
    let metadata = stored.get_mut("metadata")?.as_object_mut()?;
    if let Some(metadata) = record.metadata {
        stored.remove("metadata");
        if let Some(metadata) = metadata.into_iter().next() {
            stored.insert("metadata".into(), metadata);
        }
    } else {
        let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
        annotations.remove(labels::CATALOG_SOURCE);
        let is_empty = annotations.is_empty();
        match record.annotations.into_iter().next() {
            None if is_empty => _ = metadata.remove("annotations"),
            None => {}
            Some(Value::Object(more)) => annotations.extend(more),
            Some(other) => _ = metadata.insert("annotations".into(), other),
        }
    }
    (to_v1(stored.clone()) == *object).then_some(stored)
}

/// Returns the v1 source of a stored object; empty if the object has no valid source.
fn v1_source(stored: &Object) -> Object {
    let members = stored
        .iter()
        .filter(|(key, _)| MEMBERS.contains(&key.as_str()));
    let members: Object = members
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !members.is_empty() {
        return members;
    }
    let non_empty = |key: &str| {
        let text = stored.get(key)?.as_str()?;
        (!text.is_empty()).then_some(text)
    };
    let type_ = non_empty("sourceType").unwrap_or_default();
    let source = match (
        type_,
        non_empty("image"),
        non_empty("address"),
        non_empty("configMap"),
    ) {
        ("grpc", Some(image), ..) => {
            let mut source = Object::new();
            source.insert("catalogImage".into(), image.into());
            let pod = stored.get("grpcPodConfig").cloned();
            source.extend(pod.map(|pod| ("podSpecOverrides".to_owned(), pod)));
            Some(("catalogImageSource", source.into()))
        }
        ("grpc", None, Some(address), _) => {
            Some(("catalogServiceSource", json!({"address": address})))
        }
        ("configmap" | "internal", _, _, Some(name)) => {
            Some(("configMapSource", json!({"configMap": name})))
        }
        _ => None,
    };
    source
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Returns a v1 source in OLM's form. A source that OLM's form cannot express is unchanged, because the stored version has
/// both forms.
fn legacy(source: &Object) -> Object {
    legacy_fields(source).unwrap_or_else(|| source.clone())
}

fn legacy_fields(source: &Object) -> Option<Object> {
    let mut members = source.iter();
    let ((member, value), None) = (members.next()?, members.next()) else {
        return None;
    };
    let (type_, named, field) = match member.as_str() {
        "catalogImageSource" => ("grpc", "catalogImage", "image"),
        "catalogServiceSource" => ("grpc", "address", "address"),
        "configMapSource" => ("configmap", "configMap", "configMap"),
        _ => return None,
    };
    let mut value = value.as_object()?.clone();
    let mut fields = Object::new();
    fields.insert("sourceType".into(), type_.into());
    let name = value.remove(named)?;
    name.as_str().filter(|name| !name.is_empty())?;
    fields.insert(field.into(), name);
    if field == "image"
        && let Some(pod) = value.remove("podSpecOverrides")
    {
        fields.insert("grpcPodConfig".into(), pod);
    }
    value.is_empty().then_some(fields)
}

/// Removes the fields of the location from the spec, and returns them.
fn remove_source(object: &mut Object) -> Object {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Object::new();
    };
    DEPRECATED
        .iter()
        .chain(&MEMBERS)
        .filter_map(|key| spec.remove_entry(*key))
        .collect()
}

fn insert_source(object: &mut Object, source: Object) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.extend(source);
    }
}

fn hash(source: &Object) -> String {
    names::hash(&[&Value::from(source.clone()).to_string()])
}

fn is_annotated(object: &Object) -> bool {
    let annotations = object
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| annotations.get(labels::CATALOG_SOURCE).is_some())
}

/// Writes a record into an object. The record keeps the values that it replaces.
fn annotate(object: &mut Object, mut record: V1Record) {
    let key = labels::CATALOG_SOURCE.to_owned();
    let fresh = |record: &V1Record| json!({labels::CATALOG_SOURCE: serialize(record)});
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        record.metadata = Some(object.remove("metadata").into_iter().collect());
        object.insert("metadata".into(), json!({"annotations": fresh(&record)}));
        return;
    };
    match metadata.get_mut("annotations") {
        Some(Value::Object(annotations)) => {
            let own = annotations.remove_entry(&key);
            let is_empty = annotations.is_empty() && own.is_none();
            if is_empty || own.is_some() {
                record.annotations = vec![own.into_iter().collect::<Object>().into()];
            }
            annotations.insert(key, serialize(&record));
        }
        other => {
            record.annotations = other.map(Value::take).into_iter().collect();
            metadata.insert("annotations".into(), fresh(&record));
        }
    }
}

fn annotations_size(object: &Object) -> usize {
    let annotations = object
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
    annotations
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum()
}

fn serialize(record: &V1Record) -> Value {
    // A record consists of strings and JSON values, so serialization cannot fail.
    serde_json::to_string(record).unwrap_or_default().into()
}

fn remove_annotation(object: &mut Object) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return;
    };
    if annotations.remove(labels::CATALOG_SOURCE).is_some() && annotations.is_empty() {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests;
