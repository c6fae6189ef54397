//! The CustomResourceDefinitions, made from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSON, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{
    bounds,
    bundle::Bundle,
    catalog_source::{CatalogSource, convert::Version, v1},
    instance::{BundleInstance, BundleInstanceStatus},
    platform::PlatformOperator,
    platform_status::{self, PlatformStatus},
};

/// A column of `kubectl get`, or of `kubectl get -o wide`: name, path, what it says.
type Column = (&'static str, &'static str, &'static str);

const BUNDLE: &[Column] = &[
    ("Type", ".spec.source.type", "Where the content comes from"),
    ("Phase", ".status.phase", "How far it has come"),
    ("Version", ".status.version", "The content's own version"),
];
const BUNDLE_WIDE: &[Column] = &[
    (
        "Resolved Source",
        ".status.resolvedSource",
        "The source in its immutable form",
    ),
    (
        "Provisioner",
        ".spec.provisionerClassName",
        "The format of the content",
    ),
    ("Package", ".status.package", "The content's own package"),
    (
        "Message",
        ".status.conditions[?(@.type==\"Unpacked\")].message",
        "What is to be said about it",
    ),
];
const INSTANCE: &[Column] = &[
    (
        "Ready",
        ".status.conditions[?(@.type==\"Ready\")].status",
        "Whether the generation is installed and healthy",
    ),
    (
        "Installed Bundle",
        ".status.installedBundleName",
        "The Bundle whose objects are in the cluster",
    ),
    (
        "Version",
        ".status.version",
        "The installed bundle's own version",
    ),
    (
        "Installed",
        ".status.conditions[?(@.type==\"Installed\")].status",
        "Whether objects of a bundle are in the cluster",
    ),
    (
        "Install State",
        ".status.conditions[?(@.type==\"Installed\")].reason",
        "Why, in one word",
    ),
    (
        "Healthy",
        ".status.conditions[?(@.type==\"Healthy\")].status",
        "Whether what is installed works",
    ),
];
const INSTANCE_WIDE: &[Column] = &[
    ("Provisioner", ".spec.provisionerClassName", "Who installs"),
    (
        "Package",
        ".status.package",
        "The installed bundle's own package",
    ),
    (
        "Progressing",
        ".status.conditions[?(@.type==\"Progressing\")].reason",
        "What is going on",
    ),
    (
        "Message",
        ".status.conditions[?(@.type==\"Progressing\")].message",
        "What is to be said about it",
    ),
];

const STATUS: &[Column] = &[
    (
        "Available",
        ".status.conditions[?(@.type==\"Available\")].status",
        "Whether all platform operators are installed",
    ),
    (
        "Progressing",
        ".status.conditions[?(@.type==\"Progressing\")].status",
        "Whether some are being installed",
    ),
    (
        "Degraded",
        ".status.conditions[?(@.type==\"Degraded\")].status",
        "Whether some have been failing for long",
    ),
    (
        "Upgradeable",
        ".status.conditions[?(@.type==\"Upgradeable\")].status",
        "Whether the cluster may be upgraded",
    ),
];
const STATUS_WIDE: &[Column] = &[
    (
        "Cluster",
        ".status.clusterMinor",
        "The minor version of the cluster",
    ),
    (
        "Message",
        ".status.conditions[?(@.type==\"Upgradeable\")].message",
        "What speaks against an upgrade",
    ),
];
const OPERATOR: &[Column] = &[
    ("Package", ".spec.package.name", "The package"),
    (
        "Version",
        ".status.chosenBundle.version",
        "The version that is installed, or being installed",
    ),
    (
        "Installed",
        ".status.conditions[?(@.type==\"Installed\")].status",
        "Whether it is installed",
    ),
    (
        "Install State",
        ".status.conditions[?(@.type==\"Installed\")].reason",
        "Why, in one word",
    ),
    (
        "Upgradeable",
        ".status.conditions[?(@.type==\"Upgradeable\")].status",
        "Whether it runs on the next minor version of the cluster",
    ),
];
const OPERATOR_WIDE: &[Column] = &[
    (
        "Channel",
        ".status.chosenBundle.channel",
        "The channel that is followed",
    ),
    (
        "Catalog",
        ".status.chosenBundle.catalog",
        "The catalog it comes from",
    ),
    (
        "Next",
        ".status.nextAvailable.version",
        "The version that could be next",
    ),
    (
        "Waits For",
        ".status.nextAvailable.waitsFor",
        "What the next version waits for",
    ),
    (
        "Message",
        ".status.conditions[?(@.type==\"Installed\")].message",
        "What is to be said about it",
    ),
];
const CATALOG: &[Column] = &[
    ("Display", ".spec.displayName", "Its name for people"),
    ("Type", ".spec.sourceType", "Where it comes from"),
    ("Publisher", ".spec.publisher", "Who publishes it"),
];
const CATALOG_WIDE: &[Column] = &[
    // The first of them that is there: who names an image, an address or a ConfigMap by itself says no type.
    (
        "Source",
        ".spec['catalogImageSource.catalogImage','catalogServiceSource.address','configMapSource.configMap','image','address','configMap']",
        "The image, the address or the ConfigMap",
    ),
    (
        "State",
        ".status.connectionState.lastObservedState",
        "How the connection to its server is",
    ),
    ("Reason", ".status.reason", "What is wrong, in one word"),
];

/// The definitions that are ours, as they are installed.
pub fn all() -> [CustomResourceDefinition; 3] {
    let mut status = finish(
        PlatformStatus::crd(),
        bounds::INSTANCE_NAME,
        STATUS,
        STATUS_WIDE,
    );
    for schema in schemas(&mut status) {
        let only = JSONSchemaProps {
            enum_: Some(vec![JSON(platform_status::NAME.into())]),
            ..name(bounds::INSTANCE_NAME)
        };
        restrict(schema, only);
    }
    let mut instance = finish(
        BundleInstance::crd(),
        bounds::INSTANCE_NAME,
        INSTANCE,
        INSTANCE_WIDE,
    );
    schemas(&mut instance).for_each(observe_nothing);
    [
        finish(Bundle::crd(), bounds::BUNDLE_NAME, BUNDLE, BUNDLE_WIDE),
        instance,
        status,
    ]
}

/// Adds the default of a status that is not written yet. Clients that compare `observedGeneration` with the generation, as
/// kstatus does, wait for the first write then.
fn observe_nothing(schema: &mut JSONSchemaProps) {
    let properties = schema.properties.as_mut();
    if let Some(status) = properties.and_then(|properties| properties.get_mut("status")) {
        let default = json!({"observedGeneration": BundleInstanceStatus::NOT_OBSERVED});
        status.default = Some(JSON(default));
    }
}

/// Definitions of others, for clusters that lack them: whoever has one keeps it. They are in no install file, and in a
/// folder of their own, for somebody may apply the whole folder of ours.
pub fn foreign() -> [CustomResourceDefinition; 2] {
    [
        finish(
            PlatformOperator::crd(),
            bounds::INSTANCE_NAME,
            OPERATOR,
            OPERATOR_WIDE,
        ),
        finish(CatalogSource::crd(), 253, CATALOG, CATALOG_WIDE),
    ]
}

/// Returns the schema of CatalogSources in a version of the API.
pub fn catalog_source_schema(version: Version) -> Option<Value> {
    let definition = finish(CatalogSource::crd(), 253, CATALOG, CATALOG_WIDE);
    let stored = definition.spec.versions.into_iter().next()?;
    let asked = match version {
        Version::V1alpha1 => stored,
        Version::V1 => v1(stored),
    };
    serde_json::to_value(asked.schema?.open_api_v3_schema?).ok()
}

/// What the types cannot say.
fn finish(
    mut definition: CustomResourceDefinition,
    name_length: u32,
    columns: &[Column],
    wide: &[Column],
) -> CustomResourceDefinition {
    let age = CustomResourceColumnDefinition {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..CustomResourceColumnDefinition::default()
    };
    let columns: Vec<_> = columns
        .iter()
        .map(|&(name, path, description)| column(name, path, description, None))
        .chain([age])
        .chain(
            wide.iter()
                .map(|&(name, path, description)| column(name, path, description, Some(1))),
        )
        .collect();
    for version in &mut definition.spec.versions {
        version.additional_printer_columns = Some(columns.clone());
    }
    for schema in schemas(&mut definition) {
        tidy(schema);
        restrict(schema, name(name_length));
    }
    definition
}

fn schemas(
    definition: &mut CustomResourceDefinition,
) -> impl Iterator<Item = &mut JSONSchemaProps> {
    definition
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

fn column(
    name: &str,
    path: &str,
    description: &str,
    priority: Option<i32>,
) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: "string".to_owned(),
        json_path: path.to_owned(),
        description: Some(description.to_owned()),
        priority,
        ..CustomResourceColumnDefinition::default()
    }
}

