//! Outages of the API server and of etcd.

use std::time::Duration;

use cluster::Program::{self, Apiserver, Etcd};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, sleep};

use super::support::{Stage, stage, took};
use crate::support::{Options, Play, delete, wait_for};

/// Maximum number of requests of a provisioner of five instances while it recovers.
const MAX_REQUESTS: usize = 1500;

/// Four instances, each in another state.
struct Four {
    healthy: Play,
    new: Play,
    newer: Play,
    leaving: Play,
}

impl Four {
    /// Installs the instances that exist before the outage.
    async fn set_up(stage: &Stage) -> Self {
        let world = &stage.world;
        let four = Self {
            healthy: Play::new(world, "healthy").await,
            new: Play::new(world, "new").await,
            newer: Play::new(world, "newer").await,
            leaving: Play::new(world, "leaving").await,
        };
        let installed = [&four.healthy, &four.newer, &four.leaving];
        for play in installed {
            play.install(world, 1).await;
        }
        for play in installed {
            play.settled(world, 1).await;
        }
        four
    }

    /// Begins an installation, an upgrade and a removal, and returns when all are under way.
    async fn begin(&self, stage: &Stage) {
        let world = &stage.world;
        self.new.install(world, 1).await;
        self.newer.upgrade(world, 2).await;
        self.leaving.remove(world).await;
        let maps = |play: &Play| Api::<ConfigMap>::namespaced(world.client(), &play.space);
        wait_for(maps(&self.new), "map-00", "there", |_| Some(())).await;
    }

    async fn is_over(&self, stage: &Stage) {
        let world = &stage.world;
        self.healthy.settled(world, 1).await;
        self.leaving.wait_deleted(world).await;
        self.newer.settled(world, 2).await;
        self.new.settled(world, 1).await;
        // The watches work, too.
        let maps = Api::<ConfigMap>::namespaced(world.client(), &self.healthy.space);
        let before = maps.get("map-07").await.unwrap().uid();
        delete(&maps, "map-07").await;
        wait_for(maps, "map-07", "there again", |map: &ConfigMap| {
            (map.uid() != before).then_some(())
        })
        .await;
    }

    async fn remove(&self, stage: &Stage) {
        for play in [&self.healthy, &self.new, &self.newer] {
            play.remove(&stage.world).await;
            play.wait_deleted(&stage.world).await;
        }
    }
}

/// Stops programs during installations, upgrades and removals, and starts them again.
async fn survives(stage: &Stage, away: &[Program]) {
    let pid = stage.provisioner().await.pid().await;
    let four = Four::set_up(stage).await;
    let mark = stage.audit.mark();
    four.begin(stage).await;
    for &program in away {
        stage.cluster.stop(program).await.unwrap();
    }
    // Long enough for watches to be reported as failing, and for delays to grow.
    sleep(Duration::from_secs(5)).await;
    for &program in away.iter().rev() {
        stage.cluster.start_again(program).await.unwrap();
    }
    if away == [Etcd] {
        // The API server notices; its readiness reports that.
        stage.cluster.start_again(Apiserver).await.unwrap();
    }
    let back = Instant::now();
    four.is_over(stage).await;
    let stopped = format!("{away:?}");
    took(&stopped, back);
    stage.audit.since(&mark).at_most(MAX_REQUESTS, &stopped);
    let provisioner = stage.provisioner().await;
    assert!(!provisioner.has_ended(), "{away:?}");
    assert_eq!(provisioner.pid().await, pid, "{away:?}");
    four.remove(stage).await;
}

#[tokio::test]
async fn outages_of_api_server_and_etcd_are_waited_for() {
    let stage = stage(Options::default()).await;
    for away in [&[Apiserver][..], &[Etcd], &[Apiserver, Etcd]] {
        survives(&stage, away).await;
    }
}
