//! Connections that end without a notification, as behind a NAT device that has dropped its state.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use manifests::api::bundle_instance::BundleInstance;
use tokio::time::{Instant, sleep};

use super::support::{stage_behind_line, took};
use crate::support::{Play, delete};

/// A little longer than silence is tolerated.
const NOTICED: Duration = Duration::from_secs(110);

#[tokio::test]
async fn silently_dead_connections_are_closed() {
    let (stage, line) = stage_behind_line().await;
    let world = &stage.world;
    let old = Play::installed(world, "frozen").await;
    let new = Play::new(world, "late").await;
    let maps = Api::<ConfigMap>::namespaced(world.client(), &old.space);
    let before = maps.get("map-03").await.unwrap().uid();
    // In an idle cluster, quiet watches are not considered dead.
    let mark = stage.audit.mark();
    sleep(NOTICED).await;
    stage.audit.since(&mark).at_most(12, "at rest");

    line.freeze();
    let frozen = Instant::now();
    new.install(world, 1).await;
    delete(&maps, "map-03").await;
    let instances = world.api::<BundleInstance>();
    let is_noticed = async || {
        let status = instances.get(&new.name).await.unwrap().status;
        let is_known = status.is_some_and(|status| status.observed().is_some());
        let map = maps.get_opt("map-03").await.unwrap();
        is_known && map.is_some_and(|map| map.uid() != before)
    };
    while !is_noticed().await {
        let log = stage.world.provisioner().await.log();
        assert!(frozen.elapsed() < NOTICED, "{log}");
        sleep(Duration::from_millis(500)).await;
    }
    took("from the silence to its end", frozen);
    new.settled(world, 1).await;
    old.settled(world, 1).await;
    for play in [&old, &new] {
        play.uninstall(world).await;
    }
}
