//! `CustomResourceDefinition` v1beta1 to v1: all fields about a version move into the version.

#[cfg(test)]
mod tests;

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    crd_versions,
    json::{self, Object, default, has, non_empty, object_at, take},
    notes::UpgradeNotes,
    printer_columns::{self, ColumnRepairs},
    schema,
};
use crate::finding::{Level, code::Code};

/// Maximum size of a request to an API server; a larger CRD cannot be installed.
const REQUEST_LIMIT: usize = 3 << 20;

/// The fields that the versions of a CRD share.
pub(super) const SHARED: [&str; 4] = [
    "validation",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];

/// Minimum length of a CA bundle in PEM and base64; every certificate is longer.
const MIN_CA_BUNDLE_LEN: usize = 128;

/// Upgrades the CRD. After an error in the notes, the result is unusable.
pub(super) fn reshape(object: &mut Object, notes: &mut UpgradeNotes<'_>) {
    // Old generators wrote an empty status, and a null creation time.
    object.remove("status");
    if let Some(metadata) = object_at(object, &["metadata"])
        && !has(metadata, "creationTimestamp")
    {
        metadata.remove("creationTimestamp");
    }
    let Some(spec) = object_at(object, &["spec"]) else {
        notes.reject(Path::from(["spec"]), "spec is missing");
        return;
    };
    let preserve = match take(spec, "preserveUnknownFields") {
        None => true, // The default of v1beta1.
        Some(Value::Bool(preserve)) => preserve,
        Some(_) => {
            notes.reject(
                Path::from(["spec", "preserveUnknownFields"]),
                "preserveUnknownFields is neither true nor false",
            );
            return;
        }
    };
    if non_empty(spec, "scope").is_none() && !spec.get("scope").is_some_and(has_other_type) {
        spec.insert("scope".into(), "Namespaced".into());
        notes.change(
            Code::UpgradedAPI,
            Path::from(["spec"]),
            "is Namespaced, which was the default in v1beta1",
        );
    }
    convert(spec, notes);
    let Some(mut versions) = crd_versions::take_from(spec, notes) else {
        return;
    };
    if !copy_to_versions(spec, &mut versions, preserve, notes) {
        return;
    }
    spec.insert(
        "versions".into(),
        versions.into_iter().map(Value::Object).collect(),
    );
}

fn has_other_type(value: &Value) -> bool {
    !value.is_null() && !value.is_string()
}

/// Moves the settings of the conversion webhook into the field `webhook`.
fn convert(spec: &mut Object, notes: &mut UpgradeNotes<'_>) {
    let Some(conversion) = object_at(spec, &["conversion"]) else {
        return;
    };
    let mut client = take(conversion, "webhookClientConfig");
    let mut reviews = take(conversion, "conversionReviewVersions");
    if json::text(conversion, "strategy") == Some("Webhook") {
        if reviews
            .as_ref()
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
        {
            // The default of v1beta1; v1 requires the field.
            reviews = Some(json!(["v1beta1"]));
        }
        if let Some(Value::Object(client)) = &mut client {
            drop_placeholder(client, notes);
        }
        let mut webhook = Object::new();
        webhook.extend(client.map(|client| ("clientConfig".into(), client)));
        webhook.extend(reviews.map(|reviews| ("conversionReviewVersions".into(), reviews)));
        conversion.insert("webhook".into(), webhook.into());
    } else {
        // Without a webhook, both versions reject its settings.
        default(conversion, "strategy", "None");
    }
}

/// Removes a placeholder for the CA bundle: generators wrote a line feed there. With the placeholder, the API server does
/// not establish the CRD. Without it, the client that provides the CA bundle can still set it.
fn drop_placeholder(client: &mut Object, notes: &mut UpgradeNotes<'_>) {
    let placeholder =
        json::text(client, "caBundle").is_some_and(|bundle| bundle.len() < MIN_CA_BUNDLE_LEN);
    if placeholder {
        client.remove("caBundle");
        notes.add(
            Level::Warning,
            Code::UpgradedAPI,
            Path::from(["spec", "conversion", "webhookClientConfig", "caBundle"]),
            "has a conversion webhook with a placeholder for its CA bundle, which was removed",
            Some("set the CA bundle once the webhook has a certificate".into()),
        );
    }
}

