//! API servers that are busy or do not answer for some of the watched resources.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::*;
use crate::support::{Fault, Options, Relay};

/// Returns the start options of the aggregator alone, which reaches the API server through a relay.
pub(super) fn through(relay: &Relay) -> Options {
    let flags = vec!["--controllers=aggregator".to_owned()];
    tests::with!(Options, flags, kubeconfig: Some(relay.kubeconfig()))
}

async fn gate_fails(platform: &Platform, text: &str) {
    let closed = "Upgradeable=False ErrorCheckingOperatorCompatibility";
    becomes(platform, closed, text).await;
}

// parity: max-olm-10
#[tokio::test]
async fn only_lasting_watch_failures_close_the_gate() {
    let platform = Platform::new().await;
    become_openshift(&platform, &["Completed 4.12.7"]).await;
    let relay = Relay::new(platform.world.cluster).await;
    // The release of the cluster is unknown from the start; conditions are reported all the same.
    relay.fails(Fault::Busy(&["/clusterversions"]));
    let provisioner = platform.start_with(through(&relay)).await;
    gate_fails(&platform, "failed to list clusterversions: ").await;
    core_becomes(&platform, "Available=True", "").await;
    relay.restore();
    gate_opens(&platform).await;

    // An API server that restarts does not change a condition.
    let api = platform.world.api::<ClusterOperator>();
    let before = api.get(AGGREGATED).await.unwrap();
    relay.fails(Fault::Busy(&["/apis/"]));
    sleep(Duration::from_secs(6)).await;
    relay.restore();
    // After six seconds of failures, watches back off for eight seconds at most.
    sleep(Duration::from_secs(20)).await;
    let failed = |line: &&Value| line.to_string().contains("watch failed; relisting");
    assert!(provisioner.lines().iter().filter(failed).count() > 5);
    assert_eq!(api.get(AGGREGATED).await.unwrap(), before);

    // A lasting failure does.
    let began = Instant::now();
    relay.fails(Fault::Busy(&["/bundleinstances", "/platformoperators"]));
    gate_fails(&platform, "failed to list bundleinstances: ").await;
    assert!(began.elapsed() > Duration::from_secs(25));
    let away = "Failed to list the platform operators: failed to list platformoperators: ";
    let degraded = "Degraded=True PlatformOperatorsUnknown";
    reports(&platform, CORE, degraded, away).await;
    relay.restore();
    gate_opens(&platform).await;
    core_becomes(&platform, "Degraded=False", "").await;
    drop(provisioner);

    // An API server that does not answer at all, neither to lists nor to discovery.
    let paths: [&'static [&'static str]; 2] =
        [&["/bundleinstances"], &["/apis/core.rukpak.io/v1alpha1"]];
    for path in paths {
        relay.fails(Fault::Silent(path));
        let provisioner = platform.start_with(through(&relay)).await;
        let away = "failed to list bundleinstances: the API server has not responded for 30 s";
        gate_fails(&platform, away).await;
        relay.restore();
        drop(provisioner);
        let provisioner = platform.start_with(through(&relay)).await;
        gate_opens(&platform).await;
        drop(provisioner);
    }
}
