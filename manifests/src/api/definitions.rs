//! The CustomResourceDefinitions, made from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use super::{bounds, bundle::Bundle, instance::BundleInstance};

/// Both definitions, as they are installed.
pub fn all() -> [CustomResourceDefinition; 2] {
    [
        finish(Bundle::crd(), bounds::BUNDLE_NAME),
        finish(BundleInstance::crd(), bounds::INSTANCE_NAME),
    ]
}

/// What the types cannot say.
fn finish(mut definition: CustomResourceDefinition, name_length: u32) -> CustomResourceDefinition {
    let schemas = definition
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    for schema in schemas {
        tidy(schema);
        if let Some(properties) = &mut schema.properties {
            properties.insert("metadata".to_owned(), metadata(name_length));
        }
    }
    definition
}

/// The apiserver takes restrictions of a name here, and words them as it does for its own kinds.
fn metadata(name_length: u32) -> JSONSchemaProps {
    let name = JSONSchemaProps {
        type_: Some("string".to_owned()),
        max_length: Some(name_length.into()),
        ..JSONSchemaProps::default()
    };
    JSONSchemaProps {
        type_: Some("object".to_owned()),
        properties: Some([("name".to_owned(), name)].into()),
        ..JSONSchemaProps::default()
    }
}

/// Goes through a schema and all below it.
fn tidy(schema: &mut JSONSchemaProps) {
    // An `Option` is a field that may be missing, not one that may be null: null would count as a member of a union, and
    // rukpak's definitions take none either.
    schema.nullable = None;
    // Comments end their lines where the source's end; `kubectl explain` has lines of its own.
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
        .for_each(tidy);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        tidy(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy(values);
    }
}
