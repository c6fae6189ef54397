use super::*;

#[test]
fn deployments() {
    let done = json!([
        condition("Progressing", "True", "NewReplicaSetAvailable", ""),
        condition("Available", "True", "MinimumReplicasAvailable", "")
    ]);
    let status = |all, updated, available, ready, conditions: &Value| {
        json!({
            "observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "availableReplicas": available,
            "readyReplicas": ready, "conditions": conditions,
        })
    };
    let counts = |all, updated, available, ready| status(all, updated, available, ready, &done);
    let spec = json!({"replicas": 3, "progressDeadlineSeconds": 600});
    let one = json!({"progressDeadlineSeconds": 600});
    let stuck = json!({"conditions": [condition("Progressing", "False", "ProgressDeadlineExceeded", "too slow")]});
    let timed_out = |seconds| Health::TimedOut {
        message: "Progressing is False (ProgressDeadlineExceeded): too slow".to_owned(),
        deadline: Duration::from_secs(seconds),
        written: None,
    };
    Kind("apps/v1", "Deployment").check(::tests::rows![
        "not observed", json!({}), json!({}) => in_progress("0 of 1 replicas exist");
        "all there", spec.clone(), counts(3, 3, 3, 3) => Current;
        "none desired", json!({"replicas": 0}), counts(0, 0, 0, 0) => Current;
        "too few", spec.clone(), counts(1, 1, 1, 1) => in_progress("1 of 3 replicas exist");
        "old ones", spec.clone(), counts(3, 1, 3, 3) => in_progress("1 of 3 replicas are up to date");
        "extra ones", spec.clone(), counts(4, 3, 3, 3) => in_progress("1 old replicas pending termination");
        "not available", spec.clone(), counts(3, 3, 2, 3) => in_progress("2 of 3 replicas are available");
        "not ready", spec.clone(), counts(3, 3, 3, 2) => in_progress("2 of 3 replicas are ready");
        "stuck", json!({"progressDeadlineSeconds": 30}), stuck.clone() => timed_out(30);
        "stuck without a deadline", json!({}), stuck.clone() => timed_out(600);
        "stuck without a limit", json!({"progressDeadlineSeconds": i32::MAX}), stuck => timed_out(600);
        "still progressing", one.clone(), status(1, 1, 1, 1, &json!([condition("Progressing", "True", "ReplicaSetUpdated", "")]))
            => in_progress("the new ReplicaSet is not available");
        "not Available", one, status(1, 1, 1, 1, &json!([done[0], condition("Available", "False", "", "none is")]))
            => in_progress("Available is False: none is");
        "no deadline, no conditions", json!({"progressDeadlineSeconds": i32::MAX}), status(1, 1, 1, 1, &json!(null))
            => in_progress("has no condition Available");
    ]);
}

#[test]
fn stateful_sets() {
    let counts = |all, ready, current, updated, revision: &str| {
        json!({
            "replicas": all, "readyReplicas": ready, "currentReplicas": current, "updatedReplicas": updated,
            "currentRevision": "a", "updateRevision": revision,
        })
    };
    let spec = json!({"replicas": 3});
    let update =
        |partition| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
    let rolling = |partition| json!({"replicas": 3, "updateStrategy": update(partition)});
    Kind("apps/v1", "StatefulSet").check(::tests::rows![
        "all there", spec.clone(), counts(3, 3, 3, 3, "a") => Current;
        "by hand", json!({"updateStrategy": {"type": "OnDelete"}}), json!({}) => Current;
        "too few", spec.clone(), counts(2, 2, 2, 2, "a") => in_progress("2 of 3 replicas exist");
        "not ready", spec.clone(), counts(3, 2, 3, 3, "a") => in_progress("2 of 3 replicas are ready");
        "extra ones", spec.clone(), counts(4, 4, 3, 3, "a") => in_progress("1 old replicas pending termination");
        "rolling", spec.clone(), counts(3, 3, 2, 1, "b") => in_progress("2 of 3 replicas are up to date");
        "revisions differ", spec, counts(3, 3, 3, 0, "b") => in_progress("some replicas do not have the latest revision");
        "partition done", rolling(2), counts(3, 3, 2, 1, "b") => Current;
        "partition", rolling(1), counts(3, 3, 2, 1, "b") => in_progress("1 of 2 replicas are up to date");
        "partition that the API server defaults", rolling(0), counts(3, 3, 2, 1, "b")
            => in_progress("2 of 3 replicas are up to date");
    ]);
}

#[test]
fn daemon_sets() {
    let counts = |current, updated, available, ready| {
        json!({
            "observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": current,
            "updatedNumberScheduled": updated, "numberAvailable": available, "numberReady": ready,
        })
    };
    Kind("apps/v1", "DaemonSet").check(::tests::rows![
        "new", json!({}), json!({}) => in_progress("not observed by its controller yet");
        "not counted", json!({}), json!({"observedGeneration": 2}) => in_progress("number of nodes not determined yet");
        "no nodes", json!({}), json!({"observedGeneration": 2, "desiredNumberScheduled": 0}) => Current;
        "all there", json!({}), counts(3, 3, 3, 3) => Current;
        "too few", json!({}), counts(2, 3, 3, 3) => in_progress("2 of 3 nodes have a pod");
        "old ones", json!({}), counts(3, 2, 3, 3) => in_progress("2 of 3 pods are up to date");
        "not available", json!({}), counts(3, 3, 2, 3) => in_progress("2 of 3 pods are available");
        "not ready", json!({}), counts(3, 3, 3, 2) => in_progress("2 of 3 pods are ready");
    ]);
}

#[test]
fn replica_sets() {
    let counts = |all, labeled, available, ready| {
        json!({"replicas": all, "fullyLabeledReplicas": labeled, "availableReplicas": available,
            "readyReplicas": ready})
    };
    let spec = json!({"replicas": 2});
    Kind("apps/v1", "ReplicaSet").check(::tests::rows![
        "all there", spec.clone(), counts(2, 2, 2, 2) => Current;
        "labels", spec.clone(), counts(2, 1, 2, 2) => in_progress("1 of 2 replicas have all labels");
        "available", spec.clone(), counts(2, 2, 1, 2) => in_progress("1 of 2 replicas are available");
        "ready", spec.clone(), counts(2, 2, 2, 1) => in_progress("1 of 2 replicas are ready");
        "extra", spec.clone(), counts(3, 2, 2, 2) => in_progress("1 old replicas pending termination");
        "quota", spec, json!({"conditions": [condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota")]})
            => in_progress("ReplicaFailure is True (FailedCreate): exceeded quota");
    ]);
}
