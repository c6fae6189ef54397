//! Interrupted connections between provisioner and API server.

use std::time::Duration;

use cluster::Program::Apiserver;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, sleep};

use super::support::{stage_behind_line, took};
use crate::support::{Play, delete, until, wait_recreated};

const CUTS: usize = 20;

#[tokio::test]
async fn interrupted_connections_and_watches_lose_nothing() {
    let (stage, mut line) = stage_behind_line().await;
    // Connections that are interrupted at random moments do no harm.
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let world = &stage.world;
    let pid = stage.world.provisioner().await.pid().await;
    let play = Play::new(world, "cut").await;
    let mark = stage.audit.mark();
    play.install(world, 1).await;
    let mut version = 1;
    for cut in 0..CUTS {
        sleep(Duration::from_millis(random.u64(1..400))).await;
        line.cut();
        sleep(Duration::from_millis(random.u64(0..200))).await;
        line.restore().await;
        if cut % 4 == 3 {
            version = 3 - version;
            play.upgrade(world, version).await;
        }
    }
    let mended = Instant::now();
    play.settled(world, version).await;
    took("from the last cut to the end", mended);
    play.remove(world).await;
    for _ in 0..4 {
        sleep(Duration::from_millis(random.u64(1..200))).await;
        line.cut();
        line.restore().await;
    }
    play.wait_deleted(world).await;
    stage.audit.since(&mark).at_most(4000, "cuts");
    assert_eq!(stage.world.provisioner().await.pid().await, pid);
    assert!(!stage.world.provisioner().await.has_ended());

    // Changes that an expired watch did not report are found by a list.
    let play = Play::installed(world, "expired").await;
    let maps = Api::<ConfigMap>::namespaced(world.client(), &play.space);
    let before = maps.get("map-01").await.unwrap().uid();
    line.cut();
    delete(&maps, "map-01").await;
    // A new API server has no events from before its start.
    stage.world.cluster.stop(Apiserver).await.unwrap();
    stage.world.cluster.start_again(Apiserver).await.unwrap();
    let mark = stage.audit.mark();
    line.restore().await;
    wait_recreated(maps, "map-01", before).await;
    play.settled(world, 1).await;
    let provisioner = stage.world.provisioner().await;
    let log = async || provisioner.log();
    let has_expired = |log: &String| log.contains("too old resource version");
    until("watches have expired", log, has_expired).await;
    stage.audit.since(&mark).at_most(300, "expired watches");
    play.uninstall(world).await;
}
