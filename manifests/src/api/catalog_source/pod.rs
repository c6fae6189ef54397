//! How the pod that serves a catalog may look, as the apiserver checks it: the words of Kubernetes, in which nothing is
//! nested without end, and nothing grows without end.
//!
//! What is not named here is dropped, as OLM's definition drops it. A field that is left open would let a single object be
//! nested deeper than clients read, and whoever lists it with others would read none of them.

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::api::bounds;

/// A quantity, as the apiserver reads it.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// The prefix and the name of a label's key: whatever stands in affinities and tolerations is no longer.
const KEY: u32 = 253 + 1 + 63;

/// The schema of `grpcPodConfig` and `podSpecOverrides`.
pub(super) fn options(generator: &mut SchemaGenerator) -> Schema {
    let mut affinity = generator.subschema_for::<Affinity>().to_value();
    bound(&mut affinity);
    let mut toleration = generator.subschema_for::<Toleration>().to_value();
    bound(&mut toleration);
    let options = json!({
        "type": "object",
        "properties": {
            "nodeSelector": {
                "description": "Labels that the pod's node has to have, instead of kubernetes.io/os: linux.",
                "type": "object",
                "maxProperties": bounds::LABELS,
                "additionalProperties": {"type": "string", "maxLength": 63},
            },
            "tolerations": {
                "description": "Taints of nodes that the pod puts up with.",
                "type": "array",
                "maxItems": bounds::LABELS,
                "items": toleration,
            },
            "affinity": affinity,
            "priorityClassName": {
                "description": "The pod's priority class; an empty name is the cluster's default.",
                "type": "string",
                "maxLength": 253,
            },
            "securityContextConfig": {
                "description": "How much the pod may do: what its image wants (legacy), or what the pod security standard \
                    restricted allows. Without it, the namespace decides.",
                "type": "string",
                "enum": ["legacy", "restricted"],
            },
            "memoryTarget": {
                "description": "The memory that the pod asks for, and that its program keeps to as well as it can.",
                "x-kubernetes-int-or-string": true,
                "maxLength": bounds::WORD,
                "pattern": QUANTITY,
            },
            "extractContent": {
                "description": "Where in the image the catalog is, for images that have no program to serve it.",
                "type": "object",
                "required": ["catalogDir"],
                "properties": {
                    "catalogDir": {
                        "description": "The folder of the catalog.",
                        "type": "string",
                        "maxLength": bounds::PATH,
                    },
                    "cacheDir": {
                        "description": "The folder of what was made of it before.",
                        "type": "string",
                        "maxLength": bounds::PATH,
                    },
                },
            },
        },
    });
    Schema::try_from(options).unwrap_or_default()
}

/// Gives bounds to a schema of Kubernetes' own, and to all below it. The words are as well known as they are many.
fn bound(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = first_sentence(description).to_owned();
    }
    let most = match schema.get("type").and_then(Value::as_str) {
        Some("string") => Some(("maxLength", KEY)),
        Some("array") => Some(("maxItems", bounds::LABELS)),
        Some("object") if schema.contains_key("additionalProperties") => {
            Some(("maxProperties", bounds::LABELS))
        }
        _ => None,
    };
    if let Some((name, most)) = most {
        schema.insert(name.to_owned(), most.into());
    }
    for below in ["items", "additionalProperties"] {
        schema.get_mut(below).into_iter().for_each(bound);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties
        .into_iter()
        .flat_map(|properties| properties.values_mut())
        .for_each(bound);
}

fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices(". ");
    let end = ends.find(|(at, _)| {
        let next = text.get(at + 2..).and_then(|rest| rest.chars().next());
        // And not "e.g. this".
        next.is_some_and(char::is_uppercase)
    });
    end.and_then(|(at, _)| text.get(..=at)).unwrap_or(text)
}
