//! What is read of an object, and what is left of it.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{
    Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, PartialObjectMeta},
};
use manifests::api::labels::OWNER_NAME;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    apply::MANAGER,
    drift::Fingerprint,
    health::{self, Health},
    watches::scope::Key,
};

/// What decisions need of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) key: Key,
    /// The instance that its labels name.
    pub(super) owner: Arc<str>,
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) fields: Option<Fingerprint>,
    pub(super) deleting: bool,
    pub(super) health: Health,
    pub(super) writer: Option<Arc<str>>,
}

/// An object as far as health needs it: whatever else it holds is passed over while it is read.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Full {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

/// Longer names of field managers than the apiserver takes are nobody's.
const LONGEST_MANAGER: usize = 128;

pub(super) fn of_metadata(object: PartialObjectMeta<DynamicObject>) -> Observed {
    observed(object.metadata, Health::Current)
}

pub(super) fn of_full(object: Full, resource: &ApiResource) -> Observed {
    let Full {
        metadata,
        spec,
        status,
    } = object;
    let deleting = metadata.deletion_timestamp.is_some();
    // Items of lists lack their kind, and what is not read here no rule asks for.
    let mut judged = Map::from_iter([
        ("apiVersion".to_owned(), json!(resource.api_version)),
        ("kind".to_owned(), json!(resource.kind)),
        ("spec".to_owned(), spec),
        ("status".to_owned(), status),
    ]);
    let mut head = Map::new();
    if let Some(generation) = metadata.generation {
        head.insert("generation".to_owned(), json!(generation));
    }
    if deleting {
        head.insert("deletionTimestamp".to_owned(), json!(""));
    }
    judged.insert("metadata".to_owned(), Value::Object(head));
    let health = health::of(&Value::Object(judged));
    observed(metadata, health)
}

fn observed(metadata: ObjectMeta, health: Health) -> Observed {
    let entries = metadata.managed_fields.unwrap_or_default();
    let owner = metadata
        .labels
        .unwrap_or_default()
        .remove(OWNER_NAME)
        .unwrap_or_default();
    Observed {
        key: Key {
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
        },
        owner: owner.into(),
        uid: metadata.uid.unwrap_or_default().into(),
        resource_version: metadata.resource_version.unwrap_or_default().into(),
        fields: Fingerprint::of_entries(&entries, MANAGER),
        deleting: metadata.deletion_timestamp.is_some(),
        health,
        writer: writer(&entries),
    }
}

/// Who wrote last besides us. Status is written all the time, and no field of ours.
fn writer(entries: &[ManagedFieldsEntry]) -> Option<Arc<str>> {
    entries
        .iter()
        .filter(|entry| entry.subresource.as_deref() != Some("status"))
        .filter_map(|entry| Some((entry.time.as_ref()?, entry.manager.as_deref()?)))
        .filter(|(_, manager)| *manager != MANAGER && manager.len() <= LONGEST_MANAGER)
        .max_by_key(|(time, _)| time.0)
        .map(|(_, manager)| manager.into())
}

// === impl Full ===

impl Resource for Full {
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
