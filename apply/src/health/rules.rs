//! The rules of built-in kinds.

use std::time::Duration;

use serde_json::Value;

use super::{Health, conditions::Conditions, get_path, number, text};

/// Progress deadline of a Deployment without a usable one: the default of the API server.
const DEFAULT_PROGRESS_DEADLINE: Duration = Duration::from_secs(600);

/// Evaluates an object whose generation was observed by its controller.
pub(super) type Rule = fn(&Value, &Conditions<'_>) -> Health;

/// Returns the rule of a kind, in any version.
pub(super) fn rule(group: &str, kind: &str) -> Option<Rule> {
    Some(match (group, kind) {
        ("apps", "Deployment") => deployment,
        ("apps", "StatefulSet") => stateful_set,
        ("apps", "DaemonSet") => daemon_set,
        ("apps", "ReplicaSet") => replica_set,
        ("batch", "Job") => job,
        ("", "Pod") => pod,
        ("", "PersistentVolumeClaim") => persistent_volume_claim,
        ("", "Service") => service,
        // A PodDisruptionBudget is current once its controller has observed the generation.
        ("policy", "PodDisruptionBudget") => |_, _| Health::Current,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd,
        ("apiregistration.k8s.io", "APIService") => available,
        _ => return None,
    })
}

/// Returns the first count of the status that is too small, or the number of surplus pods: `2 of 3 replicas are ready`.
fn counts<const N: usize>(
    object: &Value,
    counts: [(&str, i64, &str); N],
    max: Option<i64>,
) -> Option<Health> {
    for (field, desired, description) in counts {
        let actual = status(object, field);
        if actual < desired {
            return Some(Health::progress(format!(
                "{actual} of {desired} {description}"
            )));
        }
    }
    let old = status(object, "replicas").saturating_sub(max?);
    (old > 0).then(|| Health::progress(format!("{old} old replicas pending termination")))
}

/// Returns the desired replicas. An object that the API server has not stored lacks the default of 1.
fn replicas(object: &Value) -> i64 {
    number(object, &["spec", "replicas"]).unwrap_or(1)
}

fn status(object: &Value, field: &str) -> i64 {
    number(object, &["status", field]).unwrap_or_default()
}

/// Returns the progress deadline of a Deployment. The maximum value means no deadline.
fn progress_deadline(object: &Value) -> Option<Duration> {
    let seconds = number(object, &["spec", "progressDeadlineSeconds"])?;
    let seconds = u64::try_from(seconds).ok()?;
    (seconds < i32::MAX.unsigned_abs().into()).then(|| Duration::from_secs(seconds))
}

fn deployment(object: &Value, conditions: &Conditions<'_>) -> Health {
    let progressing = conditions.find("Progressing");
    if let Some(condition) = progressing
        && condition.reason == "ProgressDeadlineExceeded"
    {
        let deadline = progress_deadline(object).unwrap_or(DEFAULT_PROGRESS_DEADLINE);
        return Health::timed_out(condition.describe("Progressing"), deadline);
    }
    let desired = replicas(object);
    let existence = [
        ("replicas", desired, "replicas exist"),
        ("updatedReplicas", desired, "replicas are up to date"),
    ];
    let availability = [
        (
            "availableReplicas",
            status(object, "updatedReplicas"),
            "replicas are available",
        ),
        ("readyReplicas", desired, "replicas are ready"),
    ];
    let lacking =
        counts(object, existence, Some(desired)).or_else(|| counts(object, availability, None));
    if let Some(lacking) = lacking {
        return lacking;
    }
    // Without a deadline, the controller does not report progress.
    let has_deadline = progress_deadline(object).is_some();
    let complete = progressing.is_some_and(|condition| {
        condition.status == "True" && condition.reason == "NewReplicaSetAvailable"
    });
    if has_deadline && !complete {
        return Health::progress("the new ReplicaSet is not available");
    }
    available(object, conditions)
}

fn stateful_set(object: &Value, _: &Conditions<'_>) -> Health {
    // With this strategy, the user replaces the pods manually.
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Health::Current;
    }
    let desired = replicas(object);
    let exist = [
        ("replicas", desired, "replicas exist"),
        ("readyReplicas", desired, "replicas are ready"),
    ];
    let lacking = counts(object, exist, Some(desired));
    if let Some(lacking) = lacking {
        return lacking;
    }
    let partition = number(
        object,
        &["spec", "updateStrategy", "rollingUpdate", "partition"],
    );
    // The default of the API server, 0, means that the StatefulSet has no partition.
    if let Some(partition) = partition.filter(|&partition| partition > 0) {
        let desired = desired.saturating_sub(partition);
        let updated = [("updatedReplicas", desired, "replicas are up to date")];
        return counts(object, updated, None).unwrap_or_default();
    }
    let current = [("currentReplicas", desired, "replicas are up to date")];
    if let Some(lacking) = counts(object, current, None) {
        return lacking;
    }
    let revision = |field| text(object, &["status", field]);
    if revision("currentRevision") == revision("updateRevision") {
        Health::Current
    } else {
        Health::progress("some replicas do not have the latest revision")
    }
}

