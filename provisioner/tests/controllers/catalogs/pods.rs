//! Pods of catalogs on a real control plane. No kubelet runs: the test writes the status of pods.

mod events;

use std::time::Duration;

use cluster::Lease;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Pod, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use manifests::api::catalog_source::CatalogSource;
use provisioner::controllers::catalog_source::registry_pod::{
    Error, Options, PodEnvironment, PodServer, RegistryPodSpec, RegistryPodState, TagCheck,
    is_restricted, plan::PodServingState, reconcile, remove,
};
use serde_json::{Value, json};

use super::define_source;
use crate::support::{
    account_object, apply, catalog_source, delete, found, list, merge, merge_status,
    namespace_object, until, without_controllers,
};

const CATALOG: &str = "tide.v1";

/// A namespace with a CatalogSource, and the keeper of its pod.
struct Place {
    cluster: Lease,
    client: Client,
    namespace: &'static str,
}

impl Place {
    async fn new() -> Self {
        let cluster = without_controllers().await;
        define_source(&cluster).await;
        let client = cluster.client().unwrap();
        let place = Self {
            cluster,
            client,
            namespace: "",
        };
        place.moved("shelf").await
    }

    /// Returns another namespace of the same cluster.
    async fn moved(self, namespace: &'static str) -> Self {
        let place = Self { namespace, ..self };
        place.namespace(json!({})).await;
        place.declare(json!([])).await;
        place
    }

    async fn namespace(&self, labels: Value) {
        let mut object = namespace_object(self.namespace);
        object["metadata"]["labels"] = labels;
        apply(&self.cluster, &object).await;
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

    async fn try_keep(&self, options: Value, asks: bool) -> Result<RegistryPodState, Error> {
        let source = self.source().await;
        let options = Options::read("spec.grpcPodConfig", Some(&options)).unwrap();
        let desired = RegistryPodSpec {
            source: &source,
            image: source.spec.image.as_deref().unwrap(),
            options: &options,
            content: PodServer::BuiltIn("/configs"),
        };
        let around = PodEnvironment {
            program: "example.com/rukpak:v1",
            is_restricted: is_restricted(&self.client, self.namespace).await?,
            chooses_users: false,
        };
        let asks = asks.then_some(TagCheck::Always);
        let (now, mut has_written) = (Timestamp::now(), false);
        reconcile(&self.client, &desired, &around, asks, now, &mut has_written).await
    }

    async fn reconcile(&self) -> RegistryPodState {
        self.try_keep(json!({}), false).await.unwrap()
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
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{
                "name": "registry-server", "image": "i", "imageID": format!("example.com/catalog@{digest}"),
                "ready": true, "restartCount": 0,
            }],
        }});
        self.status(pod, status).await;
    }

    async fn status(&self, pod: &str, status: Value) {
        let pods = self.api::<Pod>();
        merge_status(&pods, pod, &status).await;
    }

    async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        merge(&self.api::<K>(), name, &patch).await;
    }

    async fn secrets(&self) -> Vec<String> {
        let account = self.api::<ServiceAccount>().get(CATALOG).await.unwrap();
        let secrets = account.image_pull_secrets.unwrap_or_default();
        secrets.into_iter().map(|secret| secret.name).collect()
    }
}

fn serving(digest: &str) -> PodServingState {
    PodServingState::Serving(Some(digest.to_owned()))
}

// parity: pod-3, pod-5, pod-6, pod-9, pod-13
#[tokio::test]
async fn a_catalog_gets_a_pod_that_is_repaired_and_followed() {
    let place = Place::new().await;
    Box::pin(a_pod_and_what_belongs_to_it_are_repaired(&place)).await;
    let place = place.moved("second").await;
    changes_are_followed_without_a_gap(&place).await;
    let place = place.moved("third").await;
    pods_fit_into_restricted_namespaces(&place).await;
}

