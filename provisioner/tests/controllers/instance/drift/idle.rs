//! Requests of an idle provisioner, from the audit log of a dedicated API server.

use std::collections::BTreeSet;

use super::*;
use crate::faults::support::{Audit, Mark, Request, empty};

const IDLE_TIME: Duration = Duration::from_secs(4);

/// Waits until no request is sent during [`IDLE_TIME`]. Requests in progress may complete first.
async fn at_rest(audit: &Audit) {
    for attempts in 1.. {
        let mark = audit.mark();
        // The test measures a period without requests, so it sleeps.
        tokio::time::sleep(IDLE_TIME).await;
        let requests = audit.since(&mark);
        let mut others = requests.all.iter();
        if others.all(|request| request.verb == "watch") {
            return;
        }
        assert!(attempts < 3, "not idle: {requests}");
    }
}

/// Returns the names of the objects to which the provisioner has written since a mark.
fn written(audit: &Audit, mark: &Mark) -> BTreeSet<String> {
    let mut requests = audit.since(mark).all;
    requests.retain(|request| !["get", "list", "watch"].contains(&&*request.verb));
    let name = |request: &Request| {
        let path = request.uri.split('?').next()?;
        path.rsplit('/').next().map(str::to_owned)
    };
    requests.iter().filter_map(name).collect()
}

// parity: rukpak-27, complaint-12
#[tokio::test]
async fn idle_provisioner_is_silent_and_restart_applies_nothing() {
    let (cluster, audit, _lease) = empty().await;
    let world = World::bare(cluster);
    let store = support::storage();
    let options = tests::with!(Options, storage: Some(store.path().to_owned()));
    let provisioner = Provisioner::start(cluster, options.clone()).await;

    // Null values, fields that the API server defaults, and a kind whose health depends on its status.
    let odd = map("default", "odd", &[("v", "1")]);
    let objects = [
        tests::with!(odd => |map| map["binaryData"] = Value::Null),
        map("default", "plain", &[("v", "1")]),
        map("default", "away", &[("v", "1")]),
        deployment("default", "web", 0, "v1", "works"),
        support::crd("rest.example.com", "Widget"),
        widget("rest.example.com", "default", "small", 1),
    ];
    let unchanged = |mark: &Mark| {
        let written = written(&audit, mark);
        for name in ["odd", "web", "small"] {
            assert!(!written.contains(name), "{name} of {written:?}");
        }
        written
    };
    install(&world, "rest", &objects).await;
    at_rest(&audit).await;

    // Fields that other clients add are left alone. The last change drifts an applied field: its repair shows that the
    // controller has observed the others.
    let mark = audit.mark();
    let maps = maps(&world, "default");
    let others = json!({"metadata": {"labels": {"theirs": "1"}}, "data": {"theirs": "1"}});
    patch_as_other(&maps, "odd", others).await;
    patch_as_other(&maps, "plain", json!({"data": {"v": "2"}})).await;
    has_value(&world, "default", "plain", "v", "1").await;
    at_rest(&audit).await;
    assert!(unchanged(&mark).contains("plain"));
    let odd = maps.get("odd").await.unwrap();
    assert_eq!(odd.labels()["theirs"], "1");
    assert_eq!(odd.data.unwrap()["theirs"], "1");

    // A restarted provisioner only reads.
    provisioner.stop().await;
    let status_before = read(&world, "rest").await.status;
    let mark = audit.mark();
    let provisioner = Provisioner::start(cluster, options.clone()).await;
    at_rest(&audit).await;
    assert!(!unchanged(&mark).contains("plain"), "{}", provisioner.log());
    assert_eq!(read(&world, "rest").await.status, status_before);

    // It also repairs drift that occurred during its downtime.
    provisioner.kill().await;
    patch_as_other(&maps, "plain", json!({"data": {"v": "2"}})).await;
    support::delete(&maps, "away").await;
    let mark = audit.mark();
    let _provisioner = Provisioner::start(cluster, options).await;
    for name in ["plain", "away"] {
        has_value(&world, "default", name, "v", "1").await;
    }
    at_rest(&audit).await;
    unchanged(&mark);
}
