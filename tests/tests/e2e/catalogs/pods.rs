//! Catalogs with registry pods, on a node that runs them.

use k8s_openapi::api::{
    core::v1::{Pod, ServiceAccount},
    networking::v1::NetworkPolicy,
};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;

use super::{publish, source};
use crate::e2e::{
    day_0::MARKETPLACE,
    environment::{SYSTEM, World, kubectl, merge, world},
    wait::{self, container, eventually, ready},
};

impl World {
    /// The pods that serve a catalog and are not terminating.
    async fn pods_of(&self, namespace: &str, catalog: &str) -> Vec<Pod> {
        let labels = format!("olm.catalogSource={catalog}");
        wait::present(&self.api(namespace), &labels).await
    }

    /// Waits until a catalog has one pod, which is Ready and not this one.
    pub(crate) async fn serving_pod(
        &self,
        namespace: &str,
        catalog: &str,
        not: Option<String>,
    ) -> Pod {
        let expectation = format!("{catalog} in one pod that is Ready");
        let attempt = async || match self.pods_of(namespace, catalog).await.as_slice() {
            [pod] if ready(pod) && pod.uid() != not => Ok(pod.clone()),
            others => Err(serde_json::to_string(others).unwrap()),
        };
        eventually(&expectation, attempt).await
    }

    pub(crate) async fn without_pods(&self, namespace: &str, catalog: &str) {
        let pods = async || Ok::<_, String>(self.pods_of(namespace, catalog).await);
        wait::equal(Vec::<Pod>::new(), pods).await;
    }
}

// parity: pod-1, pod-3, pod-6, pod-7, pod-11
#[tokio::test]
async fn catalog_pod_with_options_is_repaired_and_follows_its_tag() {
    let world = world().await;
    let image = publish("shelf:moving", "shelf", &["1.0.0"]);
    let spec = json!({
        "sourceType": "grpc", "image": image, "priority": -10,
        "updateStrategy": {"registryPoll": {"interval": "1m"}},
        "grpcPodConfig": {
            "nodeSelector": {"kubernetes.io/hostname": "worker"},
            "tolerations": [{"key": "example.com/catalogs", "operator": "Exists"}],
            "priorityClassName": "system-cluster-critical",
            "memoryTarget": "40Mi",
        },
    });
    world.apply(source(SYSTEM, "my.shelf", &spec)).await;

    let first = world.serving_pod(SYSTEM, "my.shelf", None).await;
    world.lists(SYSTEM, "my-shelf", &["shelf.v1.0.0"]).await;
    let address = "my-shelf.rukpak-system.svc:50051";
    world.served_at(SYSTEM, "my.shelf", address).await;
    let spec = first.spec.as_ref().unwrap();
    let class = spec.priority_class_name.as_deref();
    assert_eq!(class, Some("system-cluster-critical"));
    // The namespace enforces the restricted Pod Security Standard.
    let security = spec.security_context.as_ref().unwrap();
    assert_eq!(security.run_as_non_root, Some(true));

    // A deleted pod is created again.
    let (pods, params) = (world.api::<Pod>(SYSTEM), DeleteParams::default());
    pods.delete(&first.name_any(), &params).await.unwrap();
    let second = world.serving_pod(SYSTEM, "my.shelf", first.uid()).await;
    world.lists(SYSTEM, "my-shelf", &["shelf.v1.0.0"]).await;

    // The tag moves, and the pod is replaced.
    publish("shelf:moving", "shelf", &["1.0.0", "1.1.0"]);
    let both = ["shelf.v1.0.0", "shelf.v1.1.0"];
    world.lists(SYSTEM, "my-shelf", &both).await;
    let third = world.serving_pod(SYSTEM, "my.shelf", second.uid()).await;
    let digest = |pod: &Pod| container(pod).image_id.clone();
    assert_ne!(digest(&second), digest(&third));

    // Without options the shared server serves the catalog at the same address.
    let plain = json!({"spec": {"grpcPodConfig": null}});
    merge(&world.sources(SYSTEM), "my.shelf", &plain).await;
    world.without_pods(SYSTEM, "my.shelf").await;
    world.lists(SYSTEM, "my-shelf", &both).await;
    world.served_at(SYSTEM, "my.shelf", address).await;
    world.remove_source(SYSTEM, "my.shelf").await;
}

// parity: pod-8, pod-9
#[tokio::test]
async fn catalog_pod_in_other_namespace_extracts_and_is_removed() {
    let world = world().await;
    let image = publish("drawer:v1", "drawer", &["2.0.0"]);
    // The permissions that the documentation grants the provisioner.
    for role in ["catalog-server", "catalog-pods"] {
        let account = "--serviceaccount=rukpak-system:provisioner";
        let binding = format!("rolebinding drawer-{role} --clusterrole={role} {account}");
        kubectl(world.cluster, &format!("create {binding} -n {MARKETPLACE}"));
    }
    let spec = json!({
        "priority": -10,
        "catalogImageSource": {
            "catalogImage": image,
            "podSpecOverrides": {
                "securityContextConfig": "restricted",
                "extractContent": {"catalogDir": "/configs", "cacheDir": "/tmp/cache"},
            },
        },
    });
    world.apply(source(MARKETPLACE, "drawer", &spec)).await;
    let pod = world.serving_pod(MARKETPLACE, "drawer", None).await;
    world.lists(MARKETPLACE, "drawer", &["drawer.v2.0.0"]).await;
    let user = pod.spec.unwrap().security_context;
    // The cluster has the objects of an OpenShift, which chooses the user itself.
    assert_eq!(user.unwrap().run_as_user, None);

    world.remove_source(MARKETPLACE, "drawer").await;
    world.without_pods(MARKETPLACE, "drawer").await;
    wait::deleted(world.api::<ServiceAccount>(MARKETPLACE), "drawer").await;
    for policy in ["drawer-grpc-server", "drawer-unpack-bundles"] {
        wait::deleted(world.api::<NetworkPolicy>(MARKETPLACE), policy).await;
    }
}
