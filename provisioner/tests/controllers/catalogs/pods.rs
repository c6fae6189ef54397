//! Pods of catalogs on a real control plane. No kubelet runs: the test writes the status of pods.

mod events;

use std::time::Duration;

use cluster::Lease;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{LocalObjectReference, Pod, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use manifests::api::catalog_source::CatalogSource;
use provisioner::controllers::catalog_source::registry_pod::{
    Error, Options, PodEnvironment, PodServer, RegistryPodSpec, RegistryPodState, TagPoll,
    is_restricted, plan::PodServingState, reconcile, remove,
};
use serde_json::{Value, json};

use super::define_source;
use crate::support::{
    account_object, apply, catalog_source, delete, found, list, merge, merge_status,
    namespace_object, until, without_controllers,
};

const CATALOG: &str = "tide.v1";

/// A namespace with a CatalogSource whose pod is reconciled.
struct Scene {
    cluster: Lease,
    client: Client,
    namespace: &'static str,
}

impl Scene {
    async fn new() -> Self {
        let cluster = without_controllers().await;
        define_source(&cluster).await;
        let client = cluster.client().unwrap();
        let scene = Self {
            cluster,
            client,
            namespace: "",
        };
        scene.moved("shelf").await
    }

    /// Returns another namespace of the same cluster.
    async fn moved(self, namespace: &'static str) -> Self {
        let scene = Self { namespace, ..self };
        apply(&scene.cluster, &namespace_object(namespace)).await;
        scene.declare(json!([])).await;
        scene
    }

    async fn declare(&self, secrets: Value) {
        let spec =
            json!({"sourceType": "grpc", "image": "example.com/catalog:v1", "secrets": secrets});
        let mut source = catalog_source(self.namespace, CATALOG, &spec);
        source["metadata"]["annotations"] = json!({"a": "b"});
        apply(&self.cluster, &source).await;
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    async fn source(&self) -> CatalogSource {
        self.api().get(CATALOG).await.unwrap()
    }

    async fn try_reconcile(&self) -> Result<RegistryPodState, Error> {
        let (source, options) = (self.source().await, Options::default());
        let desired = desired(&source, &options);
        let (now, written) = (Timestamp::now(), &mut false);
        let poll = &TagPoll::Handled;
        reconcile(&self.client, &desired, &ENVIRONMENT, poll, now, written).await
    }

    async fn reconcile(&self) -> RegistryPodState {
        self.try_reconcile().await.unwrap()
    }

    async fn pods(&self) -> Vec<Pod> {
        let mut pods = list(&self.api::<Pod>()).await;
        pods.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.name_any()));
        pods
    }

    async fn names(&self) -> Vec<String> {
        self.pods().await.iter().map(Pod::name_any).collect()
    }

    /// Writes the status that a kubelet reports of a pod that serves this image.
    async fn is_ready(&self, pod: &str, digest: &str) {
        let status = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
                "name": "registry-server", "image": "i", "imageID": format!("example.com/catalog@{digest}"),
                "ready": true, "restartCount": 0,
            }],
        }});
        merge_status(&self.api::<Pod>(), pod, &status).await;
    }

    async fn secrets(&self) -> Vec<String> {
        let account = self.api::<ServiceAccount>().get(CATALOG).await.unwrap();
        names(account.image_pull_secrets)
    }
}

fn names(secrets: Option<Vec<LocalObjectReference>>) -> Vec<String> {
    let secrets = secrets.unwrap_or_default().into_iter();
    secrets.map(|secret| secret.name).collect()
}

fn desired<'a>(source: &'a CatalogSource, options: &'a Options) -> RegistryPodSpec<'a> {
    RegistryPodSpec {
        source,
        image: source.spec.image.as_deref().unwrap(),
        options,
        content: PodServer::BuiltIn("/configs"),
    }
}

const ENVIRONMENT: PodEnvironment<'static> = PodEnvironment {
    program: "example.com/rukpak:v1",
    is_restricted: false,
    chooses_users: false,
};

fn serving(digest: &str) -> PodServingState {
    PodServingState::Serving(Some(digest.to_owned()))
}

