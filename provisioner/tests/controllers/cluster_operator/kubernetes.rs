//! Clusters without OpenShift.

use manifests::api::platform_status::{NAME, PlatformStatus};
use provisioner::cluster::versions::Versions;

use super::*;
use crate::platform::support::{package, with_maximum};
use crate::support::{has, wait_deleted, wait_status};

// parity: max-11, max-12, max-16, max-olm-16, platform-3
#[tokio::test]
async fn plain_kubernetes_has_an_upgrade_gate() {
    let platform = Platform::new().await;
    let provisioner = platform.start().await;
    let statuses = platform.world.api::<PlatformStatus>();
    let status = wait_status(statuses.clone(), NAME, ["Available", "True"]).await;
    let status = status.status.unwrap();
    assert_eq!(status.cluster_minor.as_deref(), Some("1.36"));
    assert_eq!((status.details.operators, status.details.installed), (0, 0));
    assert!(status.details.first_available.is_some());

    Box::pin(operator_conditions::an_operator_closes_the_gate(&platform)).await;

    // A max OpenShift version has no effect on this cluster.
    let tide = platform.bundles("tide", &["1.0.0"]).await.remove(0);
    let bundles = [with_maximum(tide, "4.1")];
    let _server = platform.serve_mine(&package("tide", &bundles)).await;
    platform.declare(json!({"package": {"name": "tide"}})).await;
    platform.succeeds("tide", "").await;
    let status = wait_part(statuses.clone(), NAME, json!({"status": {"installed": 1}})).await;
    let status = status.status.unwrap();
    assert!(has(&status.conditions, "Upgradeable", "True"), "{status:?}");
    assert_eq!(status.details.concerns, []);

    // The cluster becomes an OpenShift cluster: only the ClusterOperator remains, and max OpenShift versions take
    // effect.
    let versions = Versions::new(platform.world.client(), Some("4.13.0".into()));
    assert_eq!(versions.openshift().await.unwrap(), None);
    become_openshift(&platform, &["Completed 4.12.0"]).await;
    // A missing API is not requested each time.
    assert_eq!(versions.openshift().await.unwrap(), None);
    let will_not = "will not run on the next OpenShift Version: tide-system/tide";
    let closed = "Upgradeable=False IncompatibleOperatorsInstalled";
    becomes(&platform, closed, will_not).await;
    wait_deleted(statuses, NAME).await;
    let mut lines = provisioner.lines().into_iter();
    assert_eq!(lines.find(|line| line["level"] == "ERROR"), None);
}
