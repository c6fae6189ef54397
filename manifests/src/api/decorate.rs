//! What is added to an object before it is sent, and what cannot be sent.

use serde_json::{Value, json};

use super::{holder::Owner, labels};
use crate::object::{Identity, Object, at, child, mapping};

/// Fields of metadata that only the apiserver writes, or that would make applying depend on another cluster's history.
/// References to owners elsewhere would even have the garbage collector delete the object.
pub const FOREIGN: &[&str] = &[
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

/// Puts an object into its namespace, if its kind has any.
pub fn place(object: &mut Object, namespaced: bool, namespace: &str) {
    let placed = !object.namespace().is_empty();
    let metadata = mapping(child(object.value_mut(), "metadata"));
    if !namespaced {
        metadata.remove("namespace");
    } else if !placed {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
}

/// Records the hash of an object as its revision has it, in an annotation.
pub fn record_hash(object: &mut Object, hash: &str) {
    let metadata = child(object.value_mut(), "metadata");
    let annotations = mapping(child(metadata, "annotations"));
    annotations.insert(labels::OBJECT_HASH.to_owned(), hash.into());
}

/// Marks an object as the instance's. Definitions and Namespaces get no reference to it, and neither does what is to
/// be kept: the garbage collector must never delete those.
pub fn own(object: &mut Object, owner: &Owner) {
    let identity = object.identity();
    let stays = is_definition(&identity) || is_namespace(&identity) || is_kept(object.value());
    let metadata = child(object.value_mut(), "metadata");
    let marks = mapping(child(metadata, "labels"));
    marks.insert(labels::OWNER_KIND.to_owned(), Owner::KIND.into());
    marks.insert(labels::OWNER_NAME.to_owned(), owner.name.as_str().into());
    let metadata = mapping(metadata);
    for field in FOREIGN {
        metadata.remove(*field);
    }
    if !stays {
        let reference = json!([{
            "apiVersion": Owner::API_VERSION,
            "kind": Owner::KIND,
            "name": owner.name,
            "uid": owner.uid,
            "controller": true,
        }]);
        metadata.insert("ownerReferences".to_owned(), reference);
    }
}

/// Whether an object is annotated to stay when it leaves the bundle, or with the instance.
pub fn is_kept(object: &Value) -> bool {
    at(object, &["metadata", "annotations", labels::KEEP])
        .is_some_and(|keep| !matches!(keep.as_str(), None | Some("false")))
}

/// Whether an object is a CustomResourceDefinition.
pub fn is_definition(identity: &Identity) -> bool {
    identity.group == "apiextensions.k8s.io" && identity.kind == "CustomResourceDefinition"
}

/// Whether an object is a Namespace.
pub fn is_namespace(identity: &Identity) -> bool {
    identity.group.is_empty() && identity.kind == "Namespace"
}
