//! Changes to the metadata of an object before it is applied.

use serde_json::{Value, json};

use super::{labels, owner::InstanceOwner};
use crate::object::{Identity, Object, child_mut, get_path, mapping};

/// Metadata fields that only the API server writes, or that would make the apply request depend on the history of another
/// cluster. Owner references of another cluster would even make the garbage collector delete the object.
pub const SERVER_SET_FIELDS: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Sets the namespace of a namespaced object without one, and removes the namespace of a cluster-scoped object.
pub fn set_namespace(object: &mut Object, namespaced: bool, namespace: &str) {
    let has_namespace = !object.namespace().is_empty();
    let metadata = mapping(child_mut(object.value_mut(), "metadata"));
    if !namespaced {
        metadata.remove("namespace");
    } else if !has_namespace {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
}

/// Records the hash of an object in an annotation, as its revision has it.
pub fn record_hash(object: &mut Object, hash: &str) {
    let metadata = child_mut(object.value_mut(), "metadata");
    let annotations = mapping(child_mut(metadata, "annotations"));
    annotations.insert(labels::OBJECT_HASH.to_owned(), hash.into());
}

/// Marks an object as owned by an instance. CRDs, Namespaces and objects to keep get no owner reference, so that the
/// garbage collector never deletes them.
pub fn set_owner(object: &mut Object, owner: &InstanceOwner) {
    let identity = object.identity();
    let has_no_reference =
        is_definition(&identity) || is_namespace(&identity) || is_annotated_keep(object.value());
    let metadata = child_mut(object.value_mut(), "metadata");
    let marks = mapping(child_mut(metadata, "labels"));
    marks.insert(labels::OWNER_KIND.to_owned(), InstanceOwner::KIND.into());
    marks.insert(labels::OWNER_NAME.to_owned(), owner.name.as_str().into());
    let metadata = mapping(metadata);
    for field in SERVER_SET_FIELDS {
        metadata.remove(*field);
    }
    if !has_no_reference {
        let reference = json!([{
            "apiVersion": InstanceOwner::API_VERSION,
            "kind": InstanceOwner::KIND,
            "name": owner.name,
            "uid": owner.uid,
            "controller": true,
        }]);
        metadata.insert("ownerReferences".to_owned(), reference);
    }
}

/// Reports whether an annotation keeps the object when it leaves the bundle and when the instance is deleted.
pub fn is_annotated_keep(object: &Value) -> bool {
    get_path(object, &["metadata", "annotations", labels::KEEP])
        .is_some_and(|keep| !matches!(keep.as_str(), None | Some("false")))
}

/// Reports whether an object is a CustomResourceDefinition.
pub fn is_definition(identity: &Identity) -> bool {
    identity.group == "apiextensions.k8s.io" && identity.kind == "CustomResourceDefinition"
}

/// Reports whether an object is a Namespace.
pub fn is_namespace(identity: &Identity) -> bool {
    identity.group.is_empty() && identity.kind == "Namespace"
}
