//! Health from informers. The pods run on no node; the test sets them Ready through the API in place of the kubelet.

use std::sync::Arc;

use apply::{health::Health, informers::InstanceView};
use cluster::Cluster;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, Pod, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tests::table::matches;

use crate::informers::observer::{Object, Observer, kind_of};
use crate::support::{crd, delete, list, merge_status, unique, until};

/// Returns a workload whose pods run on no node, not even on the stand-in that other tests start.
fn workload(kind: &str, name: &str, more: &Value) -> Value {
    let labels = json!({"app": name});
    let pod = json!({"schedulingGates": [{"name": "example.com/never"}], "nodeSelector": {"example.com/never": "true"},
        "containers": [{"name": "main", "image": "example.com/none"}]});
    let mut spec = more.clone();
    spec["selector"] = json!({"matchLabels": labels});
    spec["template"] = json!({"metadata": {"labels": labels}, "spec": pod});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

// parity: rukpak-34
#[tokio::test]
async fn health_follows_the_status_that_controllers_write() {
    let config = Cluster::shared().await.unwrap().config().clone();
    let mut observer = Observer::through("health", config).await;
    let (instance, group) = (unique("till"), format!("{}.example.com", unique("health")));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "balanced"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none"}]});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "later"},
        "spec": {"suspend": true, "template": {"spec": pod}}});
    let absent = json!({"name": "absent", "namespace": observer.namespace.name()});
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.api.{group}")},
        "spec": {"group": format!("api.{group}"), "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": absent},
    });
    let late = json!({"replicas": 1, "progressDeadlineSeconds": 1});
    let mut objects = Vec::new();
    for (object, kind, expected) in tests::rows![
        workload("Deployment", "web", &json!({"replicas": 2})), kind_of::<Deployment>()
            => r#"InProgress("0 of 2 replicas are available")"#;
        workload("Deployment", "late", &late), kind_of::<Deployment>() => "TimedOut*ProgressDeadlineExceeded*";
        workload("StatefulSet", "set", &json!({"replicas": 1, "serviceName": "none"})), kind_of::<StatefulSet>()
            => r#"InProgress("0 of 1 replicas are ready")"#;
        // Without nodes that it selects, a DaemonSet needs no pods.
        workload("DaemonSet", "daemon", &json!({})), kind_of::<DaemonSet>() => "Current";
        service, kind_of::<Service>() => "Current";
        claim, kind_of::<PersistentVolumeClaim>() => r#"InProgress("is not bound to a volume (Pending)")"#;
        job, kind_of::<Job>() => "Current";
        crd(&group, "Till"), kind_of::<CustomResourceDefinition>() => "Current";
        api_service, kind_of::<APIService>() => "InProgress(*ServiceNotFound*";
    ] {
        objects.push((observer.apply(&instance, object).await, kind, expected));
    }
    let kinds = objects.iter();
    let kinds = kinds.map(|(object, kind, _)| (object, Arc::clone(kind)));
    observer.declare_kinds(&instance, None, &kinds.collect::<Vec<_>>());
    let are_as_expected = |view: &InstanceView| {
        let health = |object: &Object| format!("{:?}", view.objects[&object.identity].health);
        let mut rows = objects.iter();
        view.synced && rows.all(|(object, _, expected)| matches(expected, &health(object)))
    };
    let description = "healthy as the table says";
    observer.wait(&instance, description, are_as_expected).await;

    // Every pod becomes Ready.
    let api: Api<Pod> = observer.namespaced();
    let running = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    let pods = async || list(&api).await;
    for pod in until("all pods", pods, |pods| pods.len() == 4).await {
        merge_status(&api, &pod.name_any(), &running).await;
    }
    let are_current = |view: &InstanceView| {
        let mut workloads = objects[..4].iter();
        workloads.all(|(object, ..)| view.objects[&object.identity].health == Health::Current)
    };
    let description = "with running pods";
    observer.wait(&instance, description, are_current).await;
    let client = observer.client();
    delete::<APIService>(&Api::all(client.clone()), &format!("v1.api.{group}")).await;
    delete::<CustomResourceDefinition>(&Api::all(client), &format!("tills.{group}")).await;
}
