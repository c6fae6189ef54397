//! Kinds whose shape changed.

use serde_json::{Value, json};

use super::{MOVED, upgraded};

#[test]
fn an_empty_budget_selector_keeps_selecting_nothing() {
    for (selector, expected) in ::tests::rows![
        json!({}) => None;
        json!({"matchLabels": {}, "matchExpressions": null}) => None;
        json!({"matchLabels": {"a": "b"}}) => Some(json!({"matchLabels": {"a": "b"}}));
    ] {
        let budget = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "spec": {"selector": selector}});
        let (object, changes) = upgraded(budget);
        let nothing = json!({"matchExpressions": [
            {"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "Exists"}
        ]});
        assert_eq!(changes.len(), 1 + usize::from(expected.is_none()));
        assert_eq!(object["spec"]["selector"], expected.unwrap_or(nothing));
    }
}

#[test]
fn ingress_backends_name_a_service() {
    let (object, changes) = upgraded(json!({
        "apiVersion": "extensions/v1beta1", "kind": "Ingress",
        "metadata": {"annotations": {"kubernetes.io/ingress.class": "nginx"}},
        "spec": {
            "backend": {"serviceName": "fallback", "servicePort": 80},
            "rules": [{"host": "a", "http": {"paths": [
                {"path": "/", "backend": {"serviceName": "a", "servicePort": "http"}},
                {"pathType": "Prefix", "backend": {"serviceName": "b", "servicePort": "8080"}},
                {"backend": {"resource": {"kind": "Bucket", "name": "c"}}},
            ]}}, {"host": "b"}],
        },
        "status": {"loadBalancer": {}},
    }));
    assert_rows!(object["metadata"]["annotations"]["kubernetes.io/ingress.class"] => "nginx");
    assert_eq!(object.get("status"), None);
    let expected = json!({
        "defaultBackend": {"service": {"name": "fallback", "port": {"number": 80}}},
        "rules": [{"host": "a", "http": {"paths": [
            {"path": "/", "pathType": "ImplementationSpecific", "backend": {"service": {"name": "a", "port": {"name": "http"}}}},
            {"pathType": "Prefix", "backend": {"service": {"name": "b", "port": {"number": 8080}}}},
            {"pathType": "ImplementationSpecific", "backend": {"resource": {"kind": "Bucket", "name": "c"}}},
        ]}}, {"host": "b"}],
    });
    assert_eq!(object["spec"], expected);
    assert_rows!(changes => [MOVED, "Change UpgradedAPI spec.rules[0].http.paths[1].backend.servicePort"]);
}

#[test]
fn workloads_keep_the_defaults_they_had() {
    let template = json!({"metadata": {"labels": {"app": "a"}}});
    let selector = json!({"matchLabels": {"app": "a"}});
    for (api, kind, spec) in ::tests::rows![
        "extensions/v1beta1", "Deployment"
            => json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
               "revisionHistoryLimit": i32::MAX, "progressDeadlineSeconds": i32::MAX});
        "apps/v1beta1", "Deployment" => json!({"revisionHistoryLimit": 2});
        "apps/v1beta1", "StatefulSet" => json!({"updateStrategy": {"type": "OnDelete"}});
        "extensions/v1beta1", "DaemonSet" => json!({"updateStrategy": {"type": "OnDelete"}});
        "extensions/v1beta1", "ReplicaSet" => json!({});
    ] {
        let old = json!({"apiVersion": api, "kind": kind, "spec": {
            "template": template, "rollbackTo": {"revision": 1}, "templateGeneration": 2,
        }});
        let mut expected = json!({"apiVersion": "apps/v1", "kind": kind, "spec": spec});
        expected["spec"]["template"] = template.clone();
        expected["spec"]["selector"] = selector.clone();
        assert_eq!(upgraded(old).0, expected, "{api} {kind}");
    }
    let complete = json!({
        "strategy": {"type": "Recreate"}, "revisionHistoryLimit": 5, "progressDeadlineSeconds": 60,
        "selector": {"matchLabels": {"other": "b"}}, "template": template,
    });
    let deployment =
        json!({"apiVersion": "extensions/v1beta1", "kind": "Deployment", "spec": complete});
    let (object, changes) = upgraded(deployment);
    assert_rows!((&object["spec"], changes) => (&complete, vec![MOVED.to_owned()]));
    let (_, changes) =
        upgraded(json!({"apiVersion": "apps/v1beta1", "kind": "StatefulSet", "spec": {}}));
    assert_rows!(changes.contains(&"Warning UpgradedAPI spec".to_owned()) => true, "{changes:?}");
}

