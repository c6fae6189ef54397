//! Clusters that are no OpenShift.

use manifests::api::platform_status::{NAME, PlatformStatus};

use super::*;
use crate::{
    platform::stage::package,
    support::{condition, gone, has, image, operator},
};

// parity: max-11, max-olm-16, platform-3
#[tokio::test]
async fn a_cluster_without_cluster_operators_has_a_gate_as_well() {
    let platform = Platform::new().await;
    let provisioner = platform.start().await;
    let is_told = |it: &PlatformStatus| {
        has(&it.status.as_ref()?.conditions, "Available", "True").then_some(())
    };
    let told = wait_for(platform.world.api(), NAME, "told", is_told).await;
    let told = told.status.unwrap();
    let types: Vec<_> = told.conditions.iter().map(|it| &*it.type_).collect();
    assert_eq!(
        types,
        ["Available", "Progressing", "Degraded", "Upgradeable"]
    );
    assert_eq!(told.cluster_minor.as_deref(), Some("1.36"));
    assert_eq!((told.details.operators, told.details.installed), (0, 0));
    assert!(told.details.first_available.is_some());

    asking::an_operator_closes_the_gate(&platform).await;

    // A maximum means nothing here.
    let mut bundles = platform.bundles("tide", &["1.0.0"]).await;
    let maximum = json!({"type": "olm.maxOpenShiftVersion", "value": "4.1"});
    bundles[0]["properties"]
        .as_array_mut()
        .unwrap()
        .push(maximum);
    let server = platform.serve_mine(&package("tide", &bundles)).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    platform.succeeds("tide", "").await;
    let one = |it: &PlatformStatus| (it.status.as_ref()?.details.installed == 1).then_some(());
    let told = wait_for(platform.world.api(), NAME, "one", one).await;
    let told = told.status.unwrap();
    assert!(has(&told.conditions, "Upgradeable", "True"), "{told:?}");
    assert_eq!(told.details.concerns, []);

    // The next Kubernetes does not serve all of what this one may read.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "moon-reader"},
        "rules": [{"apiGroups": ["networking.k8s.io"], "resources": ["ipaddresses"], "verbs": ["get"]}],
    });
    let content = operator("moon", "1.0.0", &[("manifests/role.yaml", role)]);
    let moon = platform.world.push("moon:v1.0.0", &content).await;
    let source = image(&moon);
    platform.world.instance("moon", "registry", source).await;
    // The warning precedes the end of the rollout, and the name of the namespace follows.
    let words = "Ready for upgrade\n- moon-system/moon: Warning: ClusterRole moon-reader refers to the resource of \
                 IPAddress, and Kubernetes 1.37 does not serve";
    let warned = |it: &PlatformStatus| {
        let upgradeable = condition(&it.status.as_ref()?.conditions, "Upgradeable")?;
        let has_warning = upgradeable.status == "True"
            && upgradeable.reason == "RemovedAPIsInUse"
            && upgradeable.message.starts_with(words);
        has_warning.then_some(())
    };
    wait_for(platform.world.api(), NAME, "warned", warned).await;

    // It becomes an OpenShift: there is one gate, and maxima mean something.
    become_openshift(&platform).await;
    history(platform.world.cluster, &["Completed 4.12.0"]).await;
    let will_not = "will not run on the next OpenShift Version: tide-system/tide";
    let closed = "Upgradeable=False IncompatibleOperatorsInstalled";
    becomes(&platform, closed, will_not).await;
    gone(platform.world.api::<PlatformStatus>(), NAME).await;
    let mut lines = provisioner.lines().into_iter();
    assert_eq!(lines.find(|line| line["level"] == "ERROR"), None);
    server.stop().await;
}
