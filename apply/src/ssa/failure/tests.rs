use serde_json::json;

use super::*;
use crate::tests::identity;

fn status(code: u16, reason: &str, message: &str) -> Status {
    Status::failure(message, reason).with_code(code)
}

fn failure(kind: &str, status: Status) -> ApplyFailure {
    let error = ApiError::Status(status.boxed());
    classify(identity("", kind, "n", "a"), &error)
}

// parity: rukpak-10
#[test]
fn api_server_errors_are_classified_by_cause() {
    use FailureKind::*;
    for (code, reason, message, cause) in ::tests::rows![
        422, "Invalid", "Service \"a\" is invalid: spec.ports: Required value" => Invalid;
        422, "Invalid", "Job.batch \"a\" is invalid: spec.template: field is immutable" => Invalid;
        500, "InternalError",
            "failed to create typed patch object (n/a; apps/v1, Kind=Deployment): .spec.x: field not declared in schema"
            => Invalid;
        500, "InternalError", "etcdserver: request is too large" => Invalid;
        413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728" => Invalid;
        403, "Forbidden", "configmaps \"a\" is forbidden: User \"u\" cannot patch resource \"configmaps\" in API group \"\" \
            in the namespace \"n\"" => Forbidden;
        403, "Forbidden", "clusterroles.rbac.authorization.k8s.io \"a\" is forbidden: user \"u\" (groups=[\"g\"]) is \
            attempting to grant RBAC permissions not currently held:\n{…}" => Forbidden;
        403, "Forbidden", "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": privileged" => Denied;
        403, "Forbidden", "configmaps \"a\" is forbidden: exceeded quota: q, requested: count/configmaps=1" => Denied;
        400, "", "admission webhook \"w\" denied the request: no" => Denied;
        422, "Invalid", "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
            => Denied;
        404, "NotFound", "namespaces \"n\" not found" => Namespace;
        403, "Forbidden",
            "configmaps \"a\" is forbidden: unable to create new content in namespace n because it is being terminated"
            => Namespace;
        404, "Failed to parse error data", "404 page not found" => NotServed;
        404, "NotFound", "the server could not find the requested resource" => NotServed;
        409, "Conflict", "Operation cannot be fulfilled" => Transient;
        429, "TooManyRequests", "too many requests" => Transient;
        500, "InternalError", "Internal error occurred: failed calling webhook \"w\": connection refused" => Transient;
        401, "Unauthorized", "Unauthorized" => Transient;
    ] {
        let failure = failure("ConfigMap", status(code, reason, message));
        assert_eq!(failure.cause, cause, "{message}");
        assert_rows!(failure.message.starts_with("ConfigMap n/a: ") && failure.message.contains(message) => true, "{failure:?}");
        let (_, remedy) = failure.message.rsplit_once("; ").unwrap();
        assert!(!remedy.is_empty());
    }
}

#[test]
fn terminating_namespace_is_detected_by_its_status_cause() {
    let cause =
        json!({"reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace"});
    let details = serde_json::from_value(json!({"causes": [cause]})).unwrap();
    let status = with!(status(403, "Forbidden", "in other words") => details: Some(details));
    assert_eq!(failure("ConfigMap", status).cause, FailureKind::Namespace);
}

#[test]
fn secret_values_are_not_in_messages() {
    for message in [
        "failed to create typed patch object (n/a; /v1, Kind=Secret): .data.password: expected string, got &value.valueUnstructured{Value:12345}",
        "Secret \"a\" is invalid: type: Invalid value: \"12345\": field is immutable",
    ] {
        let secret = failure("Secret", status(422, "Invalid", message));
        assert!(!secret.message.contains("12345"), "{secret:?}");
        let map = failure("ConfigMap", status(422, "Invalid", message));
        assert!(map.message.contains("12345"), "{map:?}");
    }
}

#[test]
fn messages_are_bounded_and_never_empty() {
    assert_rows!(failure("ConfigMap", status(422, "Invalid", &"ä".repeat(100_000))).message.len() < 8192 => true);
    let silent = failure("ConfigMap", status(500, "", ""));
    assert!(silent.message.contains("returned 500"), "{silent:?}");
}

#[test]
fn terminating_object_is_reported_with_its_finalizers() {
    let metadata = json!({"finalizers": ["a.io/x", "b.io/y"]});
    let object = identity("", "ConfigMap", "n", "a");
    let failure = deleting(object, "2026-11-21T10:00:00Z", &metadata);
    assert_rows!((&failure.cause, failure.message.contains("a.io/x, b.io/y")) => (&FailureKind::Deleting, true), "{failure:?}");
}
