mod kinds;

use serde_json::{Value, json};

use super::*;
use crate::testing::pointers;

/// Upgrades an object to the newest release, and returns it with the changes as `Level Code path`.
fn upgraded(object: Value) -> (Value, Vec<String>) {
    upgraded_to(KubeVersion::NEWEST, object)
}

fn upgraded_to(target: KubeVersion, mut object: Value) -> (Value, Vec<String>) {
    let mut changes = Vec::new();
    assert_rows!(upgrade(&mut object, target, &mut changes) => Disposition::Keep, "{object}");
    (object, brief(&changes))
}

pub(super) fn brief(changes: &[UpgradeNote]) -> Vec<String> {
    let brief =
        |change: &UpgradeNote| format!("{:?} {} {}", change.level, change.code, change.path);
    changes.iter().map(brief).collect()
}

const MOVED: &str = "Change UpgradedAPI apiVersion";

#[test]
fn served_objects_are_unchanged() {
    for (api, kind) in [
        ("policy/v1beta1", "PodDisruptionBudget"),
        ("policy/v1beta1", "PodSecurityPolicy"),
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
        ("networking.k8s.io/v1beta1", "Ingress"),
        ("example.com/v1beta1", "Deployment"),
        ("v1", "ConfigMap"),
    ] {
        let object =
            json!({"apiVersion": api, "kind": kind, "spec": {"selector": {}, "group": "a.k8s.io"}});
        let (same, changes) = upgraded_to(KubeVersion::new(1, 20), object.clone());
        assert_eq!((same, changes), (object, vec![]), "{api} {kind}");
    }
}

#[test]
fn growth_covers_what_an_upgrade_adds() {
    let definition = |schema: Value| {
        let versions: Vec<Value> = (0..10)
            .map(|at| json!({"name": format!("v{at}"), "served": true, "storage": at == 0}))
            .collect();
        let spec = json!({"group": "a.b", "versions": versions, "validation": {"openAPIV3Schema": schema}});
        json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "spec": spec})
    };
    let properties = |schema: Value| {
        let properties: Value = (0..50).map(|at| (at.to_string(), schema.clone())).collect();
        definition(json!({"properties": properties}))
    };
    let many = |item: Value| vec![item; 50];
    let paths = |path: Value| json!({"spec": {"rules": [{"http": {"paths": many(path)}}]}});
    let backend = json!({"backend": {"serviceName": "a", "servicePort": 1}});
    let metric = json!({"type": "Resource", "resource": {"targetAverageValue": 1}});
    let of = |api: &str, kind: &str, mut object: Value| {
        object["apiVersion"] = api.into();
        object["kind"] = kind.into();
        object
    };
    for object in [
        definition(json!({})),
        properties(json!({})),
        properties(json!({"type": "array"})),
        properties(json!({"anyOf": many(json!({"properties": {"a": {}, "b": {"items": {}}}}))})),
        properties(json!({"oneOf": [{"type": "string"}, {"type": "integer"}], "not": {}})),
    ]
    .into_iter()
    .chain(::tests::rows![
        "extensions/v1beta1", "Ingress" => paths(backend);
        "extensions/v1beta1", "Ingress" => paths(json!({}));
        "autoscaling/v2beta1", "HorizontalPodAutoscaler" => json!({"spec": {"metrics": many(metric)}});
        "admissionregistration.k8s.io/v1beta1", "ValidatingWebhookConfiguration" => json!({"webhooks": many(json!({}))});
        "discovery.k8s.io/v1beta1", "EndpointSlice" => json!({"endpoints": many(json!({"topology": {"a": "b"}}))});
        "apps/v1beta1", "Deployment" => json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    ]
    .map(|(api, kind, object)| of(api, kind, object)))
    {
        let (before, bound) = (yaml::memory(&object), growth(&object));
        let (after, _) = upgraded(object.clone());
        let added = yaml::memory(&after).saturating_sub(before);
        assert!(added <= bound, "{added} > {bound}: {object}");
    }
}

#[test]
fn most_kinds_change_only_their_version() {
    for (from, kind, to) in ::tests::rows![
        "rbac.authorization.k8s.io/v1beta1", "ClusterRole" => "rbac.authorization.k8s.io/v1";
        "rbac.authorization.k8s.io/v1beta1", "RoleBinding" => "rbac.authorization.k8s.io/v1";
        "scheduling.k8s.io/v1alpha1", "PriorityClass" => "scheduling.k8s.io/v1";
        "scheduling.k8s.io/v1beta1", "PriorityClass" => "scheduling.k8s.io/v1";
        "batch/v1beta1", "CronJob" => "batch/v1";
        "batch/v2alpha1", "CronJob" => "batch/v1";
        "apiregistration.k8s.io/v1beta1", "APIService" => "apiregistration.k8s.io/v1";
        "extensions/v1beta1", "NetworkPolicy" => "networking.k8s.io/v1";
        "networking.k8s.io/v1beta1", "IngressClass" => "networking.k8s.io/v1";
        "storage.k8s.io/v1beta1", "StorageClass" => "storage.k8s.io/v1";
        "coordination.k8s.io/v1beta1", "Lease" => "coordination.k8s.io/v1";
        "autoscaling/v2beta2", "HorizontalPodAutoscaler" => "autoscaling/v2";
        "node.k8s.io/v1beta1", "RuntimeClass" => "node.k8s.io/v1";
        "apps/v1beta2", "DaemonSet" => "apps/v1";
    ] {
        let object = |api: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, "spec": {"x": null}});
        assert_rows!(upgraded(object(from)) => (object(to), vec![MOVED.to_owned()]), "{from} {kind}");
    }
}