async fn a_pod_and_what_belongs_to_it_are_repaired(place: &Place) {
    // A service account of that name that does not belong to the catalog is not changed.
    let account = account_object(place.namespace, CATALOG);
    apply(&place.cluster, &account).await;
    let error = place.try_keep(json!({}), false).await.unwrap_err();
    let error = error.to_string();
    let taken = "ServiceAccount shelf/tide.v1 already exists and does not belong to this catalog";
    assert!(error.contains(taken), "{error}");
    assert!(place.names().await.is_empty());
    assert!(place.secrets().await.is_empty());
    delete(&place.api::<ServiceAccount>(), CATALOG).await;

    let outcome = place.reconcile().await;
    assert_eq!(outcome.service, "tide-v1");
    assert!(
        matches!(outcome.state, PodServingState::Starting(_)),
        "{outcome:?}"
    );
    let first = place.names().await;
    assert_eq!(first.len(), 1);
    assert!(first[0].starts_with("tide.v1-"), "{first:?}");
    // No object is created or changed twice.
    let service = place.api::<Service>().get("tide-v1").await.unwrap();
    place.reconcile().await;
    assert_eq!(place.names().await, first);
    let same = place.api::<Service>().get("tide-v1").await.unwrap();
    assert_eq!(same.resource_version(), service.resource_version());
    place.is_ready(&first[0], "sha256:11").await;
    assert_eq!(place.reconcile().await.state, serving("sha256:11"));

    // Changed objects.
    let leads = json!({"spec": {"selector": {"olm.catalogSource": "other"}}, "metadata": {"labels": {"olm.managed": null}}});
    place.patch::<Service>("tide-v1", leads).await;
    let closed = json!({"spec": {"ingress": null}});
    place
        .patch::<NetworkPolicy>("tide.v1-grpc-server", closed)
        .await;
    place.reconcile().await;
    let repaired = place.api::<Service>().get("tide-v1").await.unwrap();
    let (before, after) = (service.spec.unwrap(), repaired.spec.unwrap());
    assert_eq!(after.selector, before.selector);
    assert_eq!(after.cluster_ip, before.cluster_ip);
    let policies = place.api::<NetworkPolicy>();
    let policy = policies.get("tide.v1-grpc-server").await.unwrap();
    assert_eq!(
        policy.spec.unwrap().ingress.map(|rules| rules.len()),
        Some(1)
    );

    // Deleted objects.
    delete(&place.api::<Service>(), "tide-v1").await;
    delete(&policies, "tide.v1-unpack-bundles").await;
    delete(&place.api::<ServiceAccount>(), CATALOG).await;
    place.reconcile().await;
    place.api::<Service>().get("tide-v1").await.unwrap();
    policies.get("tide.v1-unpack-bundles").await.unwrap();
    place.api::<ServiceAccount>().get(CATALOG).await.unwrap();
    assert_eq!(place.names().await, first);

    // A pod on a lost node.
    let lost = json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}});
    place.status(&first[0], lost).await;
    place.reconcile().await;
    let second = place.names().await;
    assert_eq!(second.len(), 1);
    assert_ne!(second, first);
    let pod = &place.pods().await[0];
    assert_eq!(pod.annotations().get("a").map(String::as_str), Some("b"));

    // Served by another server.
    let source = place.source().await;
    let desired = RegistryPodSpec {
        source: &source,
        image: "i",
        options: &Options::default(),
        content: PodServer::Entrypoint,
    };
    let around = PodEnvironment {
        program: "p",
        is_restricted: false,
        chooses_users: false,
    };
    remove(&place.client, &desired, &around).await.unwrap();
    assert!(place.names().await.is_empty());
    assert_eq!(list(&policies).await, []);
    let account = place.api::<ServiceAccount>().get_opt(CATALOG).await;
    assert_eq!(account.unwrap(), None);
    place.api::<Service>().get("tide-v1").await.unwrap();
}

async fn changes_are_followed_without_a_gap(place: &Place) {
    place.reconcile().await;
    let first = place.names().await.remove(0);
    place.is_ready(&first, "sha256:11").await;
    assert_eq!(place.reconcile().await.state, serving("sha256:11"));

    // Pull secrets, and those that the platform has added in between.
    place
        .patch::<ServiceAccount>(CATALOG, json!({"imagePullSecrets": [{"name": "platform"}]}))
        .await;
    place.reconcile().await;
    assert_eq!(place.secrets().await, ["platform"]);
    place.declare(json!(["s", ""])).await;
    let outcome = place.reconcile().await;
    assert_eq!(outcome.state, serving("sha256:11"), "by the old one");
    assert_eq!(place.secrets().await, ["s", "platform"]);
    let both = place.pods().await;
    assert_eq!(both.len(), 2, "the old one serves until the new one does");
    let second = both.iter().find(|pod| pod.name_any() != first).unwrap();
    let secrets = second.spec.as_ref().unwrap().image_pull_secrets.clone();
    let secrets: Vec<String> = secrets
        .unwrap()
        .into_iter()
        .map(|secret| secret.name)
        .collect();
    assert_eq!(secrets, ["s", "platform"]);
    let second = second.name_any();
    place.reconcile().await;
    assert_eq!(place.names().await.len(), 2);
    place.is_ready(&second, "sha256:11").await;
    assert_eq!(place.reconcile().await.state, serving("sha256:11"));
    assert_eq!(place.names().await, [second.as_str()]);
    place.declare(json!([])).await;
    place.reconcile().await;
    assert_eq!(place.secrets().await, ["platform"]);
    place.declare(json!(["s"])).await;
    place.reconcile().await;
    assert_eq!(place.names().await, [second.as_str()]);

    // Another image behind the tag.
    let asked = place.try_keep(json!({}), true).await.unwrap();
    assert!(asked.asked, "{asked:?}");
    let again = place.try_keep(json!({}), true).await.unwrap();
    assert!(!again.asked && again.again.is_some(), "{again:?}");
    let mut names = place.names().await.into_iter();
    let third = names.find(|name| *name != second).unwrap();
    place.is_ready(&third, "sha256:22").await;
    assert_eq!(place.reconcile().await.state, serving("sha256:22"));
    assert_eq!(place.names().await, [third.as_str()]);
    let pod = &place.pods().await[0];
    assert_eq!(pod.labels()["olm.catalogSource"], CATALOG);
    let update = "catalogsource.operators.coreos.com/update";
    assert!(!pod.labels().contains_key(update));
    assert_eq!(place.reconcile().await.state, serving("sha256:22"));
}

async fn pods_fit_into_restricted_namespaces(place: &Place) {
    // Only the enforced level counts, and only `restricted`.
    for (labels, expected) in tests::rows![
        json!({}) => false;
        json!({"pod-security.kubernetes.io/enforce": "baseline"}) => false;
        json!({"pod-security.kubernetes.io/warn": "restricted"}) => false;
        json!({"pod-security.kubernetes.io/enforce": "restricted"}) => true;
    ] {
        place.namespace(labels.clone()).await;
        let found = is_restricted(&place.client, place.namespace).await;
        assert_eq!(found.unwrap(), expected, "{labels}");
    }
    let legacy = json!({"securityContextConfig": "legacy"});
    let refused = place.try_keep(legacy, false).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Api { action: "create", source: kube::Error::Api(status), .. } if status.message.contains("PodSecurity")),
        "{refused:?}"
    );
    let error = refused.to_string();
    let prefix = "couldn't ensure registry server - ";
    assert!(error.starts_with(prefix), "{error}");
    place.reconcile().await;
    assert_eq!(place.names().await.len(), 1);
}