// parity: pod-3, pod-5, pod-6, pod-9, pod-13
#[tokio::test]
async fn a_catalog_gets_a_pod_that_is_repaired_and_followed() {
    let scene = Scene::new().await;
    // A service account of that name that does not belong to the catalog is not changed.
    apply(&scene.cluster, &account_object(scene.namespace, CATALOG)).await;
    let error = scene.try_reconcile().await.unwrap_err();
    let taken = "ServiceAccount shelf/tide.v1 already exists and does not belong to this catalog";
    tests::assert_has(error, taken);
    assert!(scene.names().await.is_empty());
    assert!(scene.secrets().await.is_empty());
    delete(&scene.api::<ServiceAccount>(), CATALOG).await;

    let outcome = scene.reconcile().await;
    assert_eq!(outcome.service, "tide-v1");
    tests::assert_rows!(matches!(outcome.state, PodServingState::Starting(_)) => true, "{outcome:?}");
    let first = scene.names().await;
    assert_eq!(first.len(), 1);
    assert!(first[0].starts_with("tide.v1-"), "{first:?}");
    // No object is created or changed twice.
    let services = scene.api::<Service>();
    let service = services.get("tide-v1").await.unwrap();
    scene.reconcile().await;
    assert_eq!(scene.names().await, first);
    tests::assert_rows!(services.get("tide-v1").await.unwrap().resource_version() => service.resource_version());
    scene.is_ready(&first[0], "sha256:11").await;
    assert_eq!(scene.reconcile().await.state, serving("sha256:11"));

    // Changed objects.
    let other = json!({"spec": {"selector": {"olm.catalogSource": "other"}}, "metadata": {"labels": {"olm.managed": null}}});
    merge(&services, "tide-v1", &other).await;
    let policies = scene.api::<NetworkPolicy>();
    let before = policies.get("tide.v1-grpc-server").await.unwrap();
    let closed = json!({"spec": {"ingress": null}});
    merge(&policies, "tide.v1-grpc-server", &closed).await;
    // Deleted objects.
    delete(&policies, "tide.v1-unpack-bundles").await;
    delete(&scene.api::<ServiceAccount>(), CATALOG).await;
    scene.reconcile().await;
    assert_eq!(services.get("tide-v1").await.unwrap().spec, service.spec);
    tests::assert_rows!(policies.get("tide.v1-grpc-server").await.unwrap().spec => before.spec);
    policies.get("tide.v1-unpack-bundles").await.unwrap();
    scene.api::<ServiceAccount>().get(CATALOG).await.unwrap();
    delete(&services, "tide-v1").await;
    scene.reconcile().await;
    services.get("tide-v1").await.unwrap();
    assert_eq!(scene.names().await, first);

    // Served by another server.
    let (source, options) = (scene.source().await, Options::default());
    let removed = remove(&scene.client, &desired(&source, &options), &ENVIRONMENT).await;
    removed.unwrap();
    assert!(scene.names().await.is_empty());
    assert_eq!(list(&policies).await, []);
    assert_eq!(list(&scene.api::<ServiceAccount>()).await, []);
    services.get("tide-v1").await.unwrap();

    // A change of the pull secrets replaces the pod without a gap in serving.
    let scene = scene.moved("second").await;
    scene.reconcile().await;
    let first = scene.names().await.remove(0);
    scene.is_ready(&first, "sha256:11").await;
    // The platform adds a pull secret.
    let platform = json!({"imagePullSecrets": [{"name": "platform"}]});
    merge(&scene.api::<ServiceAccount>(), CATALOG, &platform).await;
    scene.reconcile().await;
    assert_eq!(scene.secrets().await, ["platform"]);
    scene.declare(json!(["s", ""])).await;
    tests::assert_rows!(scene.reconcile().await.state => serving("sha256:11"), "by the old pod");
    assert_eq!(scene.secrets().await, ["s", "platform"]);
    let mut pods = scene.pods().await;
    assert_eq!(pods.len(), 2, "the old pod serves until the new one does");
    pods.retain(|pod| pod.name_any() != first);
    let second = pods[0].name_any();
    tests::assert_rows!(names(pods.remove(0).spec.unwrap().image_pull_secrets) => ["s", "platform"]);
    scene.is_ready(&second, "sha256:11").await;
    assert_eq!(scene.reconcile().await.state, serving("sha256:11"));
    assert_eq!(scene.names().await, [second.as_str()]);
    scene.declare(json!([])).await;
    scene.reconcile().await;
    assert_eq!(scene.secrets().await, ["platform"]);

    // Only the enforced level counts, and only `restricted`.
    for (labels, expected) in tests::rows![
        json!({}) => false;
        json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"}) => false;
        json!({"pod-security.kubernetes.io/enforce": "restricted"}) => true;
    ] {
        let mut namespace = namespace_object(scene.namespace);
        namespace["metadata"]["labels"] = labels;
        apply(&scene.cluster, &namespace).await;
        tests::assert_rows!(is_restricted(&scene.client, scene.namespace).await.unwrap() => expected, "{namespace}");
    }
}