#[test]
fn renamed_and_defaulted_fields_keep_their_meaning() {
    let group = "rbac.authorization.k8s.io";
    for (kind, old, field, new, changes) in ::tests::rows![
        ["admissionregistration.k8s.io/v1beta1", "ValidatingWebhookConfiguration"],
            json!({"webhooks": [
                {"name": "a", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": []},
                {"name": "b", "sideEffects": "Unknown", "matchPolicy": "Equivalent", "timeoutSeconds": 5,
                 "failurePolicy": "Fail", "admissionReviewVersions": ["v1"]},
            ]}),
            "/webhooks",
            json!([
                {"name": "a", "failurePolicy": "Fail", "sideEffects": "None", "matchPolicy": "Exact", "timeoutSeconds": 30,
                 "admissionReviewVersions": ["v1beta1"]},
                {"name": "b", "failurePolicy": "Fail", "sideEffects": "NoneOnDryRun", "matchPolicy": "Equivalent",
                 "timeoutSeconds": 5, "admissionReviewVersions": ["v1"]},
            ]) => &["Change UpgradedAPI webhooks[0]", "Warning UpgradedAPI webhooks[1].sideEffects"][..];
        // Subjects get a group.
        ["rbac.authorization.k8s.io/v1alpha1", "ClusterRoleBinding"],
            json!({"subjects": [
                {"kind": "ServiceAccount", "name": "a", "namespace": "n", "apiVersion": "v1"},
                {"kind": "User", "name": "b", "apiVersion": "rbac.authorization.k8s.io/v1alpha1"},
                {"kind": "User", "name": "*"}, {"kind": "Robot", "name": "c", "apiVersion": "example.com/v1"},
            ]}),
            "/subjects",
            json!([
                {"kind": "ServiceAccount", "name": "a", "namespace": "n"}, {"kind": "User", "name": "b", "apiGroup": group},
                {"kind": "Group", "name": "system:authenticated", "apiGroup": group},
                {"kind": "Robot", "name": "c", "apiGroup": "example.com"},
            ]) => &["Change UpgradedAPI subjects[2]"];
        ["discovery.k8s.io/v1beta1", "EndpointSlice"],
            json!({"endpoints": [{"topology": {"kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z", "a": "b"}}]}),
            "/endpoints", json!([{"nodeName": "n", "zone": "z", "deprecatedTopology": {"a": "b"}}]) => &[];
        ["flowcontrol.apiserver.k8s.io/v1beta1", "PriorityLevelConfiguration"],
            json!({"spec": {"type": "Limited", "limited": {"assuredConcurrencyShares": 5}}}),
            "/spec/limited", json!({"nominalConcurrencyShares": 5}) => &[];
    ] {
        let mut object = old;
        object["apiVersion"] = kind[0].into();
        object["kind"] = kind[1].into();
        let (object, found) = upgraded(object);
        assert_eq!(object.pointer(field), Some(&new), "{kind:?}");
        assert_eq!(found[0], MOVED);
        assert_eq!(found[1..], *changes, "{kind:?}");
    }
}

#[test]
fn autoscalers_separate_metrics_from_targets() {
    let metrics = |api: &str, metrics: Value| {
        let spec = json!({"metrics": metrics});
        upgraded(json!({"apiVersion": api, "kind": "HorizontalPodAutoscaler", "spec": spec, "status": {}})).0
    };
    let object = metrics(
        "autoscaling/v2beta1",
        json!([
            {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 80}},
            {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
            {"type": "Pods", "pods": {"metricName": "m", "selector": {}, "targetAverageValue": "5"}},
            {"type": "Object", "object": {"metricName": "m", "target": {"kind": "A"}, "targetValue": "5"}},
            {"type": "Object", "object": {"metricName": "m", "target": {}, "targetValue": "0", "averageValue": "5"}},
            {"type": "External", "external": {"metricName": "m", "metricSelector": {"a": 1}, "targetAverageValue": "5"}},
        ]),
    );
    let target = |kind: &str, field: &str, value: Value| json!({"type": kind, field: value});
    let expected = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": target("Utilization", "averageUtilization", json!(80))}},
        {"type": "Resource", "resource": {"name": "memory", "target": target("AverageValue", "averageValue", json!("1Gi"))}},
        {"type": "Pods", "pods": {"metric": {"name": "m", "selector": {}},
         "target": target("AverageValue", "averageValue", json!("5"))}},
        {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "A"},
         "target": target("Value", "value", json!("5"))}},
        {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {},
         "target": target("AverageValue", "averageValue", json!("5"))}},
        {"type": "External", "external": {"metric": {"name": "m", "selector": {"a": 1}},
         "target": target("AverageValue", "averageValue", json!("5"))}},
    ]}});
    assert_eq!(object, expected);
}
