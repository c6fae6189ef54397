//! Health from informers. The control plane has no node; the tests set pods Ready through the API in place of the kubelet.

use apply::{health::Health, informers::InstanceView};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, Pod, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::informers::observer::{self, Object, Observer, kind_of};
use crate::support::{delete, eventually, merge_status, unique};

fn workload(kind: &str, extra: &Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": kind.to_lowercase()}},
        "template": {
            "metadata": {"labels": {"app": kind.to_lowercase()}},
            "spec": {"containers": [{"name": "main", "image": "example.com/none"}]},
        },
    });
    for (field, value) in extra.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": kind.to_lowercase()}, "spec": spec})
}

fn health<'a>(view: &'a InstanceView, object: &Object) -> &'a Health {
    &view.objects[&object.identity].health
}

/// Sets every pod of the namespace Ready, as a kubelet does.
async fn run_pods(observer: &Observer, count: usize) {
    let api: Api<Pod> = observer.namespaced();
    let running = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    let pods = eventually("all pods are made", async || {
        let pods = api.list(&ListParams::default()).await.unwrap().items;
        (pods.len() == count)
            .then_some(pods)
            .ok_or_else(|| "not yet".to_owned())
    })
    .await;
    for pod in pods {
        merge_status(&api, &pod.name_any(), &running).await;
    }
}

// parity: rukpak-34
#[tokio::test]
async fn workloads_progress_until_their_pods_are_ready() {
    let mut observer = Observer::new("workloads").await;
    let instance = unique("till");
    let of = |kind: &str, extra: Value| workload(kind, &extra);
    let deployment = of("Deployment", json!({"replicas": 2}));
    let deployment = observer.apply(&instance, deployment).await;
    let stateful = json!({"replicas": 1, "serviceName": "none"});
    let stateful = observer.apply(&instance, of("StatefulSet", stateful)).await;
    // Without nodes, a DaemonSet needs no pods.
    let daemons = observer.apply(&instance, of("DaemonSet", json!({}))).await;
    let late = json!({"replicas": 1, "progressDeadlineSeconds": 1});
    let mut late = of("Deployment", late);
    late["metadata"]["name"] = "late".into();
    for pointer in [
        "/spec/selector/matchLabels/app",
        "/spec/template/metadata/labels/app",
    ] {
        *late.pointer_mut(pointer).unwrap() = "late".into();
    }
    let late = observer.apply(&instance, late).await;
    let kinds = [
        (&late, kind_of::<Deployment>()),
        (&deployment, kind_of::<Deployment>()),
        (&stateful, kind_of::<StatefulSet>()),
        (&daemons, kind_of::<DaemonSet>()),
    ];
    observer.want_kinds(&instance, None, &kinds);
    let lacking = |problem: &str| Health::InProgress(problem.to_owned());
    observer
        .wait(&instance, "waiting for pods", |view| {
            view.synced
                && *health(view, &deployment) == lacking("0 of 2 replicas are available")
                && *health(view, &stateful) == lacking("0 of 1 replicas are ready")
                && *health(view, &daemons) == Health::Current
        })
        .await;
    // A Deployment that exceeds its progress deadline fails.
    let view = observer
        .wait(&instance, "failed", |view| {
            matches!(health(view, &late), Health::Failed(_))
        })
        .await;
    let Health::Failed(reason) = health(&view, &late) else {
        panic!("the Deployment failed");
    };
    assert!(reason.contains("ProgressDeadlineExceeded"), "{reason}");
    run_pods(&observer, 4).await;
    observer
        .wait(&instance, "healthy", |view| {
            view.objects
                .values()
                .all(|object| object.health == Health::Current)
        })
        .await;
}

#[tokio::test]
async fn health_without_pods_follows_the_status() {
    let mut observer = Observer::new("others").await;
    let instance = unique("till");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "balanced"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    let service = observer.apply(&instance, service).await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claim = observer.apply(&instance, claim).await;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "later"},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none"}]}}},
    });
    let job = observer.apply(&instance, job).await;
    let group = format!("{}.example.com", unique("health"));
    let crd = observer
        .apply_cluster_wide(&instance, observer::crd(&group))
        .await;
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.api.{group}")},
        "spec": {
            "group": format!("api.{group}"), "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"name": "nobody", "namespace": observer.namespace.name()},
        },
    });
    let api_service = observer.apply_cluster_wide(&instance, api_service).await;
    let kinds = [
        (&service, kind_of::<Service>()),
        (&claim, kind_of::<PersistentVolumeClaim>()),
        (&job, kind_of::<Job>()),
        (&crd, kind_of::<CustomResourceDefinition>()),
        (&api_service, kind_of::<APIService>()),
    ];
    observer.want_kinds(&instance, None, &kinds);
    let view = observer
        .wait(&instance, "judged", |view| {
            view.synced
                && *health(view, &service) == Health::Current
                && *health(view, &claim)
                    == Health::InProgress("is not bound to a volume (Pending)".to_owned())
                && *health(view, &job) == Health::Current
                && *health(view, &crd) == Health::Current
                && format!("{:?}", health(view, &api_service)).contains("ServiceNotFound")
        })
        .await;
    assert!(matches!(health(&view, &api_service), Health::InProgress(_)));
    let services: Api<APIService> = Api::all(observer.client());
    delete(&services, &api_service.identity.name).await;
    let crds: Api<CustomResourceDefinition> = Api::all(observer.client());
    delete(&crds, &crd.identity.name).await;
}

#[tokio::test]
async fn custom_resource_health_needs_an_owned_crd() {
    let mut observer = Observer::new("customs").await;
    let (instance, guest) = (unique("till"), unique("guest"));
    let group = format!("{}.example.com", unique("health"));
    let crd = observer
        .apply_cluster_wide(&instance, observer::crd(&group))
        .await;
    let name = crd.identity.name.clone();
    observer.cluster.wait_established(&name).await.unwrap();
    let till = |name| json!({"apiVersion": format!("{group}/v1"), "kind": "Till", "metadata": {"name": name}});
    let one = observer.apply(&instance, till("one")).await;
    let two = observer.apply(&guest, till("two")).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Till"));
    let kind = observer::kind(resource.clone(), true);
    let kinds = [
        (&crd, kind_of::<CustomResourceDefinition>()),
        (&one, kind.clone()),
    ];
    observer.want_kinds(&instance, None, &kinds);
    observer.want_kinds(&guest, None, &[(&two, kind)]);
    observer
        .wait(&instance, "healthy", |view| {
            view.synced && *health(view, &one) == Health::Current
        })
        .await;

    let namespace = observer.namespace.name();
    let api = Api::<DynamicObject>::namespaced_with(observer.client(), namespace, &resource);
    let status = json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "Empty", "message": "no change"}]}});
    for name in ["one", "two"] {
        merge_status(&api, name, &status).await;
    }
    let empty = Health::InProgress("Ready is False (Empty): no change".to_owned());
    observer
        .wait(&instance, "not ready", |view| *health(view, &one) == empty)
        .await;
    let view = observer.wait(&guest, "synced", |view| view.synced).await;
    assert_eq!(
        *health(&view, &two),
        Health::Current,
        "only metadata are read"
    );
    let crds: Api<CustomResourceDefinition> = Api::all(observer.client());
    delete(&crds, &name).await;
}
