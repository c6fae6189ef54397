//! Validation by the API server beyond types and lengths: unions, rules between fields, and merge strategies of lists.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::limits;

/// Provisioner classes. Those of this project are `core.rukpak.io/<format>` and `core-rukpak-io-<format>`; others may be
/// plain words.
pub(super) const CLASS: &str = r"^(core\.rukpak\.io/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// Names of Secrets, ConfigMaps and ServiceAccounts.
pub(super) const NAME: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// Names like [`NAME`], or an empty string, which means none in objects of rukpak.
pub(super) const NAME_OR_NONE: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$";
/// Names of namespaces.
pub(super) const NAMESPACE: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Text without spaces and control characters.
pub(super) const WORD: &str = r"^[!-~]+$";
/// Text without control characters.
pub(super) const PRINTABLE: &str = r"^[ -~]+$";
/// A semantic version.
pub(super) const VERSION: &str = r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$";
/// A SHA-256 digest.
pub(super) const DIGEST: &str = "^sha256:[0-9a-f]{64}$";
/// A full commit hash, SHA-1 or SHA-256.
pub(super) const COMMIT: &str = r"^[0-9a-fA-F]{40}([0-9a-fA-F]{24})?$";
/// An HTTP or HTTPS URL.
pub(super) const HTTP_URL: &str = r"^https?://[!-~]+$";

/// Members of a source, which are also its types.
pub(super) const SOURCES: &[&str] = &["image", "git", "http", "configMaps", "upload"];

/// Returns a schema that requires exactly one of several members. The API server's message for a violation equals rukpak's.
pub(super) fn one_of(members: &[&str]) -> Value {
    members
        .iter()
        .map(|member| json!({"required": [member]}))
        .collect()
}

/// Returns the rules for the `source` field. Messages call it `at`.
fn source_rules(at: &str) -> Vec<Value> {
    let mut rules: Vec<Value> = SOURCES
        .iter()
        .map(|member| {
            json!({
                "rule": format!("self.source.type != '{member}' || has(self.source.{member})"),
                "message": format!("{at}.{member} must be set for source type \"{member}\""),
                "reason": "FieldValueRequired",
                "fieldPath": format!(".source.{member}"),
            })
        })
        .collect();
    let within = "directory must define path within the repository";
    rules.extend(
        [
            (r"^\\.\\.(/|$)", "begins with \"../\""),
            (r"/\\.\\.(/|$)", "contains \"..\""),
        ]
        .map(|(pattern, problem)| {
            json!({
                "rule": format!(
                    "!has(self.source.git) || !has(self.source.git.directory) || !self.source.git.directory.matches('{pattern}')"
                ),
                "message": format!("{at}.git.directory {problem}: {within}"),
                "fieldPath": ".source.git.directory",
            })
        }),
    );
    rules
}

/// Returns the rules of a Bundle's spec.
pub(super) fn bundle() -> Vec<Value> {
    let mut rules = source_rules("bundle.spec.source");
    rules.push(json!({
        "rule": "self == oldSelf",
        "message": "bundle.spec is immutable",
    }));
    rules
}

/// Returns the rules of the spec in a template.
pub(super) fn template() -> Vec<Value> {
    source_rules("spec.template.spec.source")
}

/// Returns the rules of a BundleInstance's spec.
pub(super) fn instance() -> Value {
    json!([{
        "rule": "!has(oldSelf.installNamespace) || (has(self.installNamespace) && self.installNamespace == oldSelf.installNamespace)",
        "message": "spec.installNamespace is immutable once set: to move the installed objects, delete and recreate the \
                    BundleInstance",
    }])
}

