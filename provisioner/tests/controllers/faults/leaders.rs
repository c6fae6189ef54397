//! Two replicas under faults: only one acts at a time.

use std::time::Duration;

use cluster::Cluster;
use tokio::time::{Instant, sleep};

use super::support::{Requests, empty, took};
use crate::support::{Options, Play, Provisioner, World};

const LEASE: Duration = Duration::from_secs(6);

async fn replica(cluster: &Cluster, name: &str) -> Provisioner {
    let duration = format!("--lease-duration={}s", LEASE.as_secs());
    let mut options = Options::with_flags(&["--leader-elect", &duration]);
    options.environment = vec![("POD_NAME", name.to_owned())];
    Provisioner::start(cluster, options).await
}

/// Returns the writes of a replica: without those of the Lease, which all replicas request, and those that each needs
/// to serve content.
fn changes<'a>(requests: &'a Requests, name: &str) -> Vec<&'a str> {
    let agent = format!("({name})");
    let excluded = ["/leases", "/events", "reviews"];
    let is_counted = |uri: &&str| !excluded.iter().any(|part| uri.contains(part));
    let writes = requests.all.iter().filter(|request| request.is_write());
    let writes = writes.filter(|write| write.agent.ends_with(&agent));
    writes.map(|write| &*write.uri).filter(is_counted).collect()
}

#[tokio::test]
async fn replica_takes_over_from_a_killed_or_stopped_leader() {
    let (cluster, audit, _turn) = empty().await;
    let world = World::bare(cluster);
    let play = Play::new(&world, "led").await;
    let first = replica(cluster, "first").await;
    first.wait_log("leading").await;
    let second = replica(cluster, "second").await;
    second.wait_log("waiting for the leader Lease").await;
    let mark = audit.mark();
    play.install(&world, 1).await;
    play.settled(&world, 1).await;
    let requests = audit.since(&mark);
    assert!(!changes(&requests, "first").is_empty());
    assert_eq!(changes(&requests, "second"), [""; 0]);

    // Killed during an upgrade.
    play.upgrade(&world, 2).await;
    sleep(Duration::from_millis(fastrand::u64(50..600))).await;
    first.signal("KILL").await;
    let killed = Instant::now();
    second.wait_log("leading").await;
    took("from a kill to the next leader", killed);
    let took = killed.elapsed();
    assert!(took < 2 * LEASE, "{took:?} of a Lease of {LEASE:?}");
    play.settled(&world, 2).await;

    // Stopped during another one.
    let third = replica(cluster, "third").await;
    third.wait_log("waiting for the leader Lease").await;
    play.upgrade(&world, 1).await;
    sleep(Duration::from_millis(fastrand::u64(50..600))).await;
    second.signal("STOP").await;
    third.wait_log("leading").await;
    play.settled(&world, 1).await;
    play.upgrade(&world, 2).await;
    let mark = audit.mark();
    second.signal("CONT").await;
    assert_eq!(second.ended().await, 1, "{}", second.log());
    play.settled(&world, 2).await;
    let requests = audit.since(&mark);
    let former = changes(&requests, "second");
    assert_eq!(former, [""; 0], "the former leader has acted");
    assert!(!changes(&requests, "third").is_empty());
    play.uninstall(&world).await;
}
