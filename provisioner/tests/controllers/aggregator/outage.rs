//! An apiserver that has no time, or says nothing at all, for some of what is watched or written.

use std::time::Duration;

use provisioner::platform::aggregate::CORE;
use tokio::time::{Instant, sleep};

use super::*;
use crate::support::{Fault, Options, Provisioner, Relay, until};

/// What closes the gate when something cannot be read.
const ERROR: &str = "ErrorCheckingOperatorCompatibility";
const NONE: &str = "No platform operators are present in the cluster";
const READY: &str = "Ready for upgrade";

fn through(relay: &Relay) -> Options {
    Options {
        flags: vec!["--controllers=aggregator".into()],
        kubeconfig: Some(relay.kubeconfig()),
        ..Options::default()
    }
}

async fn metric_is(provisioner: &Provisioner, line: &str) {
    let url = format!("{}/metrics", provisioner.url("metrics"));
    until(
        line,
        async || reqwest::get(&url).await.unwrap().text().await.unwrap(),
        |text| text.lines().any(|other| other == line),
    )
    .await;
}

// parity: max-olm-10
#[tokio::test]
async fn what_cannot_be_watched_for_a_while_closes_the_gate_and_nothing_shorter_does() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    history(platform.world.cluster, &["Completed 4.12.7"]).await;
    let relay = Relay::new(platform.world.cluster).await;
    // From the beginning: that it is not known what the cluster runs is no reason to say nothing.
    relay.fails(Fault::Busy(&["/clusterversions"]));
    let provisioner = platform.start_with(through(&relay)).await;
    let is_away = |plural: &str| format!("{plural} cannot be listed: ");
    let away = is_away("clusterversions");
    becomes(&platform, &format!("Upgradeable=False {ERROR}"), &away).await;
    operator_becomes(&platform, CORE, ("Available", "True"), "AsExpected", "").await;
    relay.mend();
    becomes(&platform, "Upgradeable=True AsExpected", READY).await;

    // An apiserver that restarts is no reason to tell the cluster anything.
    let api = platform.world.api::<ClusterOperator>();
    let before = api.get(AGGREGATED).await.unwrap();
    relay.fails(Fault::Busy(&["/apis/"]));
    sleep(Duration::from_secs(12)).await;
    relay.mend();
    // Watches pause for some ten seconds at most.
    sleep(Duration::from_secs(13)).await;
    let failed = |line: &&Value| line.to_string().contains("a watch failed");
    assert!(provisioner.lines().iter().filter(failed).count() > 5);
    assert_eq!(api.get(AGGREGATED).await.unwrap(), before);

    // What lasts is one.
    let began = Instant::now();
    relay.fails(Fault::Busy(&["/bundleinstances", "/platformoperators"]));
    let away = is_away("bundleinstances");
    becomes(&platform, &format!("Upgradeable=False {ERROR}"), &away).await;
    assert!(began.elapsed() > Duration::from_secs(25));
    let away = is_away("The platform operators cannot be listed: platformoperators");
    let degraded = ("Degraded", "True");
    operator_becomes(&platform, CORE, degraded, "PlatformOperatorsUnknown", &away).await;
    relay.mend();
    becomes(&platform, "Upgradeable=True AsExpected", READY).await;
    operator_becomes(&platform, CORE, ("Degraded", "False"), "AsExpected", "").await;
    drop(provisioner);

    // One that does not answer at all, neither here nor when it is asked what it serves.
    for path in ["/bundleinstances", "/apis/core.rukpak.io/v1alpha1"] {
        relay.fails(Fault::Silent(match path {
            "/bundleinstances" => &["/bundleinstances"],
            _ => &["/apis/core.rukpak.io/v1alpha1"],
        }));
        let provisioner = platform.start_with(through(&relay)).await;
        let away = "bundleinstances cannot be listed: the apiserver has not answered for 30 s";
        becomes(&platform, &format!("Upgradeable=False {ERROR}"), away).await;
        relay.mend();
        drop(provisioner);
        let provisioner = platform.start_with(through(&relay)).await;
        becomes(&platform, "Upgradeable=True AsExpected", READY).await;
        drop(provisioner);
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_told_and_holds_nothing_else_up() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    history(platform.world.cluster, &["Completed 4.12.7"]).await;
    let relay = Relay::new(platform.world.cluster).await;
    relay.fails(Fault::Busy(&["/platform-operators-aggregated/status"]));
    let provisioner = platform.start_with(through(&relay)).await;
    operator_becomes(&platform, CORE, ("Available", "True"), "AsExpected", "").await;
    let written = |name: &str, is: u8| format!("rukpak_report_written{{name=\"{name}\"}} {is}");
    metric_is(&provisioner, &written(CORE, 1)).await;
    metric_is(&provisioner, &written(AGGREGATED, 0)).await;
    sleep(Duration::from_secs(5)).await;
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
    becomes(&platform, "Available=True AsExpected", NONE).await;
    metric_is(&provisioner, &written(AGGREGATED, 1)).await;
}
