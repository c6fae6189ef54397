//! Validation of a source against the CRD: types and limits.
//!
//! The API server validates an object in the version of the request, not the converted object. Without this check, an
//! annotation could store an object that no client can read.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;
use serde_json::Value;

use super::Object;
use crate::api::catalog_source::CatalogSource;

/// The schema of the spec.
static SPEC: LazyLock<Option<JSONSchemaProps>> = LazyLock::new(|| {
    let version = CatalogSource::crd().spec.versions.into_iter().next()?;
    let mut properties = version.schema?.open_api_v3_schema?.properties?;
    properties.remove("spec")
});

/// Reports whether every field of a source is valid according to the CRD.
pub(super) fn is_typed(source: &Object) -> bool {
    SPEC.as_ref().is_some_and(|spec| has_members(spec, source))
}

fn has_members(schema: &JSONSchemaProps, members: &Object) -> bool {
    let properties = schema.properties.as_ref();
    members.iter().all(|(name, value)| {
        let property = properties.and_then(|properties| properties.get(name));
        let property = property.or(match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(values)) => Some(values),
            _ => None,
        });
        // The API server prunes unknown fields, and treats null as absent.
        property.is_none_or(|schema| value.is_null() || conforms(schema, value))
    })
}

fn conforms(schema: &JSONSchemaProps, value: &Value) -> bool {
    let within = |max: Option<i64>, count: usize| {
        max.is_none_or(|max| i64::try_from(count).is_ok_and(|count| count <= max))
    };
    match (schema.type_.as_deref(), value) {
        (Some("object"), Value::Object(members)) => {
            within(schema.max_properties, members.len()) && has_members(schema, members)
        }
        (Some("array"), Value::Array(items)) => {
            let each = match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(each)) => Some(each),
                _ => None,
            };
            within(schema.max_items, items.len())
                && items
                    .iter()
                    .all(|item| each.is_none_or(|each| conforms(each, item)))
        }
        (Some("string"), Value::String(text)) => {
            within(schema.max_length, text.chars().count())
                && schema
                    .enum_
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|allowed| allowed.0 == *value))
        }
        // A field without a type accepts an integer or a string.
        (Some("integer") | None, Value::Number(number)) => number.is_i64(),
        (Some("boolean"), Value::Bool(_)) => true,
        (None, Value::String(text)) => within(schema.max_length, text.chars().count()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn source_that_the_crd_rejects_is_not_typed() {
        assert_each!(|source, expected| is_typed(source.as_object().unwrap()) => expected;
            json!({}) => true;
            json!({"sourceType": "grpc", "image": "a", "address": "", "configMap": "m"}) => true;
            json!({"image": null, "later": [1]}) => true;
            json!({"catalogImageSource": {"catalogImage": "a", "podSpecOverrides": {}}}) => true;
            json!({"grpcPodConfig": {
                "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists", "tolerationSeconds": 5}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                }]}}},
                "priorityClassName": "", "securityContextConfig": "legacy", "memoryTarget": "1Mi",
                "extractContent": {"catalogDir": "/configs"}, "later": {"a": 1},
            }}) => true;
            json!({"grpcPodConfig": {"memoryTarget": 5}}) => true;
            json!({"sourceType": 5}) => false;
            json!({"image": ["a"]}) => false;
            json!({"image": "a".repeat(1025)}) => false;
            json!({"configMap": {}}) => false;
            json!({"catalogImageSource": "a"}) => false;
            json!({"catalogServiceSource": {"address": 5}}) => false;
        );
        let pods = json!([
            [], "a", {"tolerations": "all"}, {"tolerations": [{"key": 1}]}, {"tolerations": vec![json!({}); 65]},
            {"nodeSelector": {"a": 1}}, {"memoryTarget": {}}, {"memoryTarget": 1.5}, {"securityContextConfig": "loose"},
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"values": "b"}]}],
            }}}},
        ]);
        for pod in pods.as_array().unwrap() {
            assert_rows!(is_typed(json!({"grpcPodConfig": pod}).as_object().unwrap()) => false, "{pod}");
        }
    }
}
