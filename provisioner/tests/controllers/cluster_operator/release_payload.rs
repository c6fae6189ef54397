//! Reports that the API server rejects for a while, and those of a part of OpenShift's release payload, whose manifests the
//! cluster-version operator applies.

use std::time::Duration;

use manifests::api::config::ClusterOperatorSpec;

use super::{outage::through, *};
use crate::support::{Fault, Options, Relay, create, delete, list};

const NONE: &str = "No platform operators are present in the cluster";

// parity: openshift-22
#[tokio::test]
async fn reports_are_retried_until_written() {
    let platform = Platform::new().await;
    become_openshift(&platform, &["Completed 4.12.7"]).await;
    // A rejected report blocks no others.
    let relay = Relay::new(platform.world.cluster).await;
    relay.fails(Fault::Busy(&["/platform-operators-aggregated/status"]));
    let provisioner = platform.start_with(through(&relay)).await;
    core_becomes(&platform, "Available=True", "").await;
    let written = |name: &str, is: u8| format!("rukpak_report_written{{name=\"{name}\"}} {is}");
    provisioner.counts(&written(CORE, 1)).await;
    provisioner.counts(&written(AGGREGATED, 0)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let api = platform.world.api::<ClusterOperator>();
    let status = api.get(AGGREGATED).await.unwrap().status;
    assert_eq!(status.unwrap_or_default().conditions, []);
    // One warning per reason, regardless of the number of retries.
    let mut lines = provisioner.lines();
    let failure = "failed to update the platform operator status";
    lines.retain(|line| line.to_string().contains(failure));
    assert_eq!(lines.len(), 1, "{lines:?}");
    let operation = "write the status of ClusterOperator platform-operators-aggregated";
    for part in ["WARN", operation] {
        tests::assert_has(&lines[0], part);
    }
    relay.restore();
    becomes(&platform, "Available=True AsExpected", NONE).await;
    provisioner.counts(&written(AGGREGATED, 1)).await;
    drop(provisioner);
    for name in [AGGREGATED, CORE] {
        delete(&api, name).await;
    }

    let updating = ["Partial 4.13.0", "Completed 4.12.9"];
    history(platform.world.cluster, &updating).await;
    let release = ("RELEASE_VERSION", "4.13.0".to_owned());

    // The release in the environment is used only with the flag for release payloads.
    let options = |flags: &[&str]| {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        tests::with!(Options, flags, environment: vec![release.clone()])
    };
    {
        let options = options(&["--controllers=aggregator"]);
        let _provisioner = platform.start_with(options).await;
        let ready = "Ready for upgrade";
        let made = becomes(&platform, "Upgradeable=True AsExpected", ready).await;
        assert_eq!(made.status.unwrap().versions[0].version, "0.0.1-snapshot");
        core_becomes(&platform, "Available=True", "at 0.0.1-snapshot").await;
    }
    for name in [AGGREGATED, CORE] {
        delete(&api, name).await;
    }

    let options = options(&["--controllers=aggregator", "--release-payload"]);
    let provisioner = platform.start_with(options).await;
    // No ClusterOperator is created by the provisioner; the gauge reports when all inputs are known.
    let gauge = "rukpak_upgradeable{reason=\"AsExpected\"} 1";
    provisioner.counts(gauge).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(list(&api).await, []);
    for name in [AGGREGATED, CORE] {
        create(&api, &ClusterOperator::new(name, ClusterOperatorSpec {})).await;
    }
    let available = "The platform operator manager is available at 4.13.0";
    tests::assert_rows!(core_becomes(&platform, "Available=True", available).await.metadata.owner_references => None);
    let aggregated = becomes(&platform, "Available=True AsExpected", NONE).await;
    assert_eq!(aggregated.metadata.owner_references, None);
    assert_eq!(aggregated.status.unwrap().versions[0].version, "4.13.0");
}