/// The apiserver takes restrictions of a name here, and words them as it does for its own kinds.
fn restrict(schema: &mut JSONSchemaProps, name: JSONSchemaProps) {
    let metadata = JSONSchemaProps {
        type_: Some("object".to_owned()),
        properties: Some([("name".to_owned(), name)].into()),
        ..JSONSchemaProps::default()
    };
    if let Some(properties) = &mut schema.properties {
        properties.insert("metadata".to_owned(), metadata);
    }
}

fn name(length: u32) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some("string".to_owned()),
        max_length: Some(length.into()),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place that could grow without end, or that `kubectl explain` has nothing to say about.
    fn lacking(schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
        let bounded = match schema.type_.as_deref() {
            Some("string") => {
                schema.max_length.is_some() || schema.enum_.is_some() || schema.format.is_some()
            }
            Some("array") => schema.max_items.is_some(),
            Some("object") => schema.properties.is_some() || schema.max_properties.is_some(),
            Some("boolean" | "integer") => true,
            // A number or a text.
            _ => schema.x_kubernetes_int_or_string == Some(true) && schema.max_length.is_some(),
        };
        // These have nothing to say.
        if !bounded && path != "PlatformStatus.spec" {
            found.push(format!("{path}: no bound"));
        }
        for (name, property) in schema.properties.iter().flatten() {
            let path = format!("{path}.{name}");
            if property.description.as_ref().is_none_or(String::is_empty) {
                found.push(format!("{path}: no description"));
            }
            lacking(property, &path, found);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            lacking(items, &format!("{path}[]"), found);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            lacking(values, &format!("{path}.*"), found);
        }
    }

    #[test]
    fn everything_is_bounded_and_described() {
        for definition in all().into_iter().chain(foreign()) {
            for version in &definition.spec.versions {
                let schema = version.schema.as_ref().unwrap();
                let mut schema = schema.open_api_v3_schema.clone().unwrap();
                let properties = schema.properties.as_mut().unwrap();
                assert!(properties.contains_key("spec") && properties.contains_key("status"));
                properties.remove("metadata");
                let kind = &definition.spec.names.kind;
                let mut found = Vec::new();
                lacking(&schema, kind, &mut found);
                assert_eq!(found, [""; 0]);
            }
        }
    }

    #[test]
    fn only_what_is_ours_is_in_the_install_file() {
        let name =
            |definition: &CustomResourceDefinition| definition.metadata.name.clone().unwrap();
        let installed: Vec<String> =
            super::super::install::objects(&super::super::install::Options::default())
                .iter()
                .filter(|object| object["kind"] == "CustomResourceDefinition")
                .filter_map(|object| Some(object["metadata"]["name"].as_str()?.to_owned()))
                .collect();
        assert_eq!(installed, all().map(|definition| name(&definition)));
        for definition in foreign() {
            assert_ne!(definition.spec.group, super::super::GROUP);
            assert!(!installed.contains(&name(&definition)));
        }
    }
}
