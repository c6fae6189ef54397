//! What is there before the provisioner, when the apiserver takes its time.

use std::net::TcpListener;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _};
use manifests::api::instance::BundleInstance;
use serde_json::{Value, json};

use super::stage::{Platform, packages};
use crate::{
    catalogs::served::Server,
    support::{Fault, Line, Options, Provisioner, Relay, namespace_object, until, wait_for},
};

/// Waits until the provisioner has connected this many more times.
async fn has_been_tried(line: &Line, times: u64) {
    let before = line.connections();
    let is_tried = |connections: &u64| *connections >= before + times;
    until("it tries again", async || line.connections(), is_tried).await;
}

// parity: platform-1
#[tokio::test]
async fn an_apiserver_that_starts_slowly_delays_a_day_0_and_nothing_more() {
    let platform = Platform::new().await;
    let names = ["tide", "surf", "moon"];
    let mut all = Vec::new();
    for name in names {
        all.push((name, platform.bundles(name, &["1.0.0"]).await));
    }
    let server = Server::of(None, &packages(&all)).await;
    platform.serve("mine", &server).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    people(&platform).await;

    // Each connection ends as long as nobody listens behind the line.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = free.local_addr().unwrap();
    drop(free);
    let line = Line::new(&there.to_string()).await;
    let options = Options {
        kubeconfig: Some(Relay::kubeconfig_of(&line.host())),
        ..Options::default()
    };
    let (_folder, options) = platform.prepared(options);
    let provisioner = Provisioner::launch(platform.world.cluster, options);
    let pid = provisioner.pid().await;
    provisioner.says("listening").await;
    has_been_tried(&line, 3).await;
    // Then the apiserver says that it cannot answer yet.
    let relay = Relay::at(platform.world.cluster, there).await;
    relay.fails(Fault::Busy(&["/"]));
    has_been_tried(&line, 5).await;
    let operators = platform.operators();
    let tide = operators.get("tide").await.unwrap();
    assert!(tide.status.is_none(), "{:?}", tide.status);
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    relay.mend();
    platform.has("tide", "1.0.0").await;
    platform.succeeds("tide", "Successfully applied").await;
    objects_land_where_the_operator_says(&platform).await;
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    assert_eq!(provisioner.pid().await, pid);
    server.stop().await;
}

/// Two accounts, one of which may do everything, and operators that are to be installed as they.
async fn people(platform: &Platform) {
    platform.world.apply(&namespace_object("crew")).await;
    let account = |name: &str| json!({"name": name, "namespace": "crew"});
    for name in ["captain", "cook"] {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account(name)});
        platform.world.apply(&account).await;
    }
    let api = "rbac.authorization.k8s.io";
    let mut captain = account("captain");
    captain["kind"] = "ServiceAccount".into();
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "captain"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [captain],
    });
    platform.world.apply(&binding).await;
    for (package, name) in [("surf", "captain"), ("moon", "cook")] {
        let bundle = json!({"installNamespace": "harbour", "serviceAccount": account(name)});
        platform
            .want(json!({"package": {"name": package}, "bundle": bundle}))
            .await;
    }
}

async fn objects_land_where_the_operator_says(platform: &Platform) {
    platform.has("surf", "1.0.0").await;
    let deployments: Api<Deployment> = Api::namespaced(platform.world.client(), "harbour");
    let surf = deployments.get("surf-operator").await.unwrap();
    // Who has put it there is written down by the apiserver; what is written down of the instance, by us.
    assert!(!surf.managed_fields().is_empty());
    let instance = platform.instances().get("surf").await.unwrap();
    let status = instance.status.unwrap();
    assert_eq!(status.install_namespace.as_deref(), Some("harbour"));
    let account = instance.spec.service_account.unwrap();
    assert_eq!(
        (account.name.as_str(), account.namespace.as_str()),
        ("captain", "crew")
    );

    let lacks = "ServiceAccount crew/cook lacks rights that this bundle takes";
    platform
        .becomes("moon", "False", "InstallFailed", lacks)
        .await;
    assert!(
        deployments
            .get_opt("moon-operator")
            .await
            .unwrap()
            .is_none()
    );
    // Once he has them, it goes on.
    let api = "rbac.authorization.k8s.io";
    let binding: Value = json!({
        "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "cook"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "cook", "namespace": "crew"}],
    });
    platform.world.apply(&binding).await;
    wait_for(
        platform.instances(),
        "moon",
        "installed",
        |it: &BundleInstance| {
            let status = it.status.as_ref()?;
            (status.facts.version.as_deref() == Some("1.0.0")).then_some(())
        },
    )
    .await;
    platform.succeeds("moon", "Successfully applied").await;
}
