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
        "extensions/v1beta1", "Ingress" => paths(json!({"backend": {"serviceName": "a", "servicePort": 1}}));
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
    let (old, newest) = (KubeVersion::new(1, 20), KubeVersion::NEWEST);
    let unserved = Some("Warning UnservedAPI apiVersion");
    for (target, kind, from, to, change) in ::tests::rows![
        newest, "ClusterRole", "rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1" => Some(MOVED);
        newest, "RoleBinding", "rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1" => Some(MOVED);
        newest, "PriorityClass", "scheduling.k8s.io/v1alpha1", "scheduling.k8s.io/v1" => Some(MOVED);
        newest, "PriorityClass", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1" => Some(MOVED);
        newest, "CronJob", "batch/v1beta1", "batch/v1" => Some(MOVED);
        newest, "CronJob", "batch/v2alpha1", "batch/v1" => Some(MOVED);
        newest, "APIService", "apiregistration.k8s.io/v1beta1", "apiregistration.k8s.io/v1" => Some(MOVED);
        newest, "NetworkPolicy", "extensions/v1beta1", "networking.k8s.io/v1" => Some(MOVED);
        newest, "IngressClass", "networking.k8s.io/v1beta1", "networking.k8s.io/v1" => Some(MOVED);
        newest, "StorageClass", "storage.k8s.io/v1beta1", "storage.k8s.io/v1" => Some(MOVED);
        newest, "Lease", "coordination.k8s.io/v1beta1", "coordination.k8s.io/v1" => Some(MOVED);
        newest, "HorizontalPodAutoscaler", "autoscaling/v2beta2", "autoscaling/v2" => Some(MOVED);
        newest, "RuntimeClass", "node.k8s.io/v1beta1", "node.k8s.io/v1" => Some(MOVED);
        newest, "DaemonSet", "apps/v1beta2", "apps/v1" => Some(MOVED);
        // Served APIs are unchanged.
        old, "PodDisruptionBudget", "policy/v1beta1", "policy/v1beta1" => None;
        old, "PodSecurityPolicy", "policy/v1beta1", "policy/v1beta1" => None;
        old, "CustomResourceDefinition", "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1beta1" => None;
        old, "Ingress", "networking.k8s.io/v1beta1", "networking.k8s.io/v1beta1" => None;
        old, "Deployment", "example.com/v1beta1", "example.com/v1beta1" => None;
        old, "ConfigMap", "v1", "v1" => None;
        // An API without a successor, and one that is newer than the target, are reported.
        newest, "Event", "events.k8s.io/v1beta1", "events.k8s.io/v1beta1" => unserved;
        old, "PodDisruptionBudget", "policy/v1", "policy/v1" => unserved;
    ] {
        // Upgrades of the unchanged kinds would change these fields.
        let spec = if target == old {
            json!({"selector": {}, "group": "a.k8s.io"})
        } else {
            json!({"x": null})
        };
        let object = |api: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let changes: Vec<String> = change.into_iter().map(str::to_owned).collect();
        assert_rows!(upgraded_to(target, object(from)) => (object(to), changes), "{from} {kind}");
    }
    let mut changes = Vec::new();
    for api in ["policy/v1beta1", "extensions/v1beta1"] {
        let mut policy = json!({"apiVersion": api, "kind": "PodSecurityPolicy"});
        assert_rows!(upgrade(&mut policy, newest, &mut changes) => Disposition::Drop);
    }
    assert_eq!(brief(&changes), ["Warning DroppedAPI apiVersion"; 2]);
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
