//! Leader election: one of several replicas reconciles.

use std::time::Duration;

use cluster::Cluster;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use reqwest::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::{get, plane, system};
use crate::support::{Options, Provisioner, delete, found, merge};

const LEASE: &str = "core.rukpak.io";

async fn replica(cluster: &Cluster, system: &str, duration: &str) -> Provisioner {
    let duration = format!("--lease-duration={duration}");
    let flags = [system, "--controllers=none", "--leader-elect", &duration];
    Provisioner::start(cluster, Options::with_flags(&flags)).await
}

async fn is_leader(provisioner: &Provisioner) -> bool {
    let (_, text) = get(&format!("{}/metrics", provisioner.url("metrics"))).await;
    text.lines().any(|line| line == "rukpak_leader 1")
}

async fn holder(leases: &Api<Lease>) -> Option<String> {
    leases.get(LEASE).await.unwrap().spec?.holder_identity
}

// parity: rukpak-24
#[tokio::test]
async fn one_replica_leads_while_it_holds_the_lease() {
    let cluster = plane().await;
    let (flag, namespace) = system(cluster).await;
    let first = replica(cluster, &flag, "60s").await;
    first.wait_log("leading").await;
    let second = replica(cluster, &flag, "60s").await;
    second.wait_log("waiting for the leader Lease").await;
    assert!(is_leader(&first).await);
    assert!(!is_leader(&second).await);
    let ready = get(&format!("{}/readyz", second.url("probes"))).await;
    assert_eq!(ready.0, StatusCode::OK, "{}", ready.1);

    // A leader that stops releases the Lease: the next leader does not wait for its expiry.
    let began = Instant::now();
    first.stop().await;
    second.wait_log("leading").await;
    assert!(began.elapsed() < Duration::from_secs(50));
    let leases: Api<Lease> = Api::namespaced(cluster.client().unwrap(), &namespace);
    let lease = leases.get(LEASE).await.unwrap().spec.unwrap();
    assert_eq!(lease.lease_transitions, Some(2));
    assert_eq!(lease.lease_duration_seconds, Some(60));

    // A suspended leader ends.
    let (flag, _) = system(cluster).await;
    let first = replica(cluster, &flag, "10s").await;
    first.wait_log("leading").await;
    let second = replica(cluster, &flag, "10s").await;
    first.signal("STOP").await;
    second.wait_log("leading").await;
    first.signal("CONT").await;
    assert_eq!(first.ended().await, 1, "{}", first.log());
    assert!(first.log().contains("lost Lease"), "{}", first.log());
    assert!(is_leader(&second).await);

    // The leader recreates a deleted Lease, and ends once another client takes the Lease.
    let (flag, namespace) = system(cluster).await;
    let leader = replica(cluster, &flag, "6s").await;
    leader.wait_log("leading").await;
    let leases: Api<Lease> = Api::namespaced(cluster.client().unwrap(), &namespace);
    let before = holder(&leases).await;
    delete(&leases, LEASE).await;
    found("the Lease", async || leases.get_opt(LEASE).await.unwrap()).await;
    assert_eq!(holder(&leases).await, before);
    assert!(!leader.has_ended(), "{}", leader.log());

    let taken = json!({"spec": {"holderIdentity": "another"}});
    merge(&leases, LEASE, &taken).await;
    assert_eq!(leader.ended().await, 1, "{}", leader.log());
    assert_eq!(holder(&leases).await.as_deref(), Some("another"));
}
