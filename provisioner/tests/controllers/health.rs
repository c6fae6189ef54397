//! Health as the watches tell it. There is no node here: whoever makes pods ready in these tests stands in for the
//! kubelet, through the API.

use apply::{health::Health, informers::View};
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

use crate::{
    support::{delete, eventually, merge_status, unique},
    watches::observer::{self, Object, Observer, kind_of},
};

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

fn health<'a>(view: &'a View, object: &Object) -> &'a Health {
    &view.objects[&object.identity].health
}

/// Makes every pod of the namespace ready, as a kubelet would.
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
async fn workloads_are_on_their_way_until_their_pods_are_ready() {
    let mut observer = Observer::new("workloads").await;
    let ours = unique("till");
    let of = |kind: &str, extra: Value| workload(kind, &extra);
    let deployment = of("Deployment", json!({"replicas": 2}));
    let deployment = observer.apply(&ours, deployment).await;
    let stateful = json!({"replicas": 1, "serviceName": "none"});
    let stateful = observer.apply(&ours, of("StatefulSet", stateful)).await;
    // No nodes, no pods: that is all a DaemonSet wants.
    let daemons = observer.apply(&ours, of("DaemonSet", json!({}))).await;
    let late = json!({"replicas": 1, "progressDeadlineSeconds": 1});
    let mut late = of("Deployment", late);
    late["metadata"]["name"] = "late".into();
    for pointer in [
        "/spec/selector/matchLabels/app",
        "/spec/template/metadata/labels/app",
    ] {
        *late.pointer_mut(pointer).unwrap() = "late".into();
    }
    let late = observer.apply(&ours, late).await;
    let kinds = [
        (&late, kind_of::<Deployment>()),
        (&deployment, kind_of::<Deployment>()),
        (&stateful, kind_of::<StatefulSet>()),
        (&daemons, kind_of::<DaemonSet>()),
    ];
    observer.want_kinds(&ours, None, &kinds);
    let lacking = |words: &str| Health::InProgress(words.to_owned());
    observer
        .wait(&ours, "waiting for pods", |view| {
            view.synced
                && *health(view, &deployment) == lacking("0 of 2 replicas are available")
                && *health(view, &stateful) == lacking("0 of 1 replicas are ready")
                && *health(view, &daemons) == Health::Current
        })
        .await;
    // A Deployment without progress fails.
    let view = observer
        .wait(&ours, "failed", |view| {
            matches!(health(view, &late), Health::Failed(_))
        })
        .await;
    let Health::Failed(reason) = health(&view, &late) else {
        panic!("the Deployment failed");
    };
    assert!(reason.contains("ProgressDeadlineExceeded"), "{reason}");
    run_pods(&observer, 4).await;
    observer
        .wait(&ours, "healthy", |view| {
            view.objects
                .values()
                .all(|seen| seen.health == Health::Current)
        })
        .await;
}

#[tokio::test]
async fn what_needs_no_pod_is_judged_as_its_controllers_say() {
    let mut observer = Observer::new("others").await;
    let ours = unique("till");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "balanced"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    let service = observer.apply(&ours, service).await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claim = observer.apply(&ours, claim).await;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "later"},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none"}]}}},
    });
    let job = observer.apply(&ours, job).await;
    let group = format!("{}.example.com", unique("health"));
    let definition = observer
        .apply_cluster_wide(&ours, observer::definition(&group))
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
    let api_service = observer.apply_cluster_wide(&ours, api_service).await;
    let kinds = [
        (&service, kind_of::<Service>()),
        (&claim, kind_of::<PersistentVolumeClaim>()),
        (&job, kind_of::<Job>()),
        (&definition, kind_of::<CustomResourceDefinition>()),
        (&api_service, kind_of::<APIService>()),
    ];
    observer.want_kinds(&ours, None, &kinds);
    let view = observer
        .wait(&ours, "judged", |view| {
            view.synced
                && *health(view, &service) == Health::Current
                && *health(view, &claim)
                    == Health::InProgress("is not bound to a volume (Pending)".to_owned())
                && *health(view, &job) == Health::Current
                && *health(view, &definition) == Health::Current
                && format!("{:?}", health(view, &api_service)).contains("ServiceNotFound")
        })
        .await;
    assert!(matches!(health(&view, &api_service), Health::InProgress(_)));
    let services: Api<APIService> = Api::all(observer.client());
    delete(&services, &api_service.identity.name).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(observer.client());
    delete(&definitions, &definition.identity.name).await;
}

#[tokio::test]
async fn custom_resources_are_judged_when_their_definition_is_ours_too() {
    let mut observer = Observer::new("customs").await;
    let (ours, guest) = (unique("till"), unique("guest"));
    let group = format!("{}.example.com", unique("health"));
    let definition = observer
        .apply_cluster_wide(&ours, observer::definition(&group))
        .await;
    let name = definition.identity.name.clone();
    observer.cluster.wait_established(&name).await.unwrap();
    let till = |name| json!({"apiVersion": format!("{group}/v1"), "kind": "Till", "metadata": {"name": name}});
    let one = observer.apply(&ours, till("one")).await;
    let two = observer.apply(&guest, till("two")).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Till"));
    let kind = observer::kind(resource.clone(), true);
    let kinds = [
        (&definition, kind_of::<CustomResourceDefinition>()),
        (&one, kind.clone()),
    ];
    observer.want_kinds(&ours, None, &kinds);
    observer.want_kinds(&guest, None, &[(&two, kind)]);
    observer
        .wait(&ours, "healthy", |view| {
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
        .wait(&ours, "not ready", |view| *health(view, &one) == empty)
        .await;
    let view = observer.wait(&guest, "synced", |view| view.synced).await;
    assert_eq!(
        *health(&view, &two),
        Health::Current,
        "only metadata are read"
    );
    let definitions: Api<CustomResourceDefinition> = Api::all(observer.client());
    delete(&definitions, &name).await;
}
