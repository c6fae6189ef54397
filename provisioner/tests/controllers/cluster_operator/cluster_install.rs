//! ClusterOperators during the installation of a cluster, and afterwards.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use manifests::api::platform_operator::PlatformOperator;

use super::*;
use crate::platform::support::package;
use crate::support::{Provisioner, SYSTEM, delete, list, wait_deleted};

fn untimed(status: &ClusterOperatorStatus) -> Vec<(String, String, String)> {
    let conditions = status.conditions.iter().map(|condition| {
        let reason = condition.reason.clone().unwrap_or_default();
        (condition.type_.clone(), condition.status.clone(), reason)
    });
    conditions.collect()
}

// parity: platform-26, openshift-1, openshift-2, openshift-5, openshift-6
#[tokio::test]
async fn cluster_operator_reports_platform_operators() {
    let platform = Platform::new().await;
    become_openshift(&platform, &["Partial 4.12.0"]).await;
    let bundles = platform.bundles("tide", &["1.0.0"]).await;
    let _server = platform.serve_mine(&package("tide", &bundles)).await;
    let provisioner = platform.start().await;

    reports_no_platform_operators(&platform).await;

    // A PlatformOperator that cannot be installed delays a new cluster and is named: 46, 47.
    platform.declare(json!({"package": {"name": "tide"}})).await;
    platform.declare(json!({"package": {"name": "typo"}})).await;
    platform.succeeds("tide", "").await;
    let (installing, one) = (
        "Progressing=True PlatformOperatorsInstalling",
        "Installing 1 of 2",
    );
    becomes(&platform, installing, one).await;
    let failing = "encountered the failing typo platform operator with reason \"SourceFailed\"";
    let operator = becomes(&platform, "Available=False PlatformOperatorError", failing).await;
    let status = operator.status.unwrap();
    let message = find(&status, "Available").unwrap().message.as_ref();
    assert!(!message.unwrap().contains("tide"), "{message:?}");

    // Its deletion makes the cluster healthy: 45, 48.
    let operators = platform.world.api::<PlatformOperator>();
    delete(&operators, "typo").await;
    let well = "All platform operators are in a successful state";
    let operator = becomes(&platform, "Available=True AsExpected", well).await;
    let related = related(&operator);
    for expected in ["bundleinstances ", "bundles ", "namespaces tide-system"] {
        tests::assert_rows!(related.iter().any(|object| object == expected) => true, "{related:?}");
    }

    // On an installed cluster, a PlatformOperator with a typo does not make the ClusterOperator unavailable.
    history(platform.world.cluster, &["Completed 4.12.0"]).await;
    platform.declare(json!({"package": {"name": "typo"}})).await;
    becomes(&platform, installing, one).await;
    let operator = becomes(&platform, "Available=True AsExpected", "1 of 2").await;
    tests::assert_rows!(find(&operator.status.unwrap(), "Degraded").unwrap().status => "False");

    changes_are_reverted(&platform).await;
    metrics(&provisioner).await;
    deleted_with_the_namespace(&platform).await;
}

fn related(operator: &ClusterOperator) -> Vec<String> {
    let status = operator.status.as_ref().unwrap();
    let objects = status.related_objects.iter();
    let lines = objects.map(|object| format!("{} {}", object.resource, object.name));
    lines.collect()
}

/// Without PlatformOperators, the ClusterOperator is published with complete conditions: 44, 63, 64.
async fn reports_no_platform_operators(platform: &Platform) {
    let none = "No platform operators are present in the cluster";
    let made = becomes(platform, "Available=True AsExpected", none).await;
    let owner = &made.owner_references()[0];
    assert_eq!((&*owner.kind, &*owner.name), ("Namespace", SYSTEM));
    tests::assert_rows!(related(&made) => [&*format!("namespaces {SYSTEM}"), "platformoperators "]);
    let available = "The platform operator manager is available at 0.0.1-snapshot";
    core_becomes(platform, "Available=True", available).await;
}

/// Changes by other clients are reverted, and nothing else is written: 31, 62.
async fn changes_are_reverted(platform: &Platform) {
    let api = platform.world.api::<ClusterOperator>();
    let before = list(&api).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(list(&api).await, before);

    let before = api.get(AGGREGATED).await.unwrap();
    // The tests of the model cover edited conditions.
    let edited = json!({"status": {"versions": [], "extension": null}});
    merge_status(&api, AGGREGATED, &edited).await;
    let is_as_before = |operator: &ClusterOperator| {
        let (old, new) = (before.status.as_ref().unwrap(), operator.status.as_ref()?);
        let is_same = untimed(old) == untimed(new)
            && old.versions == new.versions
            && old.extension == new.extension
            // The condition has not changed in between.
            && find(old, "Progressing") == find(new, "Progressing");
        is_same.then_some(())
    };
    wait_for(api.clone(), AGGREGATED, "as before", is_as_before).await;

    // A deleted ClusterOperator is created again with its recorded state.
    delete(&api, AGGREGATED).await;
    let is_recreated = |operator: &ClusterOperator| {
        (operator.uid() != before.uid()).then_some(())?;
        is_as_before(operator)
    };
    wait_for(api, AGGREGATED, "re-created", is_recreated).await;
}

async fn metrics(provisioner: &Provisioner) {
    for line in [
        "rukpak_upgradeable{reason=\"IndeterminateOperatorsInstalled\"} 1",
        "rukpak_upgrade_concerns{effect=\"blocks\"} 0",
        "rukpak_platform_operators{state=\"installed\"} 1",
        "rukpak_platform_operators{state=\"missing\"} 1",
        "rukpak_platform_operators{state=\"late\"} 0",
        "rukpak_platform_operators{state=\"unhealthy\"} 0",
        "rukpak_report_written{name=\"platform-operators-aggregated\"} 1",
        "rukpak_report_written{name=\"platform-operators-core\"} 1",
        "rukpak_platform_operator_installed{name=\"tide\"} 1",
        "rukpak_platform_operator_installed{name=\"typo\"} 0",
    ] {
        provisioner.counts(line).await;
    }
}

/// The install file contains the namespace; deleting it deletes the ClusterOperators, without any running provisioner.
async fn deleted_with_the_namespace(platform: &Platform) {
    let namespaces = platform.world.api::<Namespace>();
    delete(&namespaces, SYSTEM).await;
    wait_deleted(namespaces, SYSTEM).await;
    for name in [AGGREGATED, CORE] {
        wait_deleted(platform.world.api::<ClusterOperator>(), name).await;
    }
}
