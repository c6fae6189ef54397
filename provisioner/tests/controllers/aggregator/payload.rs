//! As a part of OpenShift's release payload, whose manifests the cluster-version operator applies.

use std::time::Duration;

use kube::api::PostParams;
use manifests::api::config::ClusterOperatorSpec;
use provisioner::platform::aggregate::CORE;

use super::*;
use crate::support::{Options, delete};

// parity: openshift-22
#[tokio::test]
async fn the_release_payload_makes_the_operators_and_names_the_release() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    history(
        platform.world.cluster,
        &["Partial 4.13.0", "Completed 4.12.9"],
    )
    .await;
    let release = ("RELEASE_VERSION", "4.13.0".to_owned());

    // Who does not say that this is a payload is not believed what its environment says.
    let options = Options {
        flags: vec!["--controllers=aggregator".into()],
        environment: vec![release.clone()],
        ..Options::default()
    };
    let api = platform.world.api::<ClusterOperator>();
    {
        let _provisioner = platform.start_with(options).await;
        let ready = "Ready for upgrade";
        let made = becomes(&platform, "Upgradeable=True AsExpected", ready).await;
        assert_eq!(made.status.unwrap().versions[0].version, "0.0.1-snapshot");
        let available = "at 0.0.1-snapshot";
        operator_becomes(
            &platform,
            CORE,
            ("Available", "True"),
            "AsExpected",
            available,
        )
        .await;
    }
    for name in [AGGREGATED, CORE] {
        delete(&api, name).await;
    }

    let options = Options {
        flags: vec![
            "--controllers=aggregator".into(),
            "--release-payload".into(),
        ],
        environment: vec![release],
        ..Options::default()
    };
    let provisioner = platform.start_with(options).await;
    // Until somebody has made them, there is nothing; the gauge tells when all is known.
    crate::support::eventually("concluded", async || {
        let url = format!("{}/metrics", provisioner.url("metrics"));
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        text.contains("rukpak_upgradeable{reason=\"AsExpected\"} 1")
            .then_some(())
            .ok_or(text)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        api.list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items,
        []
    );
    for name in [AGGREGATED, CORE] {
        let empty = ClusterOperator::new(name, ClusterOperatorSpec {});
        api.create(&PostParams::default(), &empty).await.unwrap();
    }
    let available = "The platform operator manager is available at 4.13.0";
    let core = operator_becomes(
        &platform,
        CORE,
        ("Available", "True"),
        "AsExpected",
        available,
    );
    assert_eq!(core.await.metadata.owner_references, None);
    let none = "No platform operators are present in the cluster";
    let aggregated = becomes(&platform, "Available=True AsExpected", none).await;
    assert_eq!(aggregated.metadata.owner_references, None);
    let status = aggregated.status.unwrap();
    assert_eq!(status.versions[0].version, "4.13.0");
    assert!(
        status
            .conditions
            .iter()
            .all(|it| it.reason.as_ref().is_some_and(|it| !it.is_empty()))
    );
}
