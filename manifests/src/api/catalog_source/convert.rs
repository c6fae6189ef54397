//! From OLM's form of a CatalogSource to the new one, and back. No I/O, and nothing that is unknown gets lost.
//!
//! ```text
//!  v1alpha1, as it is stored                     v1, without the deprecated fields
//!  sourceType, image, …, grpcPodConfig ──to_v1──► catalogImageSource │ catalogServiceSource │ configMapSource
//!        ▲                                           └─ what these cannot say ─► an annotation, of this very source
//!        └───────────────to_v1alpha1─────────────────┘
//! ```
//!
//! Conversion between versions never fails, for then a whole cluster could not list its CatalogSources. There and back is
//! the same object, whatever was stored, as long as the definition takes it: where the way back would give something else, the annotation
//! [`labels::CATALOG_SOURCE`] says what, and of which source. It counts only if converting again gives just this object. So
//! whoever changes the source in between gets what he wrote, nothing comes back that he took away, and nobody can write an
//! annotation that stores another image than the one that is shown, or a number where a text belongs. The apiserver fails a whole list for one object whose
//! annotations come to more than [`MOST_ANNOTATIONS`]: such a one goes without, and what nobody reads in it is not in what
//! v1 writes. [`rewrite`] is for people and their files: it leaves no annotation, and tells what it drops.

mod rewrite;
mod typed;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    GROUP,
    rules::{DEPRECATED, MEMBERS},
};
use crate::{api::labels, names};

pub use self::rewrite::{Dropped, Error, Form, Rewritten, mend, rewrite};

type Object = Map<String, Value>;

/// The bytes that all annotations of an object may have, names and values (Kubernetes).
const MOST_ANNOTATIONS: usize = 256 << 10;

/// A version of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// OLM's, which is stored.
    V1alpha1,
    /// The one without the deprecated fields.
    V1,
}

/// What v1 cannot say of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The hash of the source in v1 that this is about.
    of: String,
    /// The stored object has the source as v1 has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    same: bool,
    /// Fields of the stored source that are not in what v1 becomes by itself, or differ there.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    set: Object,
    /// What was in the annotation's place: its own value in an object, or what stood there in place of annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Value>,
    /// What stood in place of the metadata, if anything, where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Vec<Value>>,
}

// === impl Version ===

impl Version {
    /// Its `apiVersion`.
    pub fn api_version(self) -> String {
        let version = match self {
            Self::V1alpha1 => "v1alpha1",
            Self::V1 => "v1",
        };
        format!("{GROUP}/{version}")
    }

    /// The version that an object is of, if it is one of these.
    pub fn of(object: &Value) -> Option<Self> {
        let written = object.get("apiVersion")?.as_str()?;
        [Self::V1alpha1, Self::V1]
            .into_iter()
            .find(|version| version.api_version() == written)
    }
}

/// A CatalogSource in another version. What is in that version already, or in none that is known, stays as it is.
pub fn convert(object: Value, to: Version) -> Value {
    match (Version::of(&object), object, to) {
        (Some(Version::V1alpha1), Value::Object(object), Version::V1) => to_v1(object).into(),
        (Some(Version::V1), Value::Object(object), Version::V1alpha1) => to_v1alpha1(object).into(),
        (_, object, _) => object,
    }
}

fn to_v1(mut object: Object) -> Object {
    object.insert("apiVersion".into(), Version::V1.api_version().into());
    let stored = take_source(&mut object);
    let source = renewed(&stored);
    let same = MEMBERS.iter().any(|member| stored.contains_key(*member));
    let again = if same {
        source.clone()
    } else {
        legacy(&source)
    };
    if legacy(&source) != stored || is_annotated(&object) {
        let differs = |key: &String, value: &Value| again.get(key) != Some(value);
        let record = Record {
            of: hash(&source),
            same,
            // All that v1 says comes from the stored source, and goes back to where it came from.
            set: stored
                .into_iter()
                .filter(|(key, value)| differs(key, value))
                .collect(),
            annotations: Vec::new(),
            metadata: None,
        };
        annotate(&mut object, record);
        if annotations_size(&object) > MOST_ANNOTATIONS {
            take_annotation(&mut object);
        }
    }
    put_source(&mut object, source);
    object
}

