//! ClusterOperators while a cluster is installed, and later on.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use manifests::api::platform::PlatformOperator;

use super::*;
use crate::{
    catalogs::served::Server,
    platform::stage::package,
    support::{Provisioner, SYSTEM, delete, gone, list},
};

/// Everything but times.
fn said(status: &ClusterOperatorStatus) -> Vec<(String, String, String)> {
    let said = status.conditions.iter().map(|it| {
        let reason = it.reason.clone().unwrap_or_default();
        (it.type_.clone(), it.status.clone(), reason)
    });
    said.collect()
}

// parity: platform-26, openshift-1, openshift-2, openshift-5, openshift-6
#[tokio::test]
async fn the_cluster_is_told_of_its_platform_operators() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Partial 4.12.0"]).await;
    let bundles = platform.bundles("tide", &["1.0.0"]).await;
    let server = Server::of(None, &package("tide", &bundles)).await;
    platform.serve("mine", &server).await;
    let provisioner = platform.start().await;

    says_that_there_are_none(&platform).await;

    // One that cannot be installed holds a new cluster up, and is named: 46, 47.
    platform.want(json!({"package": {"name": "tide"}})).await;
    platform.want(json!({"package": {"name": "typo"}})).await;
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

    // It goes, and all is well: 45, 48.
    let operators = platform.world.api::<PlatformOperator>();
    delete(&operators, "typo").await;
    let well = "All platform operators are in a successful state";
    let operator = becomes(&platform, "Available=True AsExpected", well).await;
    let related = operator.status.unwrap().related_objects;
    let related: Vec<_> = related
        .iter()
        .map(|it| (&*it.resource, &*it.name))
        .collect();
    let namespace = ("namespaces", "tide-system");
    for wanted in [("bundleinstances", ""), ("bundles", ""), namespace] {
        assert!(related.contains(&wanted), "{wanted:?}: {related:?}");
    }

    // The cluster is there: whoever adds one with a typo does not take it down.
    history(cluster, &["Completed 4.12.0"]).await;
    platform.want(json!({"package": {"name": "typo"}})).await;
    becomes(&platform, installing, one).await;
    let operator = becomes(&platform, "Available=True AsExpected", "1 of 2").await;
    let status = operator.status.unwrap();
    assert_eq!(find(&status, "Degraded").unwrap().status, "False");

    is_kept(&platform).await;
    metrics(&provisioner).await;
    goes_with_the_product(&platform).await;
    server.stop().await;
}

/// It is there, and says all there is to be said: 44, 63, 64.
async fn says_that_there_are_none(platform: &Platform) {
    let none = "No platform operators are present in the cluster";
    let made = becomes(platform, "Available=True AsExpected", none).await;
    let owner = &made.owner_references()[0];
    assert_eq!((&*owner.kind, &*owner.name), ("Namespace", SYSTEM));
    let status = made.status.unwrap();
    let as_expected =
        |type_: &str, status: &str| (type_.into(), status.into(), "AsExpected".into());
    assert_eq!(
        said(&status),
        [
            as_expected("Available", "True"),
            as_expected("Progressing", "False"),
            as_expected("Degraded", "False"),
            as_expected("Upgradeable", "True")
        ]
    );
    let mut messages = status.conditions.iter().map(|it| &it.message);
    assert!(messages.all(|it| it.as_ref().is_some_and(|it| !it.is_empty())));
    let versions: Vec<_> = status
        .versions
        .iter()
        .map(|it| (&*it.name, &*it.version))
        .collect();
    assert_eq!(versions, [("operator", "0.0.1-snapshot")]);
    let related: Vec<_> = status
        .related_objects
        .iter()
        .map(|it| (&*it.resource, &*it.name))
        .collect();
    assert_eq!(related, [("namespaces", SYSTEM), ("platformoperators", "")]);
    let available = "The platform operator manager is available at 0.0.1-snapshot";
    core_becomes(platform, ("Available", "True"), available).await;
}

/// What others change is put back, and nothing is written besides: 31, 62.
async fn is_kept(platform: &Platform) {
    let api = platform.world.api::<ClusterOperator>();
    let before = list(&api).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(list(&api).await, before);

    let before = api.get(AGGREGATED).await.unwrap();
    let mut edited = before.clone();
    let status = edited.status.as_mut().unwrap();
    status.conditions.retain(|it| it.type_ != "Upgradeable");
    status.conditions[0].status = "Unknown".into();
    status.conditions[1].message = Some("nonsense".into());
    status.versions.clear();
    status.extension = None;
    let params = kube::api::PostParams::default();
    let replaced = api.replace_status(AGGREGATED, &params, &edited).await;
    replaced.unwrap();
    let is_as_before = |operator: &ClusterOperator| {
        let (old, new) = (before.status.as_ref().unwrap(), operator.status.as_ref()?);
        let is_same = said(old) == said(new)
            && old.versions == new.versions
            && old.extension == new.extension
            // It has not been anything else.
            && find(old, "Progressing") == find(new, "Progressing");
        is_same.then_some(())
    };
    wait_for(api.clone(), AGGREGATED, "as it was", is_as_before).await;

    // Deleted, it comes back with all that it knew.
    delete(&api, AGGREGATED).await;
    wait_for(api.clone(), AGGREGATED, "another one", |operator| {
        (operator.uid() != before.uid()).then_some(())
    })
    .await;
    wait_for(api.clone(), AGGREGATED, "as it was", is_as_before).await;
    // Without its owner it would stay for ever.
    let orphan = json!({"metadata": {"ownerReferences": null}});
    merge(&api, AGGREGATED, &orphan).await;
    wait_for(api, AGGREGATED, "owned", |operator: &ClusterOperator| {
        (!operator.owner_references().is_empty()).then_some(())
    })
    .await;
}

async fn metrics(provisioner: &Provisioner) {
    let url = format!("{}/metrics", provisioner.url("metrics"));
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
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
        assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
    }
}

/// The install file has the namespace: with it the ClusterOperators go, and whoever is still there is not needed for it.
async fn goes_with_the_product(platform: &Platform) {
    let namespaces = platform.world.api::<Namespace>();
    delete(&namespaces, SYSTEM).await;
    gone(namespaces, SYSTEM).await;
    for name in [AGGREGATED, CORE] {
        gone(platform.world.api::<ClusterOperator>(), name).await;
    }
}
