//! Reduction of watched objects to the fields that decisions need.

use std::{borrow::Cow, fmt, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{
    Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, PartialObjectMeta},
};
use manifests::api::labels::{OBJECT_HASH, OWNER_NAME};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, json};

use super::{
    entry::{self, Entry, RareState},
    scope::Key,
};
use crate::{
    health::{self, Health},
    managed_fields::{self, Fingerprint},
    ssa::MANAGER,
};

/// An object as a watch reports it.
pub(super) type ReducedObject = (Key, Entry);

/// Fields of an object that health rules read. All other fields are skipped while the object is parsed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct HealthView {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "spec_fields")]
    spec: Value,
    #[serde(default)]
    status: Value,
}

/// Deserializes the fields of a spec that health rules read. The spec of a CRD may exceed a megabyte.
fn spec_fields<'de, D: Deserializer<'de>>(spec: D) -> Result<Value, D::Error> {
    spec.deserialize_any(SpecVisitor)
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a spec")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut spec = Map::new();
        while let Some(field) = map.next_key::<Cow<'_, str>>()? {
            if health::SPEC.contains(&field.as_ref()) {
                spec.insert(field.into_owned(), map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(spec))
    }

    // The spec of a custom resource may have any type.
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        while all.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// The maximum length of the name of a field manager, as the API server limits it.
const MAX_MANAGER_LEN: usize = 128;

pub(super) fn from_metadata(object: PartialObjectMeta<DynamicObject>) -> ReducedObject {
    reduce(object.metadata, Health::Current)
}

pub(super) fn from_health_view(object: HealthView, resource: &ApiResource) -> ReducedObject {
    let HealthView {
        metadata,
        spec,
        status,
    } = object;
    let deleting = metadata.deletion_timestamp.is_some();
    // Items of lists have no kind, and no rule reads the other fields.
    let mut evaluated = Map::from_iter([
        ("apiVersion".to_owned(), json!(resource.api_version)),
        ("kind".to_owned(), json!(resource.kind)),
        ("spec".to_owned(), spec),
        ("status".to_owned(), status),
    ]);
    let mut metadata_value = Map::new();
    if let Some(generation) = metadata.generation {
        metadata_value.insert("generation".to_owned(), json!(generation));
    }
    if deleting {
        metadata_value.insert("deletionTimestamp".to_owned(), json!(""));
    }
    evaluated.insert("metadata".to_owned(), Value::Object(metadata_value));
    let health = health::evaluate(&Value::Object(evaluated));
    reduce(metadata, health)
}

fn reduce(metadata: ObjectMeta, mut health: Health) -> ReducedObject {
    let entries = metadata.managed_fields.unwrap_or_default();
    if let Health::TimedOut { written, .. } = &mut health {
        *written = managed_fields::last_applied(&entries, MANAGER);
    }
    let owner = metadata
        .labels
        .unwrap_or_default()
        .remove(OWNER_NAME)
        .unwrap_or_default();
    let hash = metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(OBJECT_HASH))
        .and_then(|text| text.parse().ok());
    let key = Key::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let rare = RareState {
        deleting: metadata.deletion_timestamp.is_some(),
        health,
        writer: last_writer(&entries),
        note: None,
    };
    let entry = Entry {
        owner: owner.into(),
        uid: entry::hash(&metadata.uid.unwrap_or_default()),
        version: entry::number(&metadata.resource_version.unwrap_or_default()),
        fields: Fingerprint::from_entries(&entries, MANAGER),
        hash,
        rare: rare.boxed(),
    };
    (key, entry)
}

/// Returns the other field manager with the latest write. Writes of the status are ignored: they are frequent, and the
/// provisioner applies no status field.
fn last_writer(entries: &[ManagedFieldsEntry]) -> Option<Arc<str>> {
    entries
        .iter()
        .filter(|entry| entry.subresource.as_deref() != Some("status"))
        .filter_map(|entry| Some((entry.time.as_ref()?, entry.manager.as_deref()?)))
        .filter(|(_, manager)| *manager != MANAGER && manager.len() <= MAX_MANAGER_LEN)
        .max_by_key(|(time, _)| time.0)
        .map(|(_, manager)| manager.into())
}

// === impl HealthView ===

impl Resource for HealthView {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_view_reads_only_fields_of_health_rules() {
        for (spec, expected) in ::tests::rows![
            r#"{"replicas":2,"template":{"spec":[1]},"type":"LoadBalancer"}"# => json!({"replicas": 2, "type": "LoadBalancer"});
            r#"{"versions":[{"schema":{}}]}"# => json!({});
            r#""text""# => json!(null);
            "[1,{}]" => json!(null);
            "null" => json!(null);
            "-1" => json!(null);
            "1" => json!(null);
            "1.5" => json!(null);
            "true" => json!(null);
        ] {
            let text = format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec},"status":{{"x":1}}}}"#);
            let view: HealthView = serde_json::from_str(&text).unwrap();
            assert_rows!((view.spec, view.status) => (expected, json!({"x": 1})), "{spec}");
        }
    }
}
