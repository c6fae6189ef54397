//! Other clients that write the same objects, and an API server that rejects requests by rate limiting.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::{core::v1::ConfigMap, flowcontrol::v1::FlowSchema};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use manifests::api::bundle_instance::{BundleInstance, ServiceAccountRef};
use serde_json::json;
use tokio::time::{Instant, interval, sleep};

use super::support::{empty, stage, took};
use crate::support::{
    Options, Play, Provisioner, World, bind, delete, eventually, kubeconfig_of, patch_as,
    service_account, token, until,
};

const WHILE: Duration = Duration::from_secs(6);

const INTERVAL: Duration = Duration::from_millis(20);

// parity: rukpak-27, rukpak-48
#[tokio::test]
async fn other_writers_cause_few_requests() {
    let stage = stage(Options::default()).await;
    let world = &stage.world;
    // Writes of another client to an instance cause no writes of the provisioner.
    let play = Play::installed(world, "restless").await;
    let instances: Api<BundleInstance> = world.api();
    let annotate = async |text: String| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/n": text}}}));
        let params = PatchParams::default();
        instances.patch(&play.name, &params, &patch).await
    };
    let mark = stage.audit.mark();
    let end = Instant::now() + WHILE;
    let mut ticks = interval(INTERVAL);
    let mut count = 0;
    while Instant::now() < end {
        ticks.tick().await;
        annotate(count.to_string()).await.unwrap();
        count += 1;
    }
    let requests = stage.audit.since(&mark);
    requests.at_most(20, &format!("an instance that was written {count} times"));
    assert_eq!(requests.writes(), 0, "{requests}");

    // An upgrade and a removal come through between their writes.
    let rival = async {
        let mut ticks = interval(INTERVAL);
        for n in 0.. {
            ticks.tick().await;
            if annotate(format!("more {n}")).await.is_err() {
                break;
            }
        }
    };
    let change = async {
        play.upgrade(world, 2).await;
        play.settled(world, 2).await;
        play.uninstall(world).await;
    };
    futures::join!(rival, change);
    let requests = stage.audit.since(&mark);
    requests.at_most(2000, "with an upgrade and a removal");

    // An object that another client writes all the time is repaired with growing delays, and the client is reported. Other
    // objects are repaired at once.
    let play = Play::installed(world, "contested").await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), &play.space);
    let theirs = json!({"data": {"text": "rival"}});
    let mark = stage.audit.mark();
    let end = Instant::now() + WHILE;
    let mut ticks = interval(INTERVAL);
    while Instant::now() < end {
        ticks.tick().await;
        patch_as(&maps, "map-05", "rival", &theirs).await;
    }
    let requests = stage.audit.since(&mark);
    requests.at_most(60, "an object that is written all the time");
    let (kind, rival) = ("Progressing FieldConflict", "rival repeatedly changes");
    let parts = ["ConfigMap", "map-05", ".data.text", rival];
    world.wait_message(&play.name, kind, &parts).await;
    let settled = Instant::now();
    patch_as(&maps, "map-06", "rival", &theirs).await;
    for name in ["map-06", "map-05"] {
        let text = async || maps.get(name).await.unwrap().data.unwrap()["text"].clone();
        until(name, text, |text| text == "1").await;
    }
    took("from the rival's end to the repair", settled);
    play.uninstall(world).await;
}

#[tokio::test]
async fn rate_limiting_api_server_gets_few_requests() {
    let (cluster, audit, _turn) = empty().await;
    let world = World::bare(cluster);
    let name = crate::support::unique("throttled");
    let account = service_account(cluster, "default", &name).await;
    bind(cluster, None, &name, "cluster-admin", &account).await;
    let level = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0,
            "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}});
    world.apply(&level).await;
    // Only admins are exempt: a provisioner with an ordinary service account.
    let kubeconfig = Some(kubeconfig_of(cluster, &account).await);
    let provisioner = Provisioner::start(cluster, tests::with!(Options, kubeconfig)).await;
    let play = Play::installed(&world, "throttled").await;

    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
    let subject = json!({"kind": "ServiceAccount", "serviceAccount": account});
    let schema = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": name},
            "rules": [{"subjects": [subject], "resourceRules": [all]}]}});
    world.apply(&schema).await;
    // Of several concurrent requests one succeeds.
    let maps: Api<ConfigMap> = Api::namespaced(client_of(&world, &account).await, "default");
    eventually("the account is throttled", async || {
        let answers = join_all((0..20).map(|_| maps.get_opt("nothing"))).await;
        let is_throttled = |answer: &kube::Result<_>| matches!(answer, Err(kube::Error::Api(status)) if status.code == 429);
        let is_any = answers.iter().any(is_throttled);
        is_any.then_some(()).ok_or_else(|| format!("{answers:?}"))
    })
    .await;
    let mark = audit.mark();
    play.upgrade(&world, 2).await;
    sleep(WHILE).await;
    audit.since(&mark).at_most(400, "throttled");

    let schemas: Api<FlowSchema> = world.api();
    delete(&schemas, &name).await;
    let allowed = Instant::now();
    play.settled(&world, 2).await;
    took("from the end of the throttling to the upgrade", allowed);
    assert!(!provisioner.has_ended());
    play.uninstall(&world).await;
}

/// Returns a client of that service account which does not retry.
async fn client_of(world: &World, account: &ServiceAccountRef) -> kube::Client {
    let mut config = world.cluster.config().clone();
    let token = Some(token(world.cluster, account).await.into());
    config.auth_info = tests::with!(kube::config::AuthInfo, token);
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}
