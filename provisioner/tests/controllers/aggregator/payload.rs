//! Reports that the API server rejects for a while, and those of a part of OpenShift's release payload, whose manifests the
//! cluster-version operator applies.

use std::time::Duration;

use kube::api::PostParams;
use manifests::api::config::ClusterOperatorSpec;
use provisioner::platform::aggregate::CORE;

use super::outage::through;
use super::*;
use crate::support::{Fault, Options, Relay, delete};

const NONE: &str = "No platform operators are present in the cluster";

// parity: openshift-22
#[tokio::test]
async fn reports_are_written_when_they_can_be() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    history(platform.world.cluster, &["Completed 4.12.7"]).await;
    refused_reports_hold_nothing_up(&platform).await;
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
    let known = "rukpak_upgradeable{reason=\"AsExpected\"} 1";
    provisioner.counts(known).await;
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
    let aggregated = becomes(&platform, "Available=True AsExpected", NONE).await;
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

/// Leaves no ClusterOperators.
async fn refused_reports_hold_nothing_up(platform: &Platform) {
    let relay = Relay::new(platform.world.cluster).await;
    relay.fails(Fault::Busy(&["/platform-operators-aggregated/status"]));
    let provisioner = platform.start_with(through(&relay)).await;
    operator_becomes(platform, CORE, ("Available", "True"), "AsExpected", "").await;
    let written = |name: &str, is: u8| format!("rukpak_report_written{{name=\"{name}\"}} {is}");
    provisioner.counts(&written(CORE, 1)).await;
    provisioner.counts(&written(AGGREGATED, 0)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let aggregated = platform.world.api::<ClusterOperator>();
    let there = aggregated.get(AGGREGATED).await.unwrap();
    assert!(
        there
            .status
            .is_none_or(|status| status.conditions.is_empty())
    );
    // Once for one reason, however often it is tried.
    let told = |line: &&Value| {
        line.to_string()
            .contains("what is concluded cannot be written")
    };
    let lines = provisioner.lines();
    let warnings: Vec<_> = lines.iter().filter(told).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = warnings[0].to_string();
    for words in [
        "WARN",
        "write the status of ClusterOperator platform-operators-aggregated",
    ] {
        assert!(warning.contains(words), "{warning}");
    }
    relay.mend();
    becomes(platform, "Available=True AsExpected", NONE).await;
    provisioner.counts(&written(AGGREGATED, 1)).await;
    drop(provisioner);
    for name in [AGGREGATED, CORE] {
        delete(&aggregated, name).await;
    }
}
