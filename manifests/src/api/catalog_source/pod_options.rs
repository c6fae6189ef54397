//! Schema of the options of a catalog's pod, in the terms of Kubernetes. Nesting and size are limited.
//!
//! Unknown fields are pruned, as in OLM's CRD. If a field preserved unknown fields, one object could exceed the nesting
//! depth that clients accept, and no client could list it or its neighbors.

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::api::limits;

/// Pattern of a quantity, as the API server parses it.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// Maximum length of a label key, with prefix and name. No string in affinities and tolerations is longer.
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
                "description": "Node labels required for the pod, instead of kubernetes.io/os: linux.",
                "type": "object",
                "maxProperties": limits::LABELS,
                "additionalProperties": {"type": "string", "maxLength": 63},
            },
            "tolerations": {
                "description": "Node taints that the pod tolerates.",
                "type": "array",
                "maxItems": limits::LABELS,
                "items": toleration,
            },
            "affinity": affinity,
            "priorityClassName": {
                "description": "Priority class of the pod; an empty name is the default of the cluster.",
                "type": "string",
                "maxLength": 253,
            },
            "securityContextConfig": {
                "description": "Security context of the pod: the settings of its image (legacy), or those of the pod \
                    security standard restricted. If unset, it depends on the namespace.",
                "type": "string",
                "enum": ["legacy", "restricted"],
            },
            "memoryTarget": {
                "description": "Memory request of the pod; its program tries not to exceed it.",
                "x-kubernetes-int-or-string": true,
                "maxLength": limits::WORD,
                "pattern": QUANTITY,
            },
            "extractContent": {
                "description": "Location of the catalog in the image, for images without a program that serves it.",
                "type": "object",
                "required": ["catalogDir"],
                "properties": {
                    "catalogDir": {
                        "description": "Directory of the catalog.",
                        "type": "string",
                        "maxLength": limits::PATH,
                    },
                    "cacheDir": {
                        "description": "Directory of the cache that was built from the catalog.",
                        "type": "string",
                        "maxLength": limits::PATH,
                    },
                },
            },
        },
    });
    Schema::try_from(options).unwrap_or_default()
}

/// Adds limits to a schema of Kubernetes and to all schemas in it. Truncates descriptions to the first sentence, because
/// they are well known and long.
fn bound(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = first_sentence(description).to_owned();
    }
    let limit = match schema.get("type").and_then(Value::as_str) {
        Some("string") => Some(("maxLength", KEY)),
        Some("array") => Some(("maxItems", limits::LABELS)),
        Some("object") if schema.contains_key("additionalProperties") => {
            Some(("maxProperties", limits::LABELS))
        }
        _ => None,
    };
    if let Some((name, limit)) = limit {
        schema.insert(name.to_owned(), limit.into());
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
        // A period before a lowercase letter is an abbreviation such as "e.g. this".
        next.is_some_and(char::is_uppercase)
    });
    end.and_then(|(at, _)| text.get(..=at)).unwrap_or(text)
}
