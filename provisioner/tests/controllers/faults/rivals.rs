//! Others who write what we write, and an apiserver that has had enough of us.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{ConfigMap, ServiceAccount},
    flowcontrol::v1::FlowSchema,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use manifests::api::instance::BundleInstance;
use serde_json::json;
use tokio::time::{Instant, interval, sleep};

use super::stage::{Stage, empty, stage};
use crate::support::{
    Options, Play, Provisioner, World, condition, delete, eventually, merge, wait_for,
};

/// How long others write.
const WHILE: Duration = Duration::from_secs(6);

/// The provisioner does not write an instance because another client does.
async fn written_instance_is_not_written_back(stage: &Stage) {
    let world = &stage.world;
    let play = Play::new(world, "restless").await;
    play.install(world, 1).await;
    play.settled(world, 1).await;
    let instances: Api<BundleInstance> = world.api();
    let annotate = async |n: usize| {
        let patch = json!({"metadata": {"annotations": {"example.com/n": n.to_string()}}});
        merge(&instances, &play.name, &patch).await;
    };
    let mark = stage.audit.mark();
    let end = Instant::now() + WHILE;
    let mut pace = interval(Duration::from_millis(20));
    let mut count = 0;
    while Instant::now() < end {
        pace.tick().await;
        annotate(count).await;
        count += 1;
    }
    let requests = stage.audit.since(&mark);
    requests.at_most(20, &format!("an instance that was written {count} times"));
    assert_eq!(requests.writes(), 0, "{requests}");

    // An upgrade and a removal come through between their writes.
    let rival = async {
        let mut pace = interval(Duration::from_millis(20));
        for n in 0.. {
            pace.tick().await;
            let patch =
                json!({"metadata": {"annotations": {"example.com/n": format!("more {n}")}}});
            let written = instances
                .patch(&play.name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            if written.is_err() {
                break;
            }
        }
    };
    let change = async {
        play.upgrade(world, 2).await;
        play.settled(world, 2).await;
        play.remove(world).await;
        play.gone(world).await;
    };
    futures::join!(rival, change);
    stage
        .audit
        .since(&mark)
        .at_most(2000, "with an upgrade and a removal");
}

/// An object that another client writes all the time is repaired with growing delays.
async fn contested_object_is_repaired_with_delays(stage: &Stage) {
    let world = &stage.world;
    let play = Play::new(world, "contested").await;
    play.install(world, 1).await;
    play.settled(world, 1).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), &play.space);
    let params = PatchParams {
        field_manager: Some("rival".to_owned()),
        ..PatchParams::default()
    };
    let mark = stage.audit.mark();
    let end = Instant::now() + WHILE;
    let mut pace = interval(Duration::from_millis(20));
    while Instant::now() < end {
        pace.tick().await;
        let patch = Patch::Merge(json!({"data": {"text": "rival"}}));
        maps.patch("map-05", &params, &patch).await.unwrap();
    }
    stage
        .audit
        .since(&mark)
        .at_most(60, "an object that is written all the time");
    wait_for(world.api(), &play.name, "told", |it: &BundleInstance| {
        let said = &condition(&it.status.as_ref()?.conditions, "Progressing")?.message;
        (said.contains("by rival again and again")).then_some(())
    })
    .await;
    let settled = Instant::now();
    eventually("its own value is back", async || {
        let map = maps.get("map-05").await.unwrap();
        let value = map.data.unwrap()["text"].clone();
        (value == "1").then_some(()).ok_or(value)
    })
    .await;
    eprintln!(
        "put back {:.1} s after the rival stopped",
        settled.elapsed().as_secs_f64()
    );
    play.remove(world).await;
    play.gone(world).await;
}

// parity: rukpak-27
#[tokio::test]
async fn other_writers_cause_few_requests() {
    let stage = stage(Options::default()).await;
    written_instance_is_not_written_back(&stage).await;
    contested_object_is_repaired_with_delays(&stage).await;
}

#[tokio::test]
async fn an_apiserver_that_has_had_enough_is_not_pressed() {
    let (cluster, audit, _turn) = empty().await;
    let world = World::bare(cluster);
    let account = crate::support::unique("throttled");
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": "default"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": "default"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [subject]}),
        json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
            "metadata": {"name": account},
            "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0,
                "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}}),
    ] {
        world.apply(&object).await;
    }
    let provisioner = provisioner_of(&world, &account).await;
    let play = Play::new(&world, "throttled").await;
    play.install(&world, 1).await;
    play.settled(&world, 1).await;

    world
        .apply(&json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
            "metadata": {"name": account},
            "spec": {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": account},
                "rules": [{"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": account, "namespace": "default"}}],
                    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
                        "namespaces": ["*"]}]}]}}))
        .await;
    // Of several requests at once one comes through.
    let client = client_of(&world, &account).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    eventually("the account is throttled", async || {
        let answers = join_all((0..20).map(|_| maps.get_opt("nothing"))).await;
        let is_refusal =
            |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 429);
        let refused = answers
            .iter()
            .filter(|it| it.as_ref().is_err_and(is_refusal))
            .count();
        (refused > 0)
            .then_some(())
            .ok_or_else(|| format!("{answers:?}"))
    })
    .await;
    let mark = audit.mark();
    play.upgrade(&world, 2).await;
    sleep(WHILE).await;
    audit.since(&mark).at_most(400, "throttled");

    let schemas: Api<FlowSchema> = world.api();
    delete(&schemas, &account).await;
    let allowed = Instant::now();
    play.settled(&world, 2).await;
    eprintln!(
        "upgraded {:.1} s after the throttling ended",
        allowed.elapsed().as_secs_f64()
    );
    assert!(!provisioner.has_ended());
    play.remove(&world).await;
    play.gone(&world).await;
}

/// A token of an account.
async fn token(world: &World, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client(), "default");
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .unwrap();
    answer.status.unwrap().token.unwrap()
}

/// Nobody is exempt but administrators: a provisioner with an account like any other.
async fn provisioner_of(world: &World, account: &str) -> Provisioner {
    let text = std::fs::read_to_string(world.cluster.kubeconfig_path()).unwrap();
    let mut kubeconfig: serde_json::Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token(world, account).await});
    let options = Options {
        kubeconfig: Some(kubeconfig.to_string()),
        ..Options::default()
    };
    Provisioner::start(world.cluster, options).await
}

/// A client of that account which does not try again by itself.
async fn client_of(world: &World, account: &str) -> kube::Client {
    let mut config = world.cluster.config().clone();
    config.auth_info = kube::config::AuthInfo {
        token: Some(token(world, account).await.into()),
        ..kube::config::AuthInfo::default()
    };
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}
