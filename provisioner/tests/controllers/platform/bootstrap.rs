//! Objects that exist before the provisioner, with an API server that starts slowly.

use std::net::TcpListener;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::support::{Platform, packages};
use crate::support::{
    Fault, Line, Options, Provisioner, Relay, account, account_object, bind_role, namespace_object,
    until,
};

/// Waits until the provisioner has connected this many more times.
async fn has_been_tried(line: &Line, times: u64) {
    let before = line.connections();
    let is_tried = |connections: &u64| *connections >= before + times;
    until("it tries again", async || line.connections(), is_tried).await;
}

// parity: platform-1
#[tokio::test]
async fn slow_apiserver_only_delays_the_day_0_installation() {
    let platform = Platform::new().await;
    let names = ["tide", "surf", "moon"];
    let mut all = Vec::new();
    for name in names {
        all.push((name, platform.bundles(name, &["1.0.0"]).await));
    }
    let server = platform.serve_mine(&packages(&all)).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    create_accounts(&platform).await;

    // Connections end while no server listens behind the line.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let line = Line::new(&address.to_string()).await;
    let options = Options {
        kubeconfig: Some(Relay::kubeconfig_of(&line.host())),
        ..Options::default()
    };
    let (_folder, options) = platform.prepared(options);
    let provisioner = Provisioner::launch(platform.world.cluster, options);
    let pid = provisioner.pid().await;
    provisioner.says("listening").await;
    has_been_tried(&line, 3).await;
    // Then the API server answers that it is unavailable.
    let relay = Relay::at(platform.world.cluster, address).await;
    relay.fails(Fault::Busy(&["/"]));
    has_been_tried(&line, 5).await;
    let operators = platform.operators();
    let tide = operators.get("tide").await.unwrap();
    assert!(tide.status.is_none(), "{:?}", tide.status);
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    relay.mend();
    platform.has("tide", "1.0.0").await;
    platform.succeeds("tide", "Successfully applied").await;
    Box::pin(objects_are_in_the_install_namespace(&platform)).await;
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    assert_eq!(provisioner.pid().await, pid);
    server.stop().await;
}

/// Creates two accounts, one of them with cluster-admin, and operators that are installed with these accounts.
async fn create_accounts(platform: &Platform) {
    platform.world.apply(&namespace_object("crew")).await;
    grant_cluster_admin(platform, "captain").await;
    for (package, name) in [("surf", "captain"), ("moon", "cook")] {
        platform.world.apply(&account_object("crew", name)).await;
        let account = json!({"name": name, "namespace": "crew"});
        let bundle = json!({"installNamespace": "harbour", "serviceAccount": account});
        let spec = json!({"package": {"name": package}, "bundle": bundle});
        platform.want(spec).await;
    }
}

async fn grant_cluster_admin(platform: &Platform, name: &str) {
    let (subject, role) = (account("crew", name), ("ClusterRole", "cluster-admin"));
    bind_role(platform.world.cluster, &subject, None, role, name).await;
}

async fn objects_are_in_the_install_namespace(platform: &Platform) {
    platform.has("surf", "1.0.0").await;
    let deployments: Api<Deployment> = Api::namespaced(platform.world.client(), "harbour");
    let surf = deployments.get("surf-operator").await.unwrap();
    // The API server records the field manager, and the provisioner records the instance.
    assert!(!surf.managed_fields().is_empty());
    let instance = platform.instances().get("surf").await.unwrap();
    let status = instance.status.unwrap();
    assert_eq!(status.install_namespace.as_deref(), Some("harbour"));
    let account = instance.spec.service_account.unwrap();
    assert_eq!((&*account.name, &*account.namespace), ("captain", "crew"));

    let lacks = "ServiceAccount crew/cook lacks permissions required by this bundle";
    let refused = platform.becomes("moon", "False", "InstallFailed", lacks);
    refused.await;
    let moon = deployments.get_opt("moon-operator").await.unwrap();
    assert_eq!(moon, None);
    // The installation continues once the account has the permissions.
    grant_cluster_admin(platform, "cook").await;
    platform.has("moon", "1.0.0").await;
    platform.succeeds("moon", "Successfully applied").await;
}