fn to_v1alpha1(mut object: Object) -> Object {
    if let Some(stored) = recorded(&object) {
        return stored;
    }
    object.insert("apiVersion".into(), Version::V1alpha1.api_version().into());
    // Of a source that is another one by now.
    take_annotation(&mut object);
    let source = take_source(&mut object);
    put_source(&mut object, legacy(&source));
    object
}

/// The object as it was stored, if the annotation tells it, and tells the truth.
fn recorded(object: &Object) -> Option<Object> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(labels::CATALOG_SOURCE)?
        .as_str()?;
    let record: Record = serde_json::from_str(text).ok()?;
    let mut stored = object.clone();
    let source = take_source(&mut stored);
    let mut before = if record.same { source } else { legacy(&source) };
    before.extend(record.set);
    if !typed::is_typed(&before) {
        return None;
    }
    put_source(&mut stored, before);
    stored.insert("apiVersion".into(), Version::V1alpha1.api_version().into());
    let metadata = stored.get_mut("metadata")?.as_object_mut()?;
    if let Some(written) = record.metadata {
        stored.remove("metadata");
        if let Some(written) = written.into_iter().next() {
            stored.insert("metadata".into(), written);
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

/// What the source of a stored object is in v1. What names no source there has none.
fn renewed(stored: &Object) -> Object {
    let members = stored
        .iter()
        .filter(|(key, _)| MEMBERS.contains(&key.as_str()));
    let members: Object = members
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !members.is_empty() {
        return members;
    }
    let filled = |key: &str| {
        let text = stored.get(key)?.as_str()?;
        (!text.is_empty()).then_some(text)
    };
    let type_ = filled("sourceType").unwrap_or_default();
    let source = match (
        type_,
        filled("image"),
        filled("address"),
        filled("configMap"),
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

/// What a source of v1 is in OLM's form. What OLM's has no words for stays as it is: the stored version has both.
fn legacy(source: &Object) -> Object {
    said(source).unwrap_or_else(|| source.clone())
}

fn said(source: &Object) -> Option<Object> {
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
    let mut said = Object::new();
    said.insert("sourceType".into(), type_.into());
    let name = value.remove(named)?;
    name.as_str().filter(|name| !name.is_empty())?;
    said.insert(field.into(), name);
    if field == "image"
        && let Some(pod) = value.remove("podSpecOverrides")
    {
        said.insert("grpcPodConfig".into(), pod);
    }
    value.is_empty().then_some(said)
}

/// The fields that say where the catalog is, taken out of the spec.
fn take_source(object: &mut Object) -> Object {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Object::new();
    };
    DEPRECATED
        .iter()
        .chain(&MEMBERS)
        .filter_map(|key| spec.remove_entry(*key))
        .collect()
}

fn put_source(object: &mut Object, source: Object) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.extend(source);
    }
}

fn hash(source: &Object) -> String {
    names::hash(&[&Value::from(source.clone()).to_string()])
}

fn is_annotated(object: &Object) -> bool {
    let annotations = object.get("metadata").and_then(|it| it.get("annotations"));
    annotations.is_some_and(|it| it.get(labels::CATALOG_SOURCE).is_some())
}

/// Writes a record into an object, and into the record what had to make room for it.
fn annotate(object: &mut Object, mut record: Record) {
    let key = labels::CATALOG_SOURCE.to_owned();
    let fresh = |record: &Record| json!({labels::CATALOG_SOURCE: written(record)});
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
            annotations.insert(key, written(&record));
        }
        other => {
            record.annotations = other.map(Value::take).into_iter().collect();
            metadata.insert("annotations".into(), fresh(&record));
        }
    }
}

fn annotations_size(object: &Object) -> usize {
    let annotations = object.get("metadata").and_then(|it| it.get("annotations"));
    let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
    annotations
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum()
}

fn written(record: &Record) -> Value {
    // A record is texts and JSON, which can be written.
    serde_json::to_string(record).unwrap_or_default().into()
}

fn take_annotation(object: &mut Object) {
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
