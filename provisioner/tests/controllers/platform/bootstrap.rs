//! Objects that exist before the provisioner, with an API server that starts slowly.

use std::net::TcpListener;

use super::support::{Platform, package};
use super::*;
use crate::support::{Fault, Line, Relay};

/// Waits until the provisioner has connected this many more times.
async fn is_retried(line: &Line, times: u64) {
    let before = line.connections();
    let is_retried = |connections: &u64| *connections >= before + times;
    until("retried", async || line.connections(), is_retried).await;
}

// parity: platform-1
#[tokio::test]
async fn slow_apiserver_only_delays_the_day_0_installation() {
    let platform = Platform::new().await;
    let bundles = platform.bundles("tide", &["1.0.0"]).await;
    let _server = platform.serve_mine(&package("tide", &bundles)).await;
    platform.declare(json!({"package": {"name": "tide"}})).await;

    // Connections end while no server listens behind the line.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let line = Line::new(&address.to_string()).await;
    let kubeconfig = Some(Relay::kubeconfig_of(&line.host()));
    let (_dir, options) = platform.prepared(tests::with!(Options, kubeconfig));
    let provisioner = Provisioner::launch(platform.world.cluster, options);
    let pid = provisioner.pid().await;
    provisioner.wait_log("listening").await;
    is_retried(&line, 3).await;
    // Then the API server answers that it is unavailable.
    let relay = Relay::at(platform.world.cluster, address).await;
    relay.fails(Fault::Busy(&["/"]));
    is_retried(&line, 5).await;
    let tide = platform.operators().get("tide").await.unwrap();
    assert!(tide.status.is_none(), "{:?}", tide.status);
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    relay.restore();
    platform.has("tide", "1.0.0").await;
    platform.succeeds("tide", "Successfully applied").await;
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    assert_eq!(provisioner.pid().await, pid);
}
