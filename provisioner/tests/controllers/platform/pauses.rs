//! What fails again and again is tried ever more slowly, and what was found out is not asked for a second time.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use manifests::api::platform::PlatformOperator;
use serde_json::json;

use super::stage::{Platform, package};
use crate::{
    catalogs::{
        denied::{allow, deny},
        served::Server,
    },
    support::{Provisioner, eventually, wait_for},
};

const REFUSED: &str = "could not be finished; it is tried again";

/// When a look at the operator failed, each time.
fn failures(provisioner: &Provisioner) -> Vec<jiff::Timestamp> {
    let lines = provisioner.lines();
    let failed = lines.iter().filter(|it| it["message"] == REFUSED);
    failed
        .map(|it| it["timestamp"].as_str().unwrap().parse().unwrap())
        .collect()
}

async fn has_failed(provisioner: &Provisioner, times: usize) -> Vec<Duration> {
    let all = eventually(&format!("{times} failures"), async || {
        let all = failures(provisioner);
        if all.len() < times {
            return Err(format!("{all:?}"));
        }
        Ok(all)
    })
    .await;
    let gaps = all.windows(2).map(|it| it[1].duration_since(it[0]));
    gaps.map(|it| it.try_into().unwrap()).collect()
}

const STATUS: (&str, &str) = ("platform.openshift.io", "platformoperators/status");

#[tokio::test]
async fn a_status_that_is_always_refused_is_written_ever_more_slowly() {
    let platform = Platform::new().await;
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
    let tide = platform.bundles("tide", &["1.0.0"]).await;
    let server = Server::of(None, &package("tide", &tide)).await;
    platform.serve("mine", &server).await;
    wait_for(platform.operators(), "tide", "told", |it| {
        let status = it.status.as_ref()?;
        (status.active_bundle_instance.is_some()).then_some(())
    })
    .await;
    server.stop().await;
}
