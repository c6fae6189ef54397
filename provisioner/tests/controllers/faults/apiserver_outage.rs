//! Outages of the API server and of etcd.

use std::time::Duration;

use cluster::Program::{self, Apiserver, Etcd};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, sleep};

use super::support::{Stage, stage, took};
use crate::support::{Options, Play, delete, wait_for, wait_recreated};

/// Maximum number of requests of a provisioner of five instances while it recovers.
const MAX_REQUESTS: usize = 1500;

/// Stops programs during installations, upgrades and removals, and starts them again.
async fn survives(stage: &Stage, away: &[Program]) {
    let world = &stage.world;
    let pid = world.provisioner().await.pid().await;
    let new = Play::new(world, "new").await;
    let (healthy, newer, leaving) = futures::join!(
        Play::installed(world, "healthy"),
        Play::installed(world, "newer"),
        Play::installed(world, "leaving"),
    );
    // An installation, an upgrade and a removal are under way.
    let mark = stage.audit.mark();
    new.install(world, 1).await;
    newer.upgrade(world, 2).await;
    leaving.remove(world).await;
    let maps = Api::<ConfigMap>::namespaced(world.client(), &new.space);
    wait_for(maps, "map-00", "there", |_| Some(())).await;
    for &program in away {
        world.cluster.stop(program).await.unwrap();
    }
    // Long enough for watches to be reported as failing, and for delays to grow.
    sleep(Duration::from_secs(5)).await;
    for &program in away.iter().rev() {
        world.cluster.start_again(program).await.unwrap();
    }
    if away == [Etcd] {
        // The API server notices; its readiness reports that.
        world.cluster.start_again(Apiserver).await.unwrap();
    }
    let back = Instant::now();
    healthy.settled(world, 1).await;
    leaving.wait_deleted(world).await;
    newer.settled(world, 2).await;
    new.settled(world, 1).await;
    // The watches work, too.
    let maps = Api::<ConfigMap>::namespaced(world.client(), &healthy.space);
    let before = maps.get("map-07").await.unwrap().uid();
    delete(&maps, "map-07").await;
    wait_recreated(maps, "map-07", before).await;
    let stopped = format!("{away:?}");
    took(&stopped, back);
    stage.audit.since(&mark).at_most(MAX_REQUESTS, &stopped);
    let provisioner = world.provisioner().await;
    assert!(!provisioner.has_ended(), "{away:?}");
    assert_eq!(provisioner.pid().await, pid, "{away:?}");
    for play in [&healthy, &new, &newer] {
        play.uninstall(world).await;
    }
}

#[tokio::test]
async fn outages_of_api_server_and_etcd_are_waited_for() {
    let stage = stage(Options::default()).await;
    for away in [&[Apiserver][..], &[Etcd], &[Apiserver, Etcd]] {
        Box::pin(survives(&stage, away)).await;
    }
}
