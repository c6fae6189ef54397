//! The line between provisioner and apiserver: connections that are cut.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::stage::stage_behind_line;
use crate::support::Play;

/// How often connections are cut.
const CUTS: usize = 20;

#[tokio::test]
async fn connections_that_are_cut_at_random_moments_do_no_harm() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (stage, mut line) = stage_behind_line().await;
    let world = &stage.world;
    let pid = stage.provisioner().await.pid().await;
    let play = Play::new(world, "cut").await;
    let mark = stage.audit.mark();
    play.install(world, 1).await;
    let mut version = 1;
    for cut in 0..CUTS {
        sleep(Duration::from_millis(random.u64(1..400))).await;
        line.cut();
        sleep(Duration::from_millis(random.u64(0..200))).await;
        line.mend().await;
        if cut % 4 == 3 {
            version = 3 - version;
            play.upgrade(world, version).await;
        }
    }
    let mended = Instant::now();
    play.settled(world, version).await;
    eprintln!(
        "settled {:.1} s after the last cut",
        mended.elapsed().as_secs_f64()
    );
    play.remove(world).await;
    for _ in 0..4 {
        sleep(Duration::from_millis(random.u64(1..200))).await;
        line.cut();
        line.mend().await;
    }
    play.gone(world).await;
    stage.audit.since(&mark).at_most(4000, "cuts");
    assert_eq!(stage.provisioner().await.pid().await, pid);
    assert!(!stage.provisioner().await.has_ended());
}
