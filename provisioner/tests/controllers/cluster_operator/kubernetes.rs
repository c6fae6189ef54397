//! Clusters without OpenShift.

use manifests::api::platform_status::{NAME, PlatformStatus};

use super::*;
use crate::platform::support::package;
use crate::support::{condition, has, image, operator, wait_deleted};

// parity: max-11, max-olm-16, platform-3
#[tokio::test]
async fn plain_kubernetes_has_an_upgrade_gate() {
    let platform = Platform::new().await;
    let provisioner = platform.start().await;
    let is_available = |object: &PlatformStatus| {
        has(&object.status.as_ref()?.conditions, "Available", "True").then_some(())
    };
    let status = wait_for(platform.world.api(), NAME, "told", is_available).await;
    let status = status.status.unwrap();
    let types: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| &*condition.type_)
        .collect();
    assert_eq!(
        types,
        ["Available", "Progressing", "Degraded", "Upgradeable"]
    );
    assert_eq!(status.cluster_minor.as_deref(), Some("1.36"));
    assert_eq!((status.details.operators, status.details.installed), (0, 0));
    assert!(status.details.first_available.is_some());

    operator_conditions::an_operator_closes_the_gate(&platform).await;

    // A max OpenShift version has no effect on this cluster.
    let mut bundles = platform.bundles("tide", &["1.0.0"]).await;
    let maximum = json!({"type": "olm.maxOpenShiftVersion", "value": "4.1"});
    bundles[0]["properties"]
        .as_array_mut()
        .unwrap()
        .push(maximum);
    let server = platform.serve_mine(&package("tide", &bundles)).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    platform.succeeds("tide", "").await;
    let one =
        |object: &PlatformStatus| (object.status.as_ref()?.details.installed == 1).then_some(());
    let status = wait_for(platform.world.api(), NAME, "one", one).await;
    let status = status.status.unwrap();
    assert!(has(&status.conditions, "Upgradeable", "True"), "{status:?}");
    assert_eq!(status.details.concerns, []);

    // The next Kubernetes version does not serve a resource that this role refers to.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "moon-reader"},
        "rules": [{"apiGroups": ["networking.k8s.io"], "resources": ["ipaddresses"], "verbs": ["get"]}],
    });
    let content = operator("moon", "1.0.0", &[("manifests/role.yaml", role)]);
    let moon = platform.world.push("moon:v1.0.0", &content).await;
    let source = image(&moon);
    platform.world.instance("moon", "registry", source).await;
    // The warning precedes the end of the rollout, and the name of the namespace follows.
    let warning = "Ready for upgrade\n- moon-system/moon: Warning: ClusterRole moon-reader refers to the resource of \
                 IPAddress, and Kubernetes 1.37 does not serve";
    let warned = |object: &PlatformStatus| {
        let upgradeable = condition(&object.status.as_ref()?.conditions, "Upgradeable")?;
        let has_warning = upgradeable.status == "True"
            && upgradeable.reason == "RemovedAPIsInUse"
            && upgradeable.message.starts_with(warning);
        has_warning.then_some(())
    };
    wait_for(platform.world.api(), NAME, "warned", warned).await;

    // The cluster becomes an OpenShift cluster: only the ClusterOperator remains, and max OpenShift versions take
    // effect.
    become_openshift(&platform).await;
    history(platform.world.cluster, &["Completed 4.12.0"]).await;
    let will_not = "will not run on the next OpenShift Version: tide-system/tide";
    let closed = "Upgradeable=False IncompatibleOperatorsInstalled";
    becomes(&platform, closed, will_not).await;
    wait_deleted(platform.world.api::<PlatformStatus>(), NAME).await;
    let mut lines = provisioner.lines().into_iter();
    assert_eq!(lines.find(|line| line["level"] == "ERROR"), None);
    server.stop().await;
}
