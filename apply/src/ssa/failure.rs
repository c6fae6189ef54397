//! What the API server said, in words that name the object, the problem and the remedy.

#[cfg(test)]
mod tests;

use kube::core::response::Status;
use manifests::object::{Identity, shortened};
use serde_json::Value;

use super::{Cause, Failure, request::Trouble};

/// How much of what the API server said is told.
const LONGEST: usize = 2048;

/// The failure that trouble with an object is.
pub(super) fn of(identity: Identity, trouble: &Trouble) -> Failure {
    let (cause, problem) = match trouble {
        Trouble::Status(status) => {
            let (cause, remedy) = judge(status);
            (cause, format!("{}; {remedy}", words(status, &identity)))
        }
        Trouble::Name(problem) => (
            Cause::Invalid,
            format!("its name or namespace {problem}; correct the bundle"),
        ),
        Trouble::Client(error) => (
            Cause::Transient,
            format!(
                "the apiserver cannot be asked: {}; it is tried again",
                shortened(&manifests::error::chain(error), LONGEST)
            ),
        ),
        Trouble::Timeout => (
            Cause::Transient,
            "the apiserver did not answer in time; it is tried again".to_owned(),
        ),
    };
    new(identity, cause, &problem)
}

/// The failure of an object, with a message that names the object and what is wrong with it.
pub(super) fn new(identity: Identity, cause: Cause, problem: &str) -> Failure {
    Failure {
        message: format!("{}: {problem}", shortened(&identity.to_string(), 512)),
        identity,
        cause,
    }
}

/// For an object that was being deleted when it was applied.
pub(super) fn deleting(identity: Identity, since: &str, metadata: &Value) -> Failure {
    let finalizers = finalizers(metadata);
    let problem = if finalizers.is_empty() {
        format!("is being deleted since {since}; it is applied again once it is gone")
    } else {
        format!(
            "is being deleted since {since} and waits for its finalizers ({finalizers}); it is applied again once it is \
             gone, so see to it that whoever acts on them runs"
        )
    };
    new(identity, Cause::Deleting, &problem)
}

/// The finalizers of an object, in words.
pub(super) fn finalizers(metadata: &Value) -> String {
    let all = metadata.get("finalizers").and_then(Value::as_array);
    let all: Vec<_> = all
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    shortened(&all.join(", "), 256)
}

/// Reports whether something is not found because its namespace is not.
pub(super) fn names_namespace(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| details.kind == "namespaces")
        || status.message.starts_with("namespaces \"")
}

/// Reports whether an object of a definition could not be read because nobody converts it.
pub(super) fn is_conversion(status: &Status) -> bool {
    status.message.contains("conversion webhook for ")
}

/// The cause and the remedy.
fn judge(status: &Status) -> (Cause, &'static str) {
    const AGAIN: &str = "it is tried again";
    let message = status.message.as_str();
    let says = |text: &str| message.contains(text);
    let caused_by = |reason: &str| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == reason)
    };
    if caused_by("NamespaceTerminating") || says("because it is being terminated") {
        return (
            Cause::Namespace,
            "wait until the namespace is gone; it is tried again",
        );
    }
    if is_conversion(status) {
        return (
            Cause::Transient,
            "see to it that the conversion webhook of its definition runs; it is tried again",
        );
    }
    if says("admission webhook") && says("denied the request")
        || says("ValidatingAdmissionPolicy") && says("denied request")
    {
        return (
            Cause::Denied,
            "change the object in the bundle, or the policy that denies it",
        );
    }
    if says("violates PodSecurity") {
        return (
            Cause::Denied,
            "install into a namespace whose label pod-security.kubernetes.io/enforce allows it",
        );
    }
    if says("exceeded quota") {
        return (
            Cause::Denied,
            "raise the quota of the namespace, or free some of it",
        );
    }
    if says("request is too large")
        || says("trying to send message larger than max")
        || status.code == 413
    {
        return (
            Cause::Invalid,
            "the object is larger than the cluster can store; make it smaller or split it in the bundle",
        );
    }
    // Some of these come as errors of the server.
    if says("field not declared in schema")
        || says("failed to create typed patch object")
        || says("failed to convert new object")
    {
        return (Cause::Invalid, "correct the object in the bundle");
    }
    match status.code {
        401 => (
            Cause::Transient,
            "the provisioner's credentials are not accepted; see to its ServiceAccount, it is tried again",
        ),
        403 if says("attempting to grant RBAC permissions") => (
            Cause::Forbidden,
            "grant these permissions to the account that objects are applied with",
        ),
        403 if says(" cannot impersonate ") => (
            Cause::Forbidden,
            "the provisioner may not act as the account of spec.serviceAccount: bind ClusterRole \
             bundle-instance-impersonator to the provisioner's ServiceAccount in the account's namespace again; if \
             that namespace is gone, change or remove spec.serviceAccount",
        ),
        403 if says(" cannot ") => (
            Cause::Forbidden,
            "grant this permission to the account that objects are applied with",
        ),
        403 => (
            Cause::Denied,
            "change the object in the bundle, or what forbids it",
        ),
        404 if names_namespace(status) => (
            Cause::Namespace,
            "create the namespace, or choose another with spec.installNamespace",
        ),
        // A role that a binding names, or the like: there is a Status about an object.
        404 if status.reason == "NotFound"
            && status
                .details
                .as_ref()
                .is_some_and(|details| !details.name.is_empty()) =>
        {
            (Cause::Transient, AGAIN)
        }
        404 | 405 => (
            Cause::NotServed,
            "its API is not served; install what serves it, it is tried again",
        ),
        400 | 415 | 422 if says("immutable") => (
            Cause::Invalid,
            "a field that cannot change has changed; delete the object so that it is created anew, or correct the bundle",
        ),
        400 | 415 | 422 => (Cause::Invalid, "correct the object in the bundle"),
        _ => (Cause::Transient, AGAIN),
    }
}

/// What the API server said, and of Secrets only what does not repeat what they hold.
fn words(status: &Status, identity: &Identity) -> String {
    let message = status.message.trim();
    let message = if message.is_empty() {
        format!("the apiserver answers {} {}", status.code, status.reason)
    } else if identity.group.is_empty() && identity.kind == "Secret" {
        without_values(message)
    } else {
        message.to_owned()
    };
    shortened(message.trim_end_matches([';', '.']), LONGEST)
}

/// The beginning of a message, up to the first value that it repeats.
fn without_values(message: &str) -> String {
    let cut = [
        ", got ",
        "Invalid value: ",
        "Unsupported value: ",
        "cannot unmarshal ",
    ]
    .iter()
    .filter_map(|before| message.find(before))
    .min();
    match cut {
        Some(cut) => format!(
            "{} (values of Secrets are not told)",
            message
                .get(..cut)
                .unwrap_or_default()
                .trim_end_matches([' ', ':'])
        ),
        None => message.to_owned(),
    }
}
