//! The user stories of automatic catalog switching: the cluster is upgraded, its catalogs follow, and so do the operators
//! that were installed from them.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::DeleteParams};
use manifests::api::catalog_source::CatalogSourceStatus;
use manifests::api::config::{CLUSTER_VERSION, ClusterVersion};
use manifests::api::platform_operator::PlatformOperator;
use serde_json::json;

use super::ALONE;
use crate::e2e::{
    catalogs::{permit, publish, source},
    day_0::{self, MARKETPLACE},
    environment::{World, merge, world},
    wait::{self, available},
};

/// The message of the condition that names the image in use.
fn resolved(status: &CatalogSourceStatus) -> Option<&str> {
    let mut conditions = status.conditions.iter();
    let found = conditions
        .find(|condition| condition.type_ == "resolved_image" && condition.status == "True")?;
    Some(&found.message)
}

impl World {
    async fn resolves(&self, name: &str, image: &str) {
        self.wait_source_status(MARKETPLACE, name, image, |status| {
            resolved(status) == Some(image)
        })
        .await;
    }

    /// The minor version of the API server.
    async fn kubernetes(&self) -> u64 {
        let version = self.client().apiserver_version().await.unwrap().git_version;
        version.split('.').nth(1).unwrap().parse().unwrap()
    }

    /// The minor version of the newest completed OpenShift update.
    async fn openshift(&self) -> u64 {
        let versions: Api<ClusterVersion> = Api::all(self.client());
        let version = versions.get(CLUSTER_VERSION).await.unwrap();
        let history = version.status.unwrap().history.unwrap();
        let newest = history
            .iter()
            .find(|update| update.state == "Completed")
            .unwrap();
        newest.version.split('.').nth(1).unwrap().parse().unwrap()
    }

    /// Reports an update of OpenShift to a minor version as `Partial` or `Completed`.
    async fn set_openshift(&self, minor: u64, state: &str) {
        let (next, now) = (format!("4.{minor}.0"), format!("4.{}.0", minor - 1));
        let history = [(state, next.as_str()), ("Completed", &now)];
        day_0::set_version(self.cluster, &next, &history).await;
    }
}

// parity: switch-1, switch-16
#[tokio::test]
async fn as_a_cluster_admin_i_upgrade_my_cluster_and_my_third_party_catalogs_follow() {
    let _alone = ALONE.lock().await;
    let world = world().await;
    let first = day_0::publish("drift", "1.0.0", "4.20");
    let second = day_0::publish("drift", "1.1.0", "4.20");
    let minor = world.kubernetes().await;
    let tag = |minor: u64| format!("drift:v1.{minor}");
    let before = day_0::catalog_image(&tag(minor), &[&first]);
    let after = day_0::catalog_image(&tag(minor + 1), &[&first, &second]);
    let template = before.replace(
        &tag(minor),
        "drift:v{kube_major_version}.{kube_minor_version}",
    );
    let spec = json!({"sourceType": "grpc", "image": template, "priority": 10});
    world.apply(source(MARKETPLACE, "drift", &spec)).await;
    world.apply(day_0::platform_operator("drift")).await;
    world.resolves("drift", &before).await;
    world.healthy("drift", "1.0.0").await;
    let runs = async || {
        let deployments = world.api::<Deployment>("drift-system");
        wait::until(deployments, "drift-operator", "Available", available).await;
    };
    runs().await;

    // As in OpenShift, the control plane is upgraded before the update is completed.
    let openshift = world.openshift().await + 1;
    world.set_openshift(openshift, "Partial").await;
    let kubernetes = format!("v1.{}.0", minor + 1);
    world.cluster.upgrade_apiserver(&kubernetes).await.unwrap();
    assert_eq!(world.kubernetes().await, minor + 1);
    world.resolves("drift", &after).await;
    let operators: Api<PlatformOperator> = Api::all(world.client());
    wait::until(operators.clone(), "drift", "waiting", |operator| {
        let next = operator
            .status
            .as_ref()
            .and_then(|status| status.next_available.as_ref());
        next.is_some_and(|next| next.version == "1.1.0")
    })
    .await;
    world.healthy("drift", "1.0.0").await;
    world.set_openshift(openshift, "Completed").await;
    world.healthy("drift", "1.1.0").await;
    runs().await;
    // The provisioner does not change the template.
    let stored = world.sources(MARKETPLACE).get("drift").await.unwrap();
    assert_eq!(stored.spec.image, Some(template));

    let params = DeleteParams::default();
    operators.delete("drift", &params).await.unwrap();
    wait::deleted(operators, "drift").await;
    wait::deleted(world.instances(), "drift").await;
    let sources = world.sources(MARKETPLACE);
    sources.delete("drift", &params).await.unwrap();
}

// parity: switch-2
#[tokio::test]
async fn as_a_third_party_catalog_creator_i_provide_catalogs_that_conform_to_the_platform() {
    let _alone = ALONE.lock().await;
    let world = world().await;
    let minor = world.openshift().await;
    let channel = json!({"spec": {"channel": format!("fast-4.{minor}")}});
    let versions: Api<ClusterVersion> = Api::all(world.client());
    merge(&versions, CLUSTER_VERSION, &channel).await;
    let tag = |minor: u64| format!("current:v4.{minor}-fast-x86_64");
    let before = publish(&tag(minor), "current", &["1.0.0"]);
    let after = publish(&tag(minor + 1), "current", &["1.0.0", "1.1.0"]);
    let variables =
        "v{ocp_major_version}.{ocp_minor_version}-{ocp_update_channels}-{platform_architecture}";
    let template = before.replace(&format!("v4.{minor}-fast-x86_64"), variables);
    // Clients reach the catalog through its Service.
    permit(world, "current", "catalog-server");
    let spec = json!({"catalogImageSource": {"catalogImage": template}, "priority": -10});
    world.apply(source(MARKETPLACE, "current", &spec)).await;
    world.resolves("current", &before).await;
    let first = ["current.v1.0.0"];
    world.lists(MARKETPLACE, "current", &first).await;

    world.set_openshift(minor + 1, "Partial").await;
    world.lists(MARKETPLACE, "current", &first).await;
    world.set_openshift(minor + 1, "Completed").await;
    world.resolves("current", &after).await;
    let both = ["current.v1.0.0", "current.v1.1.0"];
    world.lists(MARKETPLACE, "current", &both).await;

    // Without a catalog for a release, the former catalog is served, and the status reports the missing image.
    world.set_openshift(minor + 2, "Completed").await;
    let missing = format!("v4.{}-fast", minor + 2);
    world
        .wait_source_status(MARKETPLACE, "current", "without an image", |status| {
            status
                .message
                .as_deref()
                .is_some_and(|message| message.contains(&missing))
        })
        .await;
    world.lists(MARKETPLACE, "current", &both).await;
    world.remove_source(MARKETPLACE, "current").await;
}
