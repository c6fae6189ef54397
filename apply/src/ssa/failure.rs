//! Failure messages from responses of the API server: object, problem and remedy.

#[cfg(test)]
mod tests;

use kube::core::response::Status;
use manifests::object::{Identity, truncate};
use serde_json::Value;

use super::{ApplyFailure, FailureKind, request::ApiError};
use crate::api_error;

/// Maximum length of a quoted message of the API server, in characters.
const MAX_MESSAGE_LEN: usize = 2048;

/// Classifies the error of a request about an object.
pub(crate) fn classify(identity: Identity, error: &ApiError) -> ApplyFailure {
    let (cause, problem) = match error {
        ApiError::Status(status) => {
            let (cause, remedy) = classify_status(status);
            (cause, format!("{}; {remedy}", describe(status, &identity)))
        }
        ApiError::Name(problem) => (
            FailureKind::Invalid,
            format!("the name or namespace {problem}; correct the bundle"),
        ),
        ApiError::Client(error) => (
            FailureKind::Transient,
            format!(
                "failed to reach the API server: {}; retrying",
                truncate(&api_error::chain(error), MAX_MESSAGE_LEN)
            ),
        ),
        ApiError::Timeout => (
            FailureKind::Transient,
            "timed out waiting for the API server; retrying".to_owned(),
        ),
    };
    new(identity, cause, &problem)
}

/// Creates the failure of an object, with a message that names the object and the problem.
pub(super) fn new(identity: Identity, cause: FailureKind, problem: &str) -> ApplyFailure {
    ApplyFailure {
        message: format!("{}: {problem}", truncate(&identity.to_string(), 512)),
        identity,
        cause,
    }
}

/// Creates the failure of an object that is terminating.
pub(super) fn deleting(identity: Identity, since: &str, metadata: &Value) -> ApplyFailure {
    let finalizers = finalizers(metadata);
    let problem = if finalizers.is_empty() {
        format!("has been terminating since {since}; it is applied again after deletion")
    } else {
        format!(
            "has been terminating since {since} and waits for finalizers {finalizers}; make sure that the controllers \
             of these finalizers run; it is applied again after deletion"
        )
    };
    new(identity, FailureKind::Deleting, &problem)
}

/// Formats the finalizers of an object.
pub(crate) fn finalizers(metadata: &Value) -> String {
    let all = metadata.get("finalizers").and_then(Value::as_array);
    let all: Vec<_> = all
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    truncate(&all.join(", "), 256)
}

/// Reports whether an object was not found because its namespace does not exist.
pub(super) fn names_namespace(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| details.kind == "namespaces")
        || status.message.starts_with("namespaces \"")
}

/// Reports whether a custom resource could not be read because its conversion webhook failed.
pub(crate) fn is_conversion(status: &Status) -> bool {
    status.message.contains("conversion webhook for ")
}

/// Returns the cause and the remedy for a response.
fn classify_status(status: &Status) -> (FailureKind, &'static str) {
    const RETRYING: &str = "retrying";
    let message = status.message.as_str();
    let contains = |text: &str| message.contains(text);
    let caused_by = |reason: &str| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == reason)
    };
    if caused_by("NamespaceTerminating") || contains("because it is being terminated") {
        return (
            FailureKind::Namespace,
            "wait until the namespace is deleted; retrying",
        );
    }
    if is_conversion(status) {
        return (
            FailureKind::Transient,
            "make sure that the conversion webhook of its CRD is running; retrying",
        );
    }
    if contains("admission webhook") && contains("denied the request")
        || contains("ValidatingAdmissionPolicy") && contains("denied request")
    {
        return (
            FailureKind::Denied,
            "change the object in the bundle, or the policy that denies it",
        );
    }
    if contains("violates PodSecurity") {
        return (
            FailureKind::Denied,
            "install into a namespace whose label pod-security.kubernetes.io/enforce allows it",
        );
    }
    if contains("exceeded quota") {
        return (
            FailureKind::Denied,
            "raise the quota of the namespace, or free some of it",
        );
    }
    if contains("request is too large")
        || contains("trying to send message larger than max")
        || status.code == 413
    {
        return (
            FailureKind::Invalid,
            "the object is larger than the cluster can store; make it smaller or split it in the bundle",
        );
    }
    // The API server reports some of these as server errors.
    if contains("field not declared in schema")
        || contains("failed to create typed patch object")
        || contains("failed to convert new object")
    {
        return (FailureKind::Invalid, "correct the object in the bundle");
    }
    match status.code {
        401 => (
            FailureKind::Transient,
            "the API server rejected the provisioner's credentials; check its ServiceAccount; retrying",
        ),
        403 if contains("attempting to grant RBAC permissions") => (
            FailureKind::Forbidden,
            "grant these permissions to the account that objects are applied with",
        ),
        403 if contains(" cannot impersonate ") => (
            FailureKind::Forbidden,
            "the provisioner is not allowed to impersonate the account of spec.serviceAccount: bind ClusterRole \
             bundle-instance-impersonator to the provisioner's ServiceAccount in the account's namespace again; if \
             that namespace no longer exists, change or remove spec.serviceAccount",
        ),
        403 if contains(" cannot ") => (
            FailureKind::Forbidden,
            "grant this permission to the account that objects are applied with",
        ),
        403 => (
            FailureKind::Denied,
            "change the object in the bundle, or the policy that forbids it",
        ),
        404 if names_namespace(status) => (
            FailureKind::Namespace,
            "create the namespace, or choose another with spec.installNamespace",
        ),
        // A referenced object such as the role of a binding was not found: the Status names an object.
        404 if status.reason == "NotFound"
            && status
                .details
                .as_ref()
                .is_some_and(|details| !details.name.is_empty()) =>
        {
            (FailureKind::Transient, RETRYING)
        }
        404 | 405 => (
            FailureKind::NotServed,
            "the API is not served; install its CRD or API server; retrying",
        ),
        400 | 415 | 422 if contains("immutable") => (
            FailureKind::Invalid,
            "an immutable field changed; delete the object so that it is recreated, or fix the bundle",
        ),
        400 | 415 | 422 => (FailureKind::Invalid, "correct the object in the bundle"),
        _ => (FailureKind::Transient, RETRYING),
    }
}

/// Formats the message of a response. Values of Secrets are removed.
fn describe(status: &Status, identity: &Identity) -> String {
    let mut message = api_error::message(status);
    if identity.group.is_empty() && identity.kind == "Secret" {
        message = redact_values(&message);
    }
    truncate(message.trim_end_matches([';', '.']), MAX_MESSAGE_LEN)
}

/// Returns the beginning of a message, up to the first value that it quotes.
fn redact_values(message: &str) -> String {
    let end = [
        ", got ",
        "Invalid value: ",
        "Unsupported value: ",
        "cannot unmarshal ",
    ]
    .iter()
    .filter_map(|before| message.find(before))
    .min();
    match end {
        Some(end) => format!(
            "{} (Secret values omitted)",
            message
                .get(..end)
                .unwrap_or_default()
                .trim_end_matches([' ', ':'])
        ),
        None => message.to_owned(),
    }
}
