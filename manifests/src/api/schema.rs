//! What the apiserver checks besides types and lengths: unions, rules between fields, and how lists are merged.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::bounds;

/// The classes that this project serves are `core.rukpak.io/<format>` and `core-rukpak-io-<format>`; others may be plain
/// words.
pub(super) const CLASS: &str = r"^(core\.rukpak\.io/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// Names of Secrets, ConfigMaps and ServiceAccounts.
pub(super) const NAME: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// The same, where rukpak's objects may have an empty name for none.
pub(super) const NAME_OR_NONE: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$";
/// Names of namespaces.
pub(super) const NAMESPACE: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Neither spaces nor control characters.
pub(super) const WORD: &str = r"^[!-~]+$";
/// No control characters.
pub(super) const PRINTABLE: &str = r"^[ -~]+$";
/// A semantic version.
pub(super) const VERSION: &str = r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$";
/// A SHA-256.
pub(super) const DIGEST: &str = "^sha256:[0-9a-f]{64}$";
/// All digits of a commit's hash, SHA-1 or SHA-256.
pub(super) const COMMIT: &str = r"^[0-9a-fA-F]{40}([0-9a-fA-F]{24})?$";
/// What is asked for by HTTP.
pub(super) const HTTP_URL: &str = r"^https?://[!-~]+$";

/// The members of a source, which are also its types.
pub(super) const SOURCES: &[&str] = &["image", "git", "http", "configMaps", "upload"];

/// Exactly one of several members: the apiserver's own words for it are rukpak's.
pub(super) fn one_of(members: &[&str]) -> Value {
    members
        .iter()
        .map(|member| json!({"required": [member]}))
        .collect()
}

/// What has to hold between the parts of the `source` next to it. `at` is what to call that source.
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
        .map(|(pattern, what)| {
            json!({
                "rule": format!(
                    "!has(self.source.git) || !has(self.source.git.directory) || !self.source.git.directory.matches('{pattern}')"
                ),
                "message": format!("{at}.git.directory {what}: {within}"),
                "fieldPath": ".source.git.directory",
            })
        }),
    );
    rules
}

/// The rules of a Bundle's spec.
pub(super) fn bundle() -> Vec<Value> {
    let mut rules = source_rules("bundle.spec.source");
    rules.push(json!({
        "rule": "self == oldSelf",
        "message": "bundle.spec is immutable",
    }));
    rules
}

/// The rules of the spec in a template.
pub(super) fn template() -> Vec<Value> {
    source_rules("spec.template.spec.source")
}

/// The rules of a BundleInstance's spec.
pub(super) fn instance() -> Value {
    json!([{
        "rule": "!has(oldSelf.installNamespace) || (has(self.installNamespace) && self.installNamespace == oldSelf.installNamespace)",
        "message": "spec.installNamespace is immutable once set: to move what is installed, delete the BundleInstance and create it anew",
    }])
}

/// The rules of a PlatformOperator's spec.
pub(super) fn platform_operator() -> Value {
    json!([
        {
            // `package` is a word of CEL's own.
            "rule": "self.__package__.name == oldSelf.__package__.name",
            "message": "spec.package.name is immutable: another package is another PlatformOperator",
            "fieldPath": ".package.name",
        },
        {
            "rule": "!has(oldSelf.bundle) || !has(oldSelf.bundle.installNamespace) || has(self.bundle)",
            "message": "spec.bundle.installNamespace is immutable once set: to move what is installed, delete the PlatformOperator and create it anew",
            "fieldPath": ".bundle",
        },
        {
            "rule": "!has(self.approvedVersion) || self.upgradeApproval == 'Manual'",
            "message": "spec.approvedVersion is for spec.upgradeApproval Manual: set that, or remove the version",
            "fieldPath": ".approvedVersion",
        },
        {
            "rule": "!has(self.approvedRights) || self.approveNewRights == 'Manual'",
            "message": "spec.approvedRights is for spec.approveNewRights Manual: set that, or remove the digest",
            "fieldPath": ".approvedRights",
        },
    ])
}

/// The rules of what a PlatformOperator decides about its bundle.
pub(super) fn bundle_overrides() -> Value {
    json!([{
        "rule": "!has(oldSelf.installNamespace) || (has(self.installNamespace) && self.installNamespace == oldSelf.installNamespace)",
        "message": "spec.bundle.installNamespace is immutable once set: to move what is installed, delete the PlatformOperator and create it anew",
    }])
}

/// A path stays in the bundle.
pub(super) fn config_map() -> Value {
    json!([{
        "rule": r"!has(self.path) || !self.path.matches('^/|(^|/)\\.\\.(/|$)')",
        "message": "path is outside bundle root",
        "messageExpression": r#"'path is invalid: "' + self.path + '" is outside bundle root: write a relative path without ".."'"#,
    }])
}

/// Whoever writes a condition owns it alone, so that several writers get along.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    of(json!({
        "type": "array",
        "maxItems": bounds::CONDITIONS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "What it is about.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "description": "Whether it is so.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "description": "Why, in one word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Why, in words: which object, what is wrong with it, and what to do about it.",
                    "type": "string",
                    "maxLength": bounds::MESSAGE,
                },
                "lastTransitionTime": {
                    "description": "Since when status has been what it is.",
                    "type": "string",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "description": "The generation of the object that this is about: if it is less than metadata.generation, the condition is out of date.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
    }))
}

/// Anything below it belongs to the format of a Deployment's pods, not to us.
pub(super) fn deployment_config(_: &mut SchemaGenerator) -> Schema {
    of(json!({
        "type": "object",
        "maxProperties": 64,
        "x-kubernetes-preserve-unknown-fields": true,
    }))
}

/// Labels of a template: what the apiserver will ask of the Bundle's.
pub(super) fn label() -> Value {
    json!({
        "type": "string",
        "maxLength": 63,
        "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    })
}

/// A name, a version or the like, among others.
pub(super) fn word() -> Value {
    json!({"type": "string", "maxLength": bounds::WORD})
}

/// One annotation of a template.
pub(super) fn annotation() -> Value {
    json!({"type": "string", "maxLength": bounds::ANNOTATION})
}

/// rukpak's definition takes these in the metadata of a template and does nothing with them; so does this.
pub(super) fn ignored_metadata(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for name in ["name", "namespace"] {
        properties.insert(
            name.to_owned(),
            json!({
                "description": "Ignored: a Bundle's name is made from the template, and it has no namespace.",
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

/// What the types read as empty has to be there in what is written: no default that stands for it.
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

/// `schema_with` wants a schema, and `json!` makes a value.
fn of(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}