/// Copies the shared fields into every version without its own.
fn copy_to_versions(
    spec: &mut Object,
    versions: &mut [Object],
    preserve: bool,
    notes: &mut UpgradeNotes<'_>,
) -> bool {
    let validation = take(spec, "validation");
    for key in [
        "subresources",
        "additionalPrinterColumns",
        "selectableFields",
    ] {
        if let Some(shared) = take(spec, key) {
            let path = Path::from(["spec", key]);
            if !copy_shared(key, &shared, versions, path, notes) {
                return false;
            }
        }
    }
    let mut repaired = ColumnRepairs::default();
    for version in &mut *versions {
        if let Some(subresources) = object_at(version, &["subresources"]) {
            // YAML parses a bare `status:` as null, which never enabled the subresource.
            subresources.retain(|_, subresource| !subresource.is_null());
        }
        if let Some(columns) = version.get_mut("additionalPrinterColumns") {
            let more = printer_columns::reshape(columns);
            repaired.fixed += more.fixed;
            repaired.dropped += more.dropped;
        }
    }
    report(repaired, notes);
    schemas(validation, versions, preserve, notes)
}

/// Copies a field to every version without it, unless the copies exceed the maximum size of a request.
fn copy_shared(
    key: &str,
    shared: &Value,
    versions: &mut [Object],
    path: Path,
    notes: &mut UpgradeNotes<'_>,
) -> bool {
    let sharing: Vec<_> = versions
        .iter_mut()
        .filter(|version| !has(version, key))
        .collect();
    let copies = estimated_size(shared).saturating_mul(sharing.len());
    if copies > REQUEST_LIMIT {
        let problem = format!(
            "{path} is too large to be copied to {} versions",
            sharing.len()
        );
        notes.reject(path, problem);
        return false;
    }
    for version in sharing {
        version.insert(key.into(), shared.clone());
    }
    true
}

fn report(repaired: ColumnRepairs, notes: &mut UpgradeNotes<'_>) {
    let path = || Path::from(["spec", "additionalPrinterColumns"]);
    if repaired.fixed > 0 {
        notes.warn(
            Code::UpgradedAPI,
            path(),
            format!(
                "had {} invalid path(s) or type(s) of printer columns, which were corrected",
                repaired.fixed
            ),
        );
    }
    if repaired.dropped > 0 {
        notes.warn(
            Code::UpgradedAPI,
            path(),
            format!(
                "lost {} printer column(s) without a path, which no API server accepts",
                repaired.dropped
            ),
        );
    }
}

/// Sets a structural schema in every version: its own, the shared one, or one that accepts any object.
fn schemas(
    validation: Option<Value>,
    versions: &mut [Object],
    preserve: bool,
    notes: &mut UpgradeNotes<'_>,
) -> bool {
    let has_status = |version: &Object| {
        json::object(version, "subresources")
            .is_some_and(|subresources| has(subresources, "status"))
    };
    let status = versions.iter().any(has_status);
    let path = Path::from(["spec", "validation"]);
    let shared = validation
        .and_then(|validation| structural(validation, preserve, status, path.clone(), notes));
    let mut open = 0;
    let mut or_open = |schema: Option<Value>, versions| {
        schema.unwrap_or_else(|| {
            open += versions;
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
        })
    };
    let mut sharing = 0;
    for (at, version) in versions.iter_mut().enumerate() {
        if let Some(own) = take(version, "schema") {
            let path = Path::from(["spec", "versions"]).index(at).key("schema");
            let own = structural(own, preserve, has_status(version), path, notes);
            version.insert("schema".into(), or_open(own, 1));
        } else {
            sharing += 1;
        }
    }
    let shared = or_open(shared, sharing);
    if !copy_shared("schema", &shared, versions, path, notes) {
        return false;
    }
    if open > 0 {
        notes.change(
            Code::Schema,
            Path::from(["spec"]),
            format!("has no schema for {open} version(s): they still accept any value; v1 requires a schema"),
        );
    }
    true
}

/// Returns a validation with a structural schema, or `None` if it contains no schema.
fn structural(
    validation: Value,
    preserve: bool,
    status: bool,
    path: Path,
    notes: &mut UpgradeNotes<'_>,
) -> Option<Value> {
    let Value::Object(mut validation) = validation else {
        return Some(validation); // The typed check rejects it.
    };
    let Some(mut schema) = take(&mut validation, "openAPIV3Schema") else {
        if !validation.is_empty() {
            notes.warn(
                Code::Schema,
                path,
                "has a schema outside of openAPIV3Schema: it never validated any value and was dropped",
            );
        }
        return None;
    };
    schema::make_structural(
        &mut schema,
        preserve,
        status,
        &path.key("openAPIV3Schema"),
        notes,
    );
    Some(json!({"openAPIV3Schema": schema}))
}

/// Estimates a lower bound for the length of a value as JSON.
fn estimated_size(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(|item| estimated_size(item) + 1).sum(),
        Value::Object(object) => length(object),
        Value::String(text) => text.len() + 2,
        _ => 1,
    }
}

/// Estimates a lower bound for the length of an object as JSON.
fn length(object: &Object) -> usize {
    let entry = |(key, item): (&String, &Value)| key.len() + estimated_size(item) + 4;
    object.iter().map(entry).sum()
}
