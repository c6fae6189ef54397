//! A watch that was interrupted for so long that the API server no longer has the events since then.

use cluster::Program::Apiserver;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};

use super::support::Stage;
use crate::support::{Line, Play, delete, until, wait_for};

/// Changes that an expired watch did not report are found by a list.
pub(super) async fn expired_watch_is_followed_by_a_list(stage: &Stage, line: &mut Line) {
    let world = &stage.world;
    let play = Play::new(world, "expired").await;
    play.install(world, 1).await;
    play.settled(world, 1).await;
    let maps = Api::<ConfigMap>::namespaced(world.client(), &play.space);
    let before = maps.get("map-01").await.unwrap().uid();

    line.cut();
    delete(&maps, "map-01").await;
    // A new API server has no events from before its start.
    stage.cluster.stop(Apiserver).await.unwrap();
    stage.cluster.start_again(Apiserver).await.unwrap();
    let mark = stage.audit.mark();
    line.mend().await;
    wait_for(maps, "map-01", "there again", |map: &ConfigMap| {
        (map.uid() != before).then_some(())
    })
    .await;
    play.settled(world, 1).await;
    let provisioner = stage.provisioner().await;
    let log = async || provisioner.log();
    until("watches have expired", log, |log| log.contains("Expired")).await;
    stage.audit.since(&mark).at_most(300, "expired watches");
    play.remove(world).await;
    play.wait_deleted(world).await;
}