fn daemon_set(object: &Value, _: &Conditions<'_>) -> Health {
    if number(object, &["status", "observedGeneration"]).is_none() {
        return Health::progress("not observed by its controller yet");
    }
    let Some(desired) = number(object, &["status", "desiredNumberScheduled"]) else {
        return Health::progress("number of nodes not determined yet");
    };
    let nodes = [
        ("currentNumberScheduled", desired, "nodes have a pod"),
        ("updatedNumberScheduled", desired, "pods are up to date"),
        ("numberAvailable", desired, "pods are available"),
        ("numberReady", desired, "pods are ready"),
    ];
    counts(object, nodes, None).unwrap_or_default()
}

fn replica_set(object: &Value, conditions: &Conditions<'_>) -> Health {
    if let Some(failure) = conditions.find("ReplicaFailure")
        && failure.status == "True"
    {
        return Health::progress(failure.describe("ReplicaFailure"));
    }
    let desired = replicas(object);
    let all = [
        ("fullyLabeledReplicas", desired, "replicas have all labels"),
        ("availableReplicas", desired, "replicas are available"),
        ("readyReplicas", desired, "replicas are ready"),
    ];
    counts(object, all, Some(desired)).unwrap_or_default()
}

/// Evaluates a Job. A running Job is healthy.
fn job(object: &Value, conditions: &Conditions<'_>) -> Health {
    if conditions.is_true("Complete") || conditions.is_true("Suspended") {
        return Health::Current;
    }
    if let Some(failed) = conditions.find("Failed")
        && failed.status == "True"
    {
        return Health::failed(failed.describe("Failed"));
    }
    if text(object, &["status", "startTime"]).is_empty() {
        return Health::progress("has not started");
    }
    Health::Current
}

fn pod(object: &Value, conditions: &Conditions<'_>) -> Health {
    match text(object, &["status", "phase"]) {
        "Succeeded" => Health::Current,
        "Failed" => Health::failed(match text(object, &["status", "message"]) {
            "" => "has failed".to_owned(),
            message => format!("has failed: {message}"),
        }),
        "Running" if conditions.is_true("Ready") => Health::Current,
        "Running" => match crashing(object).as_slice() {
            [] => Health::progress("is running but not ready"),
            names => Health::failed(format!(
                "containers crash repeatedly (CrashLoopBackOff): {}",
                names.join(", ")
            )),
        },
        "Pending" => match conditions.find("PodScheduled") {
            Some(scheduled) if scheduled.status == "False" => {
                Health::progress(scheduled.describe("PodScheduled"))
            }
            _ => Health::progress("is pending"),
        },
        "" => Health::progress("not scheduled yet"),
        phase => Health::progress(format!("is in phase {phase}")),
    }
}

fn crashing(object: &Value) -> Vec<&str> {
    let containers = get_path(object, &["status", "containerStatuses"]).and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .filter(|container| text(container, &["state", "waiting", "reason"]) == "CrashLoopBackOff")
        .map(|container| text(container, &["name"]))
        .collect()
}

fn persistent_volume_claim(object: &Value, _: &Conditions<'_>) -> Health {
    match text(object, &["status", "phase"]) {
        "Bound" => Health::Current,
        "Lost" => Health::failed("has lost its volume"),
        "" => Health::progress("is not bound to a volume"),
        phase => Health::progress(format!("is not bound to a volume ({phase})")),
    }
}

/// Evaluates a Service. The address of a load balancer is not required: many clusters have no load balancer provider.
fn service(object: &Value, _: &Conditions<'_>) -> Health {
    let lacks_address = text(object, &["spec", "type"]) == "LoadBalancer"
        && text(object, &["spec", "clusterIP"]).is_empty();
    if lacks_address {
        Health::progress("has no cluster IP")
    } else {
        Health::Current
    }
}

fn crd(_: &Value, conditions: &Conditions<'_>) -> Health {
    if let Some(names) = conditions.find("NamesAccepted")
        && names.status == "False"
    {
        return Health::failed(names.describe("NamesAccepted"));
    }
    match conditions.find("Established") {
        Some(established) if established.status == "True" => Health::Current,
        Some(established)
            if established.status == "False" && established.reason != "Installing" =>
        {
            Health::failed(established.describe("Established"))
        }
        _ => Health::progress("is not established yet"),
    }
}

/// Returns the health by the condition Available of a Deployment or an APIService.
fn available(_: &Value, conditions: &Conditions<'_>) -> Health {
    match conditions.find("Available") {
        Some(available) if available.status == "True" => Health::Current,
        Some(available) => Health::progress(available.describe("Available")),
        None => Health::progress("has no condition Available"),
    }
}
