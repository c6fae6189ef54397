//! The rules of built-in kinds.

use serde_json::Value;

use super::{Health, at, conditions::Conditions, number, text};

/// Judges an object whose generation was looked at.
pub(super) type Rule = fn(&Value, &Conditions<'_>) -> Health;

/// The rule of a kind, whatever its version.
pub(super) fn rule(group: &str, kind: &str) -> Option<Rule> {
    Some(match (group, kind) {
        ("apps", "Deployment") => deployment,
        ("apps", "StatefulSet") => stateful_set,
        ("apps", "DaemonSet") => daemon_set,
        ("apps", "ReplicaSet") => replica_set,
        ("batch", "Job") => job,
        ("", "Pod") => pod,
        ("", "PersistentVolumeClaim") => claim,
        ("", "Service") => service,
        // A PodDisruptionBudget is current once its controller has observed the generation.
        ("policy", "PodDisruptionBudget") => |_, _| Health::Current,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition,
        ("apiregistration.k8s.io", "APIService") => available,
        _ => return None,
    })
}

/// The first count of the status that is too small, or the pods that are too many: `2 of 3 replicas are ready`.
fn counts<const N: usize>(
    object: &Value,
    counts: [(&str, i64, &str); N],
    most: Option<i64>,
) -> Option<Health> {
    for (field, wanted, what) in counts {
        let is = status(object, field);
        if is < wanted {
            return Some(Health::progress(format!("{is} of {wanted} {what}")));
        }
    }
    let old = status(object, "replicas").saturating_sub(most?);
    (old > 0).then(|| Health::progress(format!("{old} old replicas have to end")))
}

/// The API server fills `spec.replicas` in; an object that was not stored has one.
fn replicas(object: &Value) -> i64 {
    number(object, &["spec", "replicas"]).unwrap_or(1)
}

fn status(object: &Value, field: &str) -> i64 {
    number(object, &["status", field]).unwrap_or_default()
}

fn deployment(object: &Value, conditions: &Conditions<'_>) -> Health {
    let progressing = conditions.find("Progressing");
    if let Some(condition) = progressing
        && condition.reason == "ProgressDeadlineExceeded"
    {
        return Health::failed(condition.words("Progressing"));
    }
    let wanted = replicas(object);
    let exist = [
        ("replicas", wanted, "replicas exist"),
        ("updatedReplicas", wanted, "replicas are up to date"),
    ];
    let work = [
        (
            "availableReplicas",
            status(object, "updatedReplicas"),
            "replicas are available",
        ),
        ("readyReplicas", wanted, "replicas are ready"),
    ];
    let lacking = counts(object, exist, Some(wanted)).or_else(|| counts(object, work, None));
    if let Some(lacking) = lacking {
        return lacking;
    }
    // The controller says nothing of progress where there is no deadline; the largest number means none, too.
    let deadline = number(object, &["spec", "progressDeadlineSeconds"]);
    let has_deadline = deadline.is_some_and(|deadline| deadline < i64::from(i32::MAX));
    let complete =
        progressing.is_some_and(|it| it.status == "True" && it.reason == "NewReplicaSetAvailable");
    if has_deadline && !complete {
        return Health::progress("its new ReplicaSet is not available");
    }
    available(object, conditions)
}

fn stateful_set(object: &Value, _: &Conditions<'_>) -> Health {
    // Whoever chooses this replaces the pods by hand.
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Health::Current;
    }
    let wanted = replicas(object);
    let exist = [
        ("replicas", wanted, "replicas exist"),
        ("readyReplicas", wanted, "replicas are ready"),
    ];
    let lacking = counts(object, exist, Some(wanted));
    if let Some(lacking) = lacking {
        return lacking;
    }
    let partition = number(
        object,
        &["spec", "updateStrategy", "rollingUpdate", "partition"],
    );
    // The default of the API server, 0, means that the StatefulSet has no partition.
    if let Some(partition) = partition.filter(|&partition| partition > 0) {
        let wanted = wanted.saturating_sub(partition);
        let updated = [("updatedReplicas", wanted, "replicas are up to date")];
        return counts(object, updated, None).unwrap_or_default();
    }
    let current = [("currentReplicas", wanted, "replicas are up to date")];
    if let Some(lacking) = counts(object, current, None) {
        return lacking;
    }
    let revision = |field| text(object, &["status", field]);
    if revision("currentRevision") == revision("updateRevision") {
        Health::Current
    } else {
        Health::progress("its replicas are not all of the latest revision")
    }
}

