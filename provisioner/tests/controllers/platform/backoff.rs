//! Failures back off, and resolved values are not requested a second time.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use manifests::api::platform_operator::PlatformOperator;
use serde_json::json;

use super::support::Platform;
use crate::catalogs::api_errors::{allow, deny};
use crate::support::{Provisioner, until};

const REFUSED: &str = "reconcile failed; retrying";

/// Lists the times of failed reconciles.
fn failures(provisioner: &Provisioner) -> Vec<jiff::Timestamp> {
    let lines = provisioner.lines();
    let failed = lines.iter().filter(|line| line["message"] == REFUSED);
    failed
        .map(|line| line["timestamp"].as_str().unwrap().parse().unwrap())
        .collect()
}

async fn has_failed(provisioner: &Provisioner, times: usize) -> Vec<Duration> {
    let failed = async || failures(provisioner);
    let all = until("failures", failed, |all| all.len() >= times).await;
    let gaps = all.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    gaps.map(|gap| gap.try_into().unwrap()).collect()
}

const STATUS: (&str, &str) = ("platform.openshift.io", "platformoperators/status");

/// Starts a provisioner while status writes are denied, and leaves the operator `tide` without a catalog.
pub(super) async fn failed_status_writes_back_off(platform: &Platform) -> Provisioner {
    platform.want(json!({"package": {"name": "tide"}})).await;
    let operators = platform.operators();
    let patch = Patch::Merge(json!({"status": {"clusterMinor": "1.1"}}));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let attempt = async || operators.patch_status("tide", &params, &patch).await;
    deny(platform.world.cluster, "UPDATE", STATUS, attempt).await;
    let provisioner = platform.start().await;
    let gaps = has_failed(&provisioner, 6).await;
    // Watch events also cause reconciles at the start. Without back-off, the interval was two seconds.
    let longest = gaps.iter().max().unwrap();
    assert!(*longest >= Duration::from_secs(5), "{gaps:?}");

    // A change of the operator is reconciled at once, and resets the back-off.
    let count = failures(&provisioner).len();
    let patch = json!({"spec": {"version": ">=1.0.0"}});
    platform.patch::<PlatformOperator>("tide", patch).await;
    let gaps = has_failed(&provisioner, count + 2).await;
    assert!(gaps[count] < Duration::from_secs(4), "{gaps:?}");

    allow(platform.world.cluster, STATUS.1).await;
    let patch = json!({"spec": {"version": null}});
    platform.patch::<PlatformOperator>("tide", patch).await;
    provisioner
}
