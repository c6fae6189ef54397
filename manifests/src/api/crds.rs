//! The CustomResourceDefinitions, generated from the API types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSON, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, BundleInstanceStatus},
    catalog_source::{CatalogSource, convert::Version, v1},
    limits,
    platform_operator::PlatformOperator,
    platform_status::{self, PlatformStatus},
};

/// A column of `kubectl get`, or of `kubectl get -o wide`: name, path and description.
type Column = (&'static str, &'static str, &'static str);

const BUNDLE: &[Column] = &[
    ("Type", ".spec.source.type", "Type of the source"),
    ("Phase", ".status.phase", "Phase of unpacking"),
    ("Version", ".status.version", "Version of the bundle"),
];
const BUNDLE_WIDE: &[Column] = &[
    (
        "Resolved Source",
        ".status.resolvedSource",
        "Source, pinned to a digest or commit",
    ),
    (
        "Provisioner",
        ".spec.provisionerClassName",
        "Provisioner class of the content",
    ),
    ("Package", ".status.package", "Package of the bundle"),
    (
        "Message",
        ".status.conditions[?(@.type==\"Unpacked\")].message",
        "Message of the most relevant condition",
    ),
];
const INSTANCE: &[Column] = &[
    (
        "Ready",
        ".status.conditions[?(@.type==\"Ready\")].status",
        "Whether the current generation is installed and healthy",
    ),
    (
        "Installed Bundle",
        ".status.installedBundleName",
        "The Bundle whose objects are in the cluster",
    ),
    (
        "Version",
        ".status.version",
        "Version of the installed bundle",
    ),
    (
        "Installed",
        ".status.conditions[?(@.type==\"Installed\")].status",
        "Whether objects of a bundle are in the cluster",
    ),
    (
        "Install State",
        ".status.conditions[?(@.type==\"Installed\")].reason",
        "Reason of the condition",
    ),
    (
        "Healthy",
        ".status.conditions[?(@.type==\"Healthy\")].status",
        "Health of the installed objects",
    ),
];
const INSTANCE_WIDE: &[Column] = &[
    (
        "Provisioner",
        ".spec.provisionerClassName",
        "Provisioner class that installs the bundle",
    ),
    (
        "Package",
        ".status.package",
        "Package of the installed bundle",
    ),
    (
        "Progressing",
        ".status.conditions[?(@.type==\"Progressing\")].reason",
        "State of the current change",
    ),
    (
        "Message",
        ".status.conditions[?(@.type==\"Progressing\")].message",
        "Message of the most relevant condition",
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
        "Whether platform operators are being installed",
    ),
    (
        "Degraded",
        ".status.conditions[?(@.type==\"Degraded\")].status",
        "Whether platform operators have been failing for long",
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
        "Reasons that block an upgrade of the cluster",
    ),
];
const OPERATOR: &[Column] = &[
    ("Package", ".spec.package.name", "Name of the package"),
    (
        "Version",
        ".status.chosenBundle.version",
        "Version that is installed or being installed",
    ),
    (
        "Installed",
        ".status.conditions[?(@.type==\"Installed\")].status",
        "Whether the package is installed",
    ),
    (
        "Install State",
        ".status.conditions[?(@.type==\"Installed\")].reason",
        "Reason of the condition",
    ),
    (
        "Upgradeable",
        ".status.conditions[?(@.type==\"Upgradeable\")].status",
        "Whether the operator supports the next minor version of the cluster",
    ),
];
const OPERATOR_WIDE: &[Column] = &[
    (
        "Channel",
        ".status.chosenBundle.channel",
        "Channel of the chosen bundle",
    ),
    (
        "Catalog",
        ".status.chosenBundle.catalog",
        "Catalog of the chosen bundle",
    ),
    (
        "Next",
        ".status.nextAvailable.version",
        "Next version of the upgrade path",
    ),
    (
        "Waits For",
        ".status.nextAvailable.waitsFor",
        "Reason why the next version is not installed yet",
    ),
    (
        "Message",
        ".status.conditions[?(@.type==\"Installed\")].message",
        "Message of the most relevant condition",
    ),
];
const CATALOG: &[Column] = &[
    ("Display", ".spec.displayName", "Display name"),
    ("Type", ".spec.sourceType", "Type of the source"),
    ("Publisher", ".spec.publisher", "Publisher of the catalog"),
];
const CATALOG_WIDE: &[Column] = &[
    // The first of these paths that exists: a CatalogSource with a member such as `catalogImageSource` has no type.
    (
        "Source",
        ".spec['catalogImageSource.catalogImage','catalogServiceSource.address','configMapSource.configMap','image','address','configMap']",
        "Image, address or ConfigMap",
    ),
    (
        "State",
        ".status.connectionState.lastObservedState",
        "State of the connection to the catalog server",
    ),
    ("Reason", ".status.reason", "Reason of the problem"),
];

/// Returns the CRDs of this project, as they are installed.
pub fn all() -> [CustomResourceDefinition; 3] {
    let mut status = complete(
        PlatformStatus::crd(),
        limits::INSTANCE_NAME,
        STATUS,
        STATUS_WIDE,
    );
    for schema in schemas(&mut status) {
        let only = JSONSchemaProps {
            enum_: Some(vec![JSON(platform_status::NAME.into())]),
            ..name(limits::INSTANCE_NAME)
        };
        add_limits(schema, only);
    }
    let mut instance = complete(
        BundleInstance::crd(),
        limits::INSTANCE_NAME,
        INSTANCE,
        INSTANCE_WIDE,
    );
    schemas(&mut instance).for_each(observe_nothing);
    [
        complete(Bundle::crd(), limits::BUNDLE_NAME, BUNDLE, BUNDLE_WIDE),
        instance,
        status,
    ]
}

/// Adds the default of a status that is not written yet, so that clients that compare `observedGeneration` with the
/// generation, as kstatus does, wait for the first write.
fn observe_nothing(schema: &mut JSONSchemaProps) {
    let properties = schema.properties.as_mut();
    if let Some(status) = properties.and_then(|properties| properties.get_mut("status")) {
        let default = json!({"observedGeneration": BundleInstanceStatus::NOT_OBSERVED});
        status.default = Some(JSON(default));
    }
}

/// Returns CRDs of other projects, for clusters that lack them; existing CRDs stay in place. They are in no install file,
/// and in a separate directory, because a user may apply the whole directory of our CRDs.
pub fn optional_crds() -> [CustomResourceDefinition; 2] {
    [
        complete(
            PlatformOperator::crd(),
            limits::INSTANCE_NAME,
            OPERATOR,
            OPERATOR_WIDE,
        ),
        complete(CatalogSource::crd(), 253, CATALOG, CATALOG_WIDE),
    ]
}

/// Returns the schema of CatalogSources in a version of the API.
pub fn catalog_source_schema(version: Version) -> Option<Value> {
    let crd = complete(CatalogSource::crd(), 253, CATALOG, CATALOG_WIDE);
    let stored = crd.spec.versions.into_iter().next()?;
    let requested = match version {
        Version::V1alpha1 => stored,
        Version::V1 => v1(stored),
    };
    serde_json::to_value(requested.schema?.open_api_v3_schema?).ok()
}

/// Adds the parts of a CRD that the types cannot express.
fn complete(
    mut crd: CustomResourceDefinition,
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
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns.clone());
    }
    for schema in schemas(&mut crd) {
        normalize(schema);
        add_limits(schema, name(name_length));
    }
    crd
}

fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    crd.spec
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

/// Limits `metadata.name`. The API server supports limits of a name here, with the same messages as for its own kinds.
fn add_limits(schema: &mut JSONSchemaProps, name: JSONSchemaProps) {
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

/// Normalizes a schema and all schemas in it.
fn normalize(schema: &mut JSONSchemaProps) {
    // An `Option` is a field that may be absent, not null: null would count as a member of a union, and rukpak's CRDs do
    // not accept it either.
    schema.nullable = None;
    // Doc comments have the line breaks of the source, but `kubectl explain` wraps lines itself.
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
        .for_each(normalize);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        normalize(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        normalize(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::install;

    /// Collects the fields without a size limit, and those that `kubectl explain` cannot describe.
    fn lacking(schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
        let bounded = match schema.type_.as_deref() {
            Some("string") => {
                schema.max_length.is_some() || schema.enum_.is_some() || schema.format.is_some()
            }
            Some("array") => schema.max_items.is_some(),
            Some("object") => schema.properties.is_some() || schema.max_properties.is_some(),
            Some("boolean" | "integer") => true,
            // An integer or a string.
            _ => schema.x_kubernetes_int_or_string == Some(true) && schema.max_length.is_some(),
        };
        // A PlatformStatus has an empty spec.
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
    fn fields_are_bounded_and_described() {
        for crd in all().into_iter().chain(optional_crds()) {
            for version in &crd.spec.versions {
                let schema = version.schema.as_ref().unwrap();
                let mut schema = schema.open_api_v3_schema.clone().unwrap();
                let properties = schema.properties.as_mut().unwrap();
                assert!(properties.contains_key("spec") && properties.contains_key("status"));
                properties.remove("metadata");
                let mut found = Vec::new();
                lacking(&schema, &crd.spec.names.kind, &mut found);
                assert_eq!(found, [""; 0]);
            }
        }
    }

    #[test]
    fn install_file_has_only_our_crds() {
        let objects = install::objects(&install::Options::default()).into_iter();
        let crds = objects.filter(|object| object["kind"] == "CustomResourceDefinition");
        let names: Vec<Value> = crds.map(|mut crd| crd["metadata"]["name"].take()).collect();
        assert_eq!(names, all().map(|crd| crd.metadata.name.unwrap()));
        for crd in optional_crds() {
            assert_ne!(crd.spec.group, crate::api::GROUP);
            assert!(!names.contains(&crd.metadata.name.into()));
        }
    }
}
