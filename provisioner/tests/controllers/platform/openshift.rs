//! Platform operators on OpenShift: the ClusterVersion changes, and the PlatformOperator CRD of OpenShift drops unknown
//! fields.

use k8s_openapi::api::apps::v1::Deployment;

use super::support::{Platform, bundle, optional_crd, packages, with_maximum};
use super::*;
use crate::cluster_operator::{history, version};
use crate::openshift::CLUSTER_VERSION;
use crate::support::eventually;

// parity: max-17, max-18, max-olm-19, platform-2, openshift-18, openshift-24
#[tokio::test]
async fn packages_follow_the_cluster_with_the_openshift_crd() {
    let platform = Platform::bare().await;
    let catalog_source = optional_crd("CatalogSource");
    for crd in [crd(CLUSTER_VERSION), crd(PLATFORM_OPERATOR), catalog_source] {
        platform.define(&crd).await;
    }
    platform.world.apply(&version()).await;
    let tide = ["1.0.0", "1.0.1", "1.1.0", "1.2.0"];
    let tide = platform.bundles("tide", &tide).await;
    // The newest version does not support this cluster. The supported one blocks the upgrade to the next release, and
    // declares the maximum itself, too.
    let first = platform.push_limited("surf", "4.12").await;
    let first = with_maximum(bundle("surf", "1.0.0", &first), "4.12");
    let newest = platform.bundles("surf", &["1.1.0"]).await.remove(0);
    let surf = vec![first, with_maximum(newest, "4.11")];
    let moon = platform.bundles("moon", &["1.0.0"]).await.remove(0);
    let moon = vec![with_maximum(moon, "4.11")];
    let mut all = vec![("tide", tide), ("surf", surf), ("moon", moon)];
    let server = platform.serve_mine(&begin(&all, 1)).await;
    for package in ["tide", "surf", "moon"] {
        let spec = json!({"package": {"name": package}});
        platform.declare(spec).await;
    }
    // The pattern of the CRD has no anchors and accepts this name.
    let odd = json!({"package": {"name": "Foo_Bar!"}});
    platform.declare_as("odd", odd).await;
    let provisioner = platform.start().await;

    // Without a release the constraints cannot be evaluated.
    let (failed, unknown) = ("SourceFailed", "failed to determine the cluster version");
    platform.becomes("tide", "False", failed, unknown).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Completed 4.12.0"]).await;
    platform.has("tide", "1.0.0").await;
    platform.has("surf", "1.0.0").await;
    for (name, part) in tests::rows![
        "moon" => "requires OpenShift <= 4.11 but the cluster is 4.12";
        "odd" => "spec.package.name \"Foo_Bar!\"";
    ] {
        platform.becomes(name, "False", failed, part).await;
    }
    let blocks = "The following operators will not run on the next OpenShift Version: ";
    let closed = ("False", "IncompatibleOperatorsInstalled", blocks);
    platform.wait_condition("surf", UPGRADEABLE, closed).await;
    platform.has_minors("tide", "4.12 1.0").await;
    becomes_idle(&platform).await;

    // Patch versions are installed at once, minor versions only after the cluster has completed its upgrade.
    let server = server.replaced(&begin(&all, 4)).await;
    platform.has("tide", "1.0.1").await;
    history(cluster, &["Partial 4.13.0", "Completed 4.12.0"]).await;
    history(cluster, &["Completed 4.12.9"]).await;
    becomes_idle(&platform).await;
    platform.has_chosen("tide", &["1.0.0", "1.0.1"]).await;
    history(cluster, &["Completed 4.13.0"]).await;
    platform.has("tide", "1.2.0").await;
    platform
        .has_chosen("tide", &["1.0.0", "1.0.1", "1.1.0", "1.2.0"])
        .await;
    platform.has_minors("tide", "4.13 1.2").await;
    // The installed bundle is kept although the cluster exceeds its max OpenShift version.
    platform.succeeds("surf", "Successfully applied").await;
    surf_is_repaired(&platform).await;
    becomes_idle(&platform).await;

    // The cluster is upgraded while no provisioner runs.
    drop(provisioner);
    history(cluster, &["Completed 4.14.2", "Completed 4.13.0"]).await;
    all[0].1.extend(platform.bundles("tide", &["1.3.0"]).await);
    let _server = server.replaced(&begin(&all, 5)).await;
    let _provisioner = platform.start().await;
    platform.has("tide", "1.3.0").await;
    platform.has_minors("tide", "4.14 1.3").await;
    // A restarted provisioner keeps the bundle.
    surf_is_repaired(&platform).await;
    platform.succeeds("surf", "").await;
    becomes_idle(&platform).await;
}

/// Waits until no write repeats because the CRD drops fields.
async fn becomes_idle(platform: &Platform) {
    let operators = platform.operators();
    eventually("at rest", async || {
        let before = operators.get("tide").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let tide = operators.get("tide").await.unwrap();
        let is_at_rest = before.resource_version() == tide.resource_version();
        let is_reported = is_at_rest && tide.active_instance() == Some("tide");
        let status = tide.status.clone().unwrap_or_default();
        assert_eq!((status.chosen_bundle, status.cluster_minor), (None, None));
        is_reported.then_some(()).ok_or(format!("{tide:?}"))
    })
    .await;
}

/// The installed bundle is repaired on any cluster version.
async fn surf_is_repaired(platform: &Platform) {
    let deployments: Api<Deployment> = Api::namespaced(platform.world.client(), "surf-system");
    let before = deployments.get("surf-operator").await.unwrap().uid();
    delete(&deployments, "surf-operator").await;
    wait_recreated(deployments, "surf-operator", before).await;
}

/// Returns the catalog with this many versions of `tide`.
fn begin(all: &[(&'static str, Vec<Value>)], versions: usize) -> Vec<Value> {
    let mut all = all.to_vec();
    all[0].1.truncate(versions);
    packages(&all)
}