fn daemon_set(object: &Value, _: &Conditions<'_>) -> Health {
    if number(object, &["status", "observedGeneration"]).is_none() {
        return Health::progress("its controller has not looked at it");
    }
    let Some(wanted) = number(object, &["status", "desiredNumberScheduled"]) else {
        return Health::progress("its controller has not counted the nodes");
    };
    let nodes = [
        ("currentNumberScheduled", wanted, "nodes have a pod"),
        ("updatedNumberScheduled", wanted, "pods are up to date"),
        ("numberAvailable", wanted, "pods are available"),
        ("numberReady", wanted, "pods are ready"),
    ];
    counts(object, nodes, None).unwrap_or_default()
}

fn replica_set(object: &Value, conditions: &Conditions<'_>) -> Health {
    if let Some(failure) = conditions.find("ReplicaFailure")
        && failure.status == "True"
    {
        return Health::progress(failure.words("ReplicaFailure"));
    }
    let wanted = replicas(object);
    let all = [
        ("fullyLabeledReplicas", wanted, "replicas have all labels"),
        ("availableReplicas", wanted, "replicas are available"),
        ("readyReplicas", wanted, "replicas are ready"),
    ];
    counts(object, all, Some(wanted)).unwrap_or_default()
}

/// A Job that runs is as it should be.
fn job(object: &Value, conditions: &Conditions<'_>) -> Health {
    if conditions.is_true("Complete") || conditions.is_true("Suspended") {
        return Health::Current;
    }
    if let Some(failed) = conditions.find("Failed")
        && failed.status == "True"
    {
        return Health::failed(failed.words("Failed"));
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
            [] => Health::progress("runs and is not ready"),
            names => Health::failed(format!(
                "containers crash again and again (CrashLoopBackOff): {}",
                names.join(", ")
            )),
        },
        "Pending" => match conditions.find("PodScheduled") {
            Some(scheduled) if scheduled.status == "False" => {
                Health::progress(scheduled.words("PodScheduled"))
            }
            _ => Health::progress("is pending"),
        },
        "" => Health::progress("no node has looked at it"),
        phase => Health::progress(format!("is in the phase {phase}")),
    }
}

fn crashing(object: &Value) -> Vec<&str> {
    let containers = at(object, &["status", "containerStatuses"]).and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .filter(|it| text(it, &["state", "waiting", "reason"]) == "CrashLoopBackOff")
        .map(|it| text(it, &["name"]))
        .collect()
}

fn claim(object: &Value, _: &Conditions<'_>) -> Health {
    match text(object, &["status", "phase"]) {
        "Bound" => Health::Current,
        "Lost" => Health::failed("has lost its volume"),
        "" => Health::progress("is not bound to a volume"),
        phase => Health::progress(format!("is not bound to a volume ({phase})")),
    }
}

/// A load balancer is up to the cluster's provider; many have none.
fn service(object: &Value, _: &Conditions<'_>) -> Health {
    let waits = text(object, &["spec", "type"]) == "LoadBalancer"
        && text(object, &["spec", "clusterIP"]).is_empty();
    if waits {
        Health::progress("has no cluster IP")
    } else {
        Health::Current
    }
}

fn definition(_: &Value, conditions: &Conditions<'_>) -> Health {
    if let Some(names) = conditions.find("NamesAccepted")
        && names.status == "False"
    {
        return Health::failed(names.words("NamesAccepted"));
    }
    match conditions.find("Established") {
        Some(established) if established.status == "True" => Health::Current,
        Some(established)
            if established.status == "False" && established.reason != "Installing" =>
        {
            Health::failed(established.words("Established"))
        }
        _ => Health::progress("is not established yet"),
    }
}

/// Returns the health by the condition Available of a Deployment or an APIService.
fn available(_: &Value, conditions: &Conditions<'_>) -> Health {
    match conditions.find("Available") {
        Some(available) if available.status == "True" => Health::Current,
        Some(available) => Health::progress(available.words("Available")),
        None => Health::progress("has no condition Available"),
    }
}
