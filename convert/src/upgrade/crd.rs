//! `CustomResourceDefinition` v1beta1 to v1: everything about a version moves into the version.

#[cfg(test)]
mod tests;

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    columns::{self, Repaired},
    json::{self, Object, default, filled, has, object_at, take},
    notes::Notes,
    schema, versions,
};
use crate::{code::Code, report::Level};

/// The largest request an API server takes; a definition beyond it cannot be installed.
const REQUEST_LIMIT: usize = 3 << 20;

/// The fields that the versions of a definition share.
pub(super) const SHARED: [&str; 4] = [
    "validation",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];

/// No certificate is as short in PEM and base64.
const SHORTEST_BUNDLE: usize = 128;

/// Reshapes the definition; on an error in the notes it is of no use.
pub(super) fn reshape(object: &mut Object, notes: &mut Notes<'_>) {
    // Old generators wrote an empty status, and the time at which nothing was created.
    object.remove("status");
    if let Some(metadata) = object_at(object, &["metadata"])
        && !has(metadata, "creationTimestamp")
    {
        metadata.remove("creationTimestamp");
    }
    let Some(spec) = object_at(object, &["spec"]) else {
        notes.refuse(Path::from(["spec"]), "it has no spec");
        return;
    };
    let preserve = match take(spec, "preserveUnknownFields") {
        None => true, // The default of v1beta1.
        Some(Value::Bool(preserve)) => preserve,
        Some(_) => {
            notes.refuse(
                Path::from(["spec", "preserveUnknownFields"]),
                "preserveUnknownFields is neither true nor false",
            );
            return;
        }
    };
    if filled(spec, "scope").is_none() && !spec.get("scope").is_some_and(has_other_type) {
        spec.insert("scope".into(), "Namespaced".into());
        notes.change(
            Code::UpgradedAPI,
            Path::from(["spec"]),
            "is Namespaced, which v1beta1 took for granted",
        );
    }
    convert(spec, notes);
    let Some(mut versions) = versions::take_from(spec, notes) else {
        return;
    };
    if !spread(spec, &mut versions, preserve, notes) {
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

/// The conversion webhook got a folder of its own.
fn convert(spec: &mut Object, notes: &mut Notes<'_>) {
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
            // What v1beta1 took their absence for; v1 demands them.
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
        // Without a webhook both versions refuse its settings.
        default(conversion, "strategy", "None");
    }
}

/// Generators wrote a line feed where the certificate was to go. While it stands there the API server does not establish
/// the definition; without it, it does, and whoever brings the certificate can still set it.
fn drop_placeholder(client: &mut Object, notes: &mut Notes<'_>) {
    let placeholder =
        json::text(client, "caBundle").is_some_and(|bundle| bundle.len() < SHORTEST_BUNDLE);
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

/// Moves what the versions shared into every version that has none of its own.
fn spread(
    spec: &mut Object,
    versions: &mut [Object],
    preserve: bool,
    notes: &mut Notes<'_>,
) -> bool {
    let validation = take(spec, "validation");
    for key in [
        "subresources",
        "additionalPrinterColumns",
        "selectableFields",
    ] {
        if let Some(shared) = take(spec, key) {
            let path = Path::from(["spec", key]);
            if !share(key, &shared, versions, path, notes) {
                return false;
            }
        }
    }
    let mut repaired = Repaired::default();
    for version in &mut *versions {
        if let Some(subresources) = object_at(version, &["subresources"]) {
            // Null is how YAML reads a bare `status:`, and it never enabled anything.
            subresources.retain(|_, subresource| !subresource.is_null());
        }
        if let Some(columns) = version.get_mut("additionalPrinterColumns") {
            let more = columns::reshape(columns);
            repaired.mended += more.mended;
            repaired.dropped += more.dropped;
        }
    }
    report(repaired, notes);
    schemas(validation, versions, preserve, notes)
}

/// Gives a copy to every version without such a field, unless the copies exceed the largest request.
fn share(
    key: &str,
    shared: &Value,
    versions: &mut [Object],
    path: Path,
    notes: &mut Notes<'_>,
) -> bool {
    let sharing: Vec<_> = versions
        .iter_mut()
        .filter(|version| !has(version, key))
        .collect();
    let copies = weight(shared).saturating_mul(sharing.len());
    if copies > REQUEST_LIMIT {
        let problem = format!(
            "{path} is too large to be repeated in {} versions",
            sharing.len()
        );
        notes.refuse(path, problem);
        return false;
    }
    for version in sharing {
        version.insert(key.into(), shared.clone());
    }
    true
}

fn report(repaired: Repaired, notes: &mut Notes<'_>) {
    let path = || Path::from(["spec", "additionalPrinterColumns"]);
    if repaired.mended > 0 {
        notes.warn(
            Code::UpgradedAPI,
            path(),
            format!(
                "had {} path(s) or type(s) of printer columns mended that no apiserver accepts",
                repaired.mended
            ),
        );
    }
    if repaired.dropped > 0 {
        notes.warn(
            Code::UpgradedAPI,
            path(),
            format!(
                "lost {} printer column(s) without a path, which no apiserver accepts",
                repaired.dropped
            ),
        );
    }
}

/// Gives every version a structural schema: its own, the shared one, or one that accepts anything.
fn schemas(
    validation: Option<Value>,
    versions: &mut [Object],
    preserve: bool,
    notes: &mut Notes<'_>,
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
    if !share("schema", &shared, versions, path, notes) {
        return false;
    }
    if open > 0 {
        notes.change(
            Code::Schema,
            Path::from(["spec"]),
            format!("has no schema for {open} version(s): they accept anything, as before; v1 demands a schema"),
        );
    }
    true
}

/// A validation with its schema made structural; nothing when there is no schema in it.
fn structural(
    validation: Value,
    preserve: bool,
    status: bool,
    path: Path,
    notes: &mut Notes<'_>,
) -> Option<Value> {
    let Value::Object(mut validation) = validation else {
        return Some(validation); // For the typed check to refuse.
    };
    let Some(mut schema) = take(&mut validation, "openAPIV3Schema") else {
        if !validation.is_empty() {
            notes.warn(
                Code::Schema,
                path,
                "has a schema that is not below openAPIV3Schema: it never validated anything and was dropped",
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

/// A lower bound of how long a value is as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(|item| weight(item) + 1).sum(),
        Value::Object(object) => length(object),
        Value::String(text) => text.len() + 2,
        _ => 1,
    }
}

/// The same of an object.
fn length(object: &Object) -> usize {
    let entry = |(key, item): (&String, &Value)| key.len() + weight(item) + 4;
    object.iter().map(entry).sum()
}
