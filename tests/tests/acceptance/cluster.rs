//! A real kube-apiserver accepts the objects of converted bundles.

use cluster::{Cluster, DryRun};
use convert::Options;
use manifests::{
    content::{Builder, Limits},
    object::Object,
};
use serde_json::{Value, json};

fn convert(objects: &[Value]) -> Vec<Object> {
    let mut bundle = Builder::new(Limits::default());
    for (number, object) in objects.iter().enumerate() {
        let (path, text) = (format!("manifests/{number}.json"), object.to_string());
        bundle.add(&path, 0o644, &mut text.as_bytes()).unwrap();
    }
    let conversion = convert::plain(&bundle.finish(), &Options::default());
    let reasons = conversion.report.refusals();
    let reasons: Vec<_> = reasons.map(ToString::to_string).collect();
    conversion.objects.unwrap_or_else(|| panic!("{reasons:?}"))
}

/// Applies an object, a CRD until it is Established, and other objects as a dry run.
async fn apply(cluster: &Cluster, object: &Object) {
    let is_crd = object.kind() == "CustomResourceDefinition";
    let dry_run = if is_crd { DryRun::No } else { DryRun::Yes };
    cluster.apply(object.value(), dry_run).await.unwrap();
    if is_crd {
        cluster.wait_established(object.name()).await.unwrap();
    }
}

/// One object for each removed API that old bundles contain.
fn old_objects() -> Vec<Value> {
    let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let role = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role_ref =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let hpa_target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let rules = |port: Value| json!([{"host": "h.example.com", "http": {"paths": [{"path": "/", "backend": {"serviceName": "s", "servicePort": port}}]}}]);
    vec![
        json!({"apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {"name": "old-ingress"}, "spec": {"rules": rules(json!(80))}}),
        json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "metadata": {"name": "ingress"},
            "spec": {"backend": {"serviceName": "s", "servicePort": "http"}, "rules": rules(json!("http"))}}),
        json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "IngressClass", "metadata": {"name": "class"}, "spec": {"controller": "example.com/c"}}),
        json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "selector": selector}}),
        json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "empty-budget"}, "spec": {"minAvailable": 1, "selector": {}}}),
        json!({"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "job"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job}}}),
        json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PriorityClass", "metadata": {"name": "priority"}, "value": 7}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1beta1", "kind": "ClusterRole", "metadata": {"name": "role"}, "rules": role}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1alpha1", "kind": "ClusterRoleBinding", "metadata": {"name": "binding"},
            "roleRef": role_ref, "subjects": [{"apiVersion": "rbac.authorization.k8s.io/v1alpha1", "kind": "User", "name": "u"}]}),
        json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "old-deployment"}, "spec": {"template": pod}}),
        json!({"apiVersion": "extensions/v1beta1", "kind": "DaemonSet", "metadata": {"name": "old-daemons"}, "spec": {"template": pod}}),
        json!({"apiVersion": "apps/v1beta2", "kind": "StatefulSet", "metadata": {"name": "old-set"}, "spec": {"serviceName": "s", "selector": selector, "template": pod}}),
        json!({"apiVersion": "autoscaling/v2beta1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler1"}, "spec": {
            "scaleTargetRef": hpa_target, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 60}}]}}),
        json!({"apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler2"}, "spec": {
            "scaleTargetRef": hpa_target, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}}),
        json!({"apiVersion": "coordination.k8s.io/v1beta1", "kind": "Lease", "metadata": {"name": "lease"}, "spec": {"holderIdentity": "me"}}),
        json!({"apiVersion": "storage.k8s.io/v1beta1", "kind": "StorageClass", "metadata": {"name": "storage"}, "provisioner": "example.com/p"}),
        json!({"apiVersion": "node.k8s.io/v1beta1", "kind": "RuntimeClass", "metadata": {"name": "runtime"}, "handler": "h"}),
        json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "metadata": {"name": "olds.example.k8s.io"},
            "spec": {"group": "example.k8s.io", "version": "v1", "names": {"plural": "olds", "kind": "Old"}, "scope": "Namespaced"}}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_accepts_objects_upgraded_from_old_apis() {
    let cluster = Cluster::shared().await.unwrap();
    let namespace = cluster.temp_namespace("old").await.unwrap();
    let mut objects = old_objects();
    for object in &mut objects {
        object["metadata"]["namespace"] = namespace.name().into();
    }
    let converted = convert(&objects);
    assert_eq!(converted.len(), objects.len());
    for object in &converted {
        apply(cluster, object).await;
    }
}

/// A custom resource of a v1beta1 CRD keeps fields that the CRD's schema does not declare.
// parity: convert-15
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_of_an_upgraded_crd_lose_no_data() {
    let cluster = Cluster::shared().await.unwrap();
    let namespace = cluster.temp_namespace("data").await.unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "keepers.data.example.com"},
        "spec": {
            "group": "data.example.com", "version": "v1", "scope": "Namespaced",
            "names": {"plural": "keepers", "kind": "Keeper"},
            "validation": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
                "known": {"type": "string"},
                "list": {"type": "array", "items": {"properties": {"a": {"type": "integer"}}}},
            }}}}},
        },
    });
    apply(cluster, &convert(&[crd])[0]).await;
    let resource = json!({
        "apiVersion": "data.example.com/v1", "kind": "Keeper",
        "metadata": {"name": "k", "namespace": namespace.name()},
        "spec": {"known": "x", "unknown": {"deep": [1]}, "list": [{"a": 1, "b": {"c": true}}]},
        "extra": {"at": "the root"},
    });
    let stored = cluster.apply(&resource, DryRun::No).await.unwrap();
    assert_eq!(stored.data["spec"], resource["spec"]);
    assert_eq!(stored.data["extra"], resource["extra"]);
}