#[test]
fn object_without_successor_is_dropped_or_reported() {
    let mut changes = Vec::new();
    for api in ["policy/v1beta1", "extensions/v1beta1"] {
        let mut policy = json!({"apiVersion": api, "kind": "PodSecurityPolicy"});
        assert_rows!(upgrade(&mut policy, KubeVersion::NEWEST, &mut changes) => Disposition::Drop);
    }
    assert_eq!(brief(&changes), ["Warning DroppedAPI apiVersion"; 2]);
    let event = json!({"apiVersion": "events.k8s.io/v1beta1", "kind": "Event"});
    let expected = (event.clone(), vec!["Warning UnservedAPI apiVersion".into()]);
    assert_eq!(upgraded(event), expected);
}

#[test]
fn apis_newer_than_the_target_are_reported() {
    let object =
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"selector": {}}});
    let expected = (
        object.clone(),
        vec!["Warning UnservedAPI apiVersion".into()],
    );
    assert_eq!(upgraded_to(KubeVersion::new(1, 20), object), expected);
}

#[test]
fn community_crds_get_the_annotation() {
    for (api, annotations, changed) in ::tests::rows![
        "v1", json!(null) => true;
        "v1", json!({"api-approved.kubernetes.io": "sure"}) => true;
        "v1", json!({"api-approved.kubernetes.io": "https://example.com/pull/1"}) => false;
        "v1beta1", json!({"a": "b"}) => true;
    ] {
        let (object, changes) = upgraded(json!({
            "apiVersion": format!("apiextensions.k8s.io/{api}"), "kind": "CustomResourceDefinition",
            "metadata": {"name": "as.x.k8s.io", "annotations": annotations},
            "spec": {"group": "x.k8s.io", "version": "v1", "scope": "Cluster", "names": {}},
        }));
        let is_reported = changes.contains(&"Change UpgradedAPI spec.group".to_owned());
        let annotation = object["metadata"]["annotations"]["api-approved.kubernetes.io"].as_str();
        assert_rows!((is_reported, annotation.is_some()) => (changed, true), "{annotations}");
        assert_rows!(annotation.is_some_and(|text| text.starts_with("unapproved, ")) => changed, "{annotations}");
    }
}

/// Every value is replaced, one at a time, by values of every other type: no result causes a panic.
#[test]
fn hostile_shapes_do_not_panic() {
    let odd = json!([null, true, -1.5, "x", [], [[{}]], {}, {"a": {"": 1}}]);
    let webhooks = json!([{"name": "a", "sideEffects": "x", "admissionReviewVersions": ["v1"]}]);
    let node = json!({
        "type": "object", "properties": {"metadata": {"properties": {"name": {"type": "string"}}}, "a": {
            "anyOf": [{"type": "integer"}, {"type": "string"}], "allOf": [{"properties": {"b": {"type": "string"}}}],
            "oneOf": [{"items": {"type": "int"}}], "not": {"required": ["a"]}, "default": {"a": [1]},
        }},
        "items": [{"x-kubernetes-list-type": "map"}], "x-kubernetes-list-map-keys": ["a"], "required": ["a"],
        "additionalProperties": {"x-kubernetes-embedded-resource": true, "enum": [1, 2]},
    });
    for (api, kind, body) in ::tests::rows![
        "apiextensions.k8s.io/v1beta1", "CustomResourceDefinition" => json!({"spec": {
            "group": "a.k8s.io", "version": "v1", "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": node}}],
            "validation": {"openAPIV3Schema": node}, "conversion": {"strategy": "Webhook", "conversionReviewVersions": ["v1"]},
            "subresources": {"status": {}}, "additionalPrinterColumns": [{"name": "a", "type": "string", "JSONPath": ".a"}],
        }});
        "networking.k8s.io/v1beta1", "Ingress" => json!({"spec": {"backend": {"serviceName": "a", "servicePort": 1}, "rules": [{
            "http": {"paths": [{"backend": {"serviceName": "a", "servicePort": "x"}}]},
        }]}});
        "policy/v1beta1", "PodDisruptionBudget" => json!({"spec": {"selector": {"matchLabels": {}}}});
        "extensions/v1beta1", "Deployment"
            => json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}, "strategy": {"type": "", "rollingUpdate": {}}}});
        "apps/v1beta1", "StatefulSet" => json!({"spec": {"updateStrategy": {"type": "x"}}});
        "admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfiguration" => json!({"webhooks": webhooks});
        "rbac.authorization.k8s.io/v1alpha1", "RoleBinding" => json!({"subjects": [{"kind": "X", "apiVersion": "a/b"}]});
        "autoscaling/v2beta1", "HorizontalPodAutoscaler" => json!({"spec": {"metrics": [
            {"object": {"target": {}, "metricName": "x", "averageValue": 1}, "pods": {"metricName": "x", "selector": {}}},
        ]}});
        "discovery.k8s.io/v1beta1", "EndpointSlice" => json!({"endpoints": [{"topology": {"a": "b"}}]});
    ] {
        let mut whole = body;
        whole["apiVersion"] = api.into();
        whole["kind"] = kind.into();
        whole["metadata"] = json!({"name": "a", "annotations": {"a": "b"}});
        for pointer in &pointers(&whole) {
            for value in odd.as_array().unwrap() {
                let mut object = whole.clone();
                *object.pointer_mut(pointer).unwrap() = value.clone();
                let mut changes = Vec::new();
                let _ = upgrade(&mut object, KubeVersion::NEWEST, &mut changes);
                assert!(changes.len() < 40, "{pointer} {value}: {changes:?}");
            }
        }
    }
}