/// Returns the rules of a PlatformOperator's spec.
pub(super) fn platform_operator() -> Value {
    json!([
        {
            // `package` is a reserved word in CEL.
            "rule": "self.__package__.name == oldSelf.__package__.name",
            "message": "spec.package.name is immutable: create another PlatformOperator for another package",
            "fieldPath": ".package.name",
        },
        {
            "rule": "!has(oldSelf.bundle) || !has(oldSelf.bundle.installNamespace) || has(self.bundle)",
            "message": "spec.bundle.installNamespace is immutable once set: to move the installed objects, delete and \
                        recreate the PlatformOperator",
            "fieldPath": ".bundle",
        },
        {
            "rule": "!has(self.approvedVersion) || self.upgradeApproval == 'Manual'",
            "message": "spec.approvedVersion requires spec.upgradeApproval Manual: set it to Manual, or remove \
                        spec.approvedVersion",
            "fieldPath": ".approvedVersion",
        },
        {
            "rule": "!has(self.approvedRights) || self.approveNewRights == 'Manual'",
            "message": "spec.approvedRights requires spec.approveNewRights Manual: set it to Manual, or remove \
                        spec.approvedRights",
            "fieldPath": ".approvedRights",
        },
    ])
}

/// Returns the rules of a PlatformOperator's bundle overrides.
pub(super) fn bundle_overrides() -> Value {
    json!([{
        "rule": "!has(oldSelf.installNamespace) || (has(self.installNamespace) && self.installNamespace == oldSelf.installNamespace)",
        "message": "spec.bundle.installNamespace is immutable once set: to move the installed objects, delete and recreate \
                    the PlatformOperator",
    }])
}

/// Returns the rule that a path is inside of the bundle.
pub(super) fn config_map() -> Value {
    json!([{
        "rule": r"!has(self.path) || !self.path.matches('^/|(^|/)\\.\\.(/|$)')",
        "message": "path is outside bundle root",
        "messageExpression": r#"'path is invalid: "' + self.path + '" is outside bundle root: use a relative path without ".."'"#,
    }])
}

/// Returns the schema of a list of conditions with the type as the key, so that several writers can each own their
/// conditions.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    to_schema(json!({
        "type": "array",
        "maxItems": limits::CONDITIONS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "Type of the condition.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "description": "Status of the condition.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "description": "CamelCase reason of the status.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Message for people: object, problem and remedy.",
                    "type": "string",
                    "maxLength": limits::MESSAGE,
                },
                "lastTransitionTime": {
                    "description": "Time of the last change of status.",
                    "type": "string",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "description": "Generation of the object that the condition describes: if it is less than \
                                    metadata.generation, the condition is outdated.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
    }))
}

/// Returns the schema of a Subscription's config. Its fields belong to the pod API, not to ours.
pub(super) fn deployment_config(_: &mut SchemaGenerator) -> Schema {
    to_schema(json!({
        "type": "object",
        "maxProperties": 64,
        "x-kubernetes-preserve-unknown-fields": true,
    }))
}

/// Returns the schema of a template label, with the limits of the API server.
pub(super) fn label() -> Value {
    json!({
        "type": "string",
        "maxLength": 63,
        "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    })
}

/// Returns the schema of a name, version or similar value.
pub(super) fn word() -> Value {
    json!({"type": "string", "maxLength": limits::WORD})
}

/// Returns the schema of one annotation of a template.
pub(super) fn annotation() -> Value {
    json!({"type": "string", "maxLength": limits::ANNOTATION})
}

/// Adds metadata fields that rukpak's CRD accepts in a template and ignores.
pub(super) fn ignored_metadata(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for name in ["name", "namespace"] {
        properties.insert(
            name.to_owned(),
            json!({
                "description": "Ignored: the name of a Bundle is derived from the template, and a Bundle has no namespace.",
                "type": "string",
                "maxLength": 253,
            }),
        );
    }
    properties.insert(
        "finalizers".to_owned(),
        json!({
            "description": "Ignored.",
            "type": "array",
            "maxItems": 16,
            "items": {"type": "string", "maxLength": 317},
        }),
    );
}

/// Requires fields that deserialize to an empty value if absent, in place of their defaults.
pub(super) fn named(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let had_default = |(name, property): (&String, &mut Value)| {
        property.as_object_mut()?.remove("default")?;
        Some(Value::from(name.as_str()))
    };
    let names: Vec<Value> = properties.iter_mut().filter_map(had_default).collect();
    schema.insert("required".to_owned(), names.into());
}

/// Converts the value of a `json!` macro to a schema.
fn to_schema(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}
