mod workloads;

use serde_json::json;

use super::*;

use Health::Current;

fn in_progress(message: &str) -> Health {
    Health::InProgress(message.to_owned())
}

fn failed(message: &str) -> Health {
    Health::Failed(message.to_owned())
}

/// API version and kind of the tested objects.
struct Kind(&'static str, &'static str);

impl Kind {
    /// Checks cases of description, spec, status and expected health.
    fn check<'a>(self, cases: impl IntoIterator<Item = (&'a str, Value, Value, Health)>) {
        let Self(api_version, kind) = self;
        for (name, mut spec, status, expected) in cases {
            // Watches read only these fields.
            if let Some(spec) = spec.as_object_mut() {
                spec.retain(|field, _| SPEC.contains(&field.as_str()));
            }
            let object = json!({
                "apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "generation": 2}, "spec": spec,
                "status": status,
            });
            assert_eq!(evaluate(&object), expected, "{kind}: {name}");
        }
        let (group, version) = manifests::object::group_version(api_version);
        assert!(has_rules(&GroupVersionKind::gvk(group, version, kind)));
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message})
}

#[test]
fn jobs() {
    let with =
        |type_, reason, message| json!({"conditions": [condition(type_, "True", reason, message)]});
    Kind("batch/v1", "Job").check(::tests::rows![
        "new", json!({}), json!({}) => in_progress("has not started");
        "running", json!({}), json!({"startTime": "2026-01-01T00:00:00Z", "active": 1}) => Current;
        "done", json!({}), with("Complete", "", "") => Current;
        "suspended", json!({}), with("Suspended", "", "") => Current;
        "failed", json!({}), with("Failed", "BackoffLimitExceeded", "six attempts")
            => failed("Failed is True (BackoffLimitExceeded): six attempts");
    ]);
}

#[test]
fn pods() {
    let phase = |phase: &str| json!({"phase": phase});
    Kind("v1", "Pod").check(::tests::rows![
        "new", json!({}), json!({}) => in_progress("not scheduled yet");
        "done", json!({}), phase("Succeeded") => Current;
        "failed", json!({}), json!({"phase": "Failed", "message": "evicted"}) => failed("has failed: evicted");
        "failed without a message", json!({}), phase("Failed") => failed("has failed");
        "pending", json!({}), phase("Pending") => in_progress("is pending");
        "lost", json!({}), phase("Unknown") => in_progress("is in phase Unknown");
        "unschedulable", json!({}),
          json!({"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable", "no node")]})
            => in_progress("PodScheduled is False (Unschedulable): no node");
        "ready", json!({}), json!({"phase": "Running", "conditions": [condition("Ready", "True", "", "")]}) => Current;
        "not ready", json!({}), phase("Running") => in_progress("is running but not ready");
        "crashing", json!({}), json!({"phase": "Running", "containerStatuses": [
            {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}, {"name": "b", "state": {"running": {}}},
            {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]}) => failed("containers crash repeatedly (CrashLoopBackOff): a, c");
    ]);
}

#[test]
fn claims_services_and_disruption_budgets() {
    Kind("v1", "PersistentVolumeClaim").check(::tests::rows![
        "new", json!({}), json!({}) => in_progress("is not bound to a volume");
        "pending", json!({}), json!({"phase": "Pending"}) => in_progress("is not bound to a volume (Pending)");
        "bound", json!({}), json!({"phase": "Bound"}) => Current;
        "lost", json!({}), json!({"phase": "Lost"}) => failed("has lost its volume");
    ]);
    Kind("v1", "Service").check(::tests::rows![
        "of the cluster", json!({"type": "ClusterIP"}), json!({}) => Current;
        "new", json!({"type": "LoadBalancer"}), json!({}) => in_progress("has no cluster IP");
        "without a provider", json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), json!({}) => Current;
    ]);
    Kind("policy/v1", "PodDisruptionBudget").check(::tests::rows![
        "counted", json!({}), json!({"observedGeneration": 2}) => Current;
        "not counted", json!({}), json!({"observedGeneration": 1})
            => in_progress("generation 2 not observed yet (observed 1)");
    ]);
}

// parity: rukpak-34
#[test]
fn crds_and_api_services() {
    let with =
        |type_, status, reason| json!({"conditions": [condition(type_, status, reason, "")]});
    Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition").check(::tests::rows![
        "new", json!({}), json!({}) => in_progress("is not established yet");
        "installing", json!({}), with("Established", "False", "Installing") => in_progress("is not established yet");
        "established", json!({}), with("Established", "True", "") => Current;
        "names taken", json!({}), with("NamesAccepted", "False", "KindConflict")
            => failed("NamesAccepted is False (KindConflict)");
        "refused", json!({}), with("Established", "False", "NotAccepted") => failed("Established is False (NotAccepted)");
    ]);
    Kind("apiregistration.k8s.io/v1", "APIService").check(::tests::rows![
        "new", json!({}), json!({}) => in_progress("has no condition Available");
        "available", json!({}), with("Available", "True", "Passed") => Current;
        "not", json!({}), with("Available", "False", "MissingEndpoints") => in_progress("Available is False (MissingEndpoints)");
        "unknown", json!({}), with("Available", "Unknown", "") => in_progress("Available is Unknown");
    ]);
}

#[test]
fn custom_resources_by_the_standard_conditions() {
    assert_rows!(has_rules(&GroupVersionKind::gvk("example.com", "v1", "Till")) => false);
    let with = |type_, status| json!({"conditions": [condition(type_, status, "", "why")]});
    let object = |metadata: Value, status: Value| json!({"apiVersion": "example.com/v1", "kind": "Till", "metadata": metadata, "status": status});
    assert_each!(|status, expected| evaluate(&object(json!({"generation": 2}), status)) => expected;
        json!(null) => Current;
        json!({}) => Current;
        json!({"observedGeneration": 2}) => Current;
        with("Ready", "True") => Current;
        with("Ready", "False") => in_progress("Ready is False: why");
        with("Ready", "Unknown") => in_progress("Ready is Unknown: why");
        with("Reconciling", "True") => in_progress("Reconciling is True: why");
        with("Stalled", "True") => failed("Stalled is True: why");
        with("Stalled", "False") => Current;
        with("Degraded", "True") => Current;
        json!({"observedGeneration": 1, "conditions": [condition("Ready", "True", "", "")]})
            => in_progress("generation 2 not observed yet (observed 1)");
        json!("text") => Current;
        json!({"conditions": "text"}) => Current;
        json!({"conditions": [1, null, {"type": 5}]}) => Current;
    );
    let terminating = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert_rows!(evaluate(&object(terminating, with("Ready", "True"))) => in_progress("is being deleted"));
    assert_eq!(evaluate(&json!(null)), Current);
}

#[test]
fn kinds_of_other_groups_have_other_rules() {
    assert_rows!(has_rules(&GroupVersionKind::gvk("example.com", "v1", "Deployment")) => false);
    assert!(!has_rules(&GroupVersionKind::gvk("", "v1", "ConfigMap")));
    let knative = json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"type": "LoadBalancer"}});
    assert_eq!(evaluate(&knative), Current);
}

#[test]
fn messages_are_bounded() {
    let status = json!({"conditions": [condition("Ready", "False", "", &"ä".repeat(100_000))]});
    let object = json!({"apiVersion": "example.com/v1", "kind": "Till", "status": status});
    let Health::InProgress(message) = evaluate(&object) else {
        panic!("it is not ready");
    };
    assert_rows!((message.chars().count(), message.ends_with("ä…")) => (MAX_MESSAGE_LEN + 1, true));
}
