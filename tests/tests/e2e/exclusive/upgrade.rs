//! The first user story of automatic catalog switching: the cluster is upgraded, its catalogs follow, and so do the operators
//! that were installed from them.

use kube::Api;
use manifests::api::config::{CLUSTER_VERSION, ClusterVersion};
use manifests::api::platform_operator::PlatformOperator;
use serde_json::json;

use super::ALONE;
use crate::e2e::{
    catalogs::source,
    day_0::{self, MARKETPLACE},
    environment::{World, world},
    wait::{self, line, message},
};

impl World {
    /// Waits until a condition of the CatalogSource `drift` names the image in use.
    async fn resolves(&self, image: &str) {
        let sources = self.sources(MARKETPLACE);
        wait::until_within(wait::LONG_TIMEOUT, sources, "drift", image, |source| {
            source.status.as_ref().is_some_and(|status| {
                line(&status.conditions, "resolved_image").starts_with("True ")
                    && message(&status.conditions, "resolved_image") == image
            })
        })
        .await;
    }

    /// The minor version of the newest completed OpenShift update.
    async fn openshift(&self) -> u64 {
        let versions: Api<ClusterVersion> = Api::all(self.client());
        let version = versions.get(CLUSTER_VERSION).await.unwrap();
        let history = version.status.unwrap().history.unwrap();
        let mut history = history.iter();
        let newest = history.find(|update| update.state == "Completed");
        let version = &newest.unwrap().version;
        version.split('.').nth(1).unwrap().parse().unwrap()
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
async fn as_a_cluster_admin_i_upgrade_my_cluster_and_its_operators() {
    let _alone = ALONE.lock().await;
    let world = world().await;
    let first = day_0::publish("drift", "1.0.0", "4.20");
    let second = day_0::publish("drift", "1.1.0", "4.20");
    let minor = world.kubernetes().await;
    let tag = |minor: u64| format!("drift:v1.{minor}");
    let before = day_0::catalog_image(&tag(minor), &[&first]);
    let after = day_0::catalog_image(&tag(minor + 1), &[&first, &second]);
    let variables = "drift:v{kube_major_version}.{kube_minor_version}";
    let template = before.replace(&tag(minor), variables);
    let spec = json!({"sourceType": "grpc", "image": template, "priority": 10});
    world.apply(source(MARKETPLACE, "drift", &spec)).await;
    world.apply(day_0::platform_operator("drift")).await;
    world.resolves(&before).await;
    world.healthy("drift", "1.0.0").await;
    world.runs("drift-system", "drift-operator").await;

    // As in OpenShift, the control plane is upgraded before the update is completed.
    let openshift = world.openshift().await + 1;
    world.set_openshift(openshift, "Partial").await;
    let kubernetes = format!("v1.{}.0", minor + 1);
    world.cluster.upgrade_apiserver(&kubernetes).await.unwrap();
    assert_eq!(world.kubernetes().await, minor + 1);
    world.resolves(&after).await;
    world.offers_upgrade("drift", "1.1.0").await;
    world.healthy("drift", "1.0.0").await;
    world.set_openshift(openshift, "Completed").await;
    world.healthy("drift", "1.1.0").await;
    world.runs("drift-system", "drift-operator").await;
    // The provisioner does not change the template.
    let stored = world.sources(MARKETPLACE).get("drift").await.unwrap();
    assert_eq!(stored.spec.image, Some(template));

    wait::delete(Api::<PlatformOperator>::all(world.client()), "drift").await;
    wait::deleted(world.instances(), "drift").await;
    world.remove_source(MARKETPLACE, "drift").await;
}
