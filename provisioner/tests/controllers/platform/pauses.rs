//! What fails again and again is tried ever more slowly, and what was found out is not asked for a second time.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use manifests::api::platform::PlatformOperator;
use serde_json::json;

use super::stage::Platform;
use crate::{
    catalogs::denied::{allow, deny},
    support::{Provisioner, until},
};

const REFUSED: &str = "reconcile failed; retrying";

/// When a look at the operator failed, each time.
fn failures(provisioner: &Provisioner) -> Vec<jiff::Timestamp> {
    let lines = provisioner.lines();
    let failed = lines.iter().filter(|it| it["message"] == REFUSED);
    failed
        .map(|it| it["timestamp"].as_str().unwrap().parse().unwrap())
        .collect()
}

async fn has_failed(provisioner: &Provisioner, times: usize) -> Vec<Duration> {
    let failed = async || failures(provisioner);
    let all = until("failures", failed, |all| all.len() >= times).await;
    let gaps = all.windows(2).map(|it| it[1].duration_since(it[0]));
    gaps.map(|it| it.try_into().unwrap()).collect()
}

const STATUS: (&str, &str) = ("platform.openshift.io", "platformoperators/status");

/// Starts a provisioner before the status can be written, and leaves the operator `tide` without a catalog.
pub(super) async fn refused_statuses_are_written_ever_more_slowly(
    platform: &Platform,
) -> Provisioner {
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
    // Watches wake it besides, at the beginning; but it was two seconds each time.
    let longest = gaps.iter().max().unwrap();
    assert!(*longest >= Duration::from_secs(5), "{gaps:?}");

    // Somebody changes it: it is looked at at once, and soon again.
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
