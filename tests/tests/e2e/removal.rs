//! The end of all: what the documents say of removing the product, word for word. tests/e2e.sh runs it after everything else,
//! in a process of its own.

use cluster::Cluster;
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::ListParams};
use manifests::api::{GROUP, config::ClusterOperator, labels, platform::PlatformOperator};
use serde_json::json;

use super::{
    catalogs, day_0,
    day_0::{MARKETPLACE, WANTED},
    documents,
    wait::{self, PATIENCE},
    world::{SYSTEM, World, kubectl, world},
};

/// What a catalog has that is served in a namespace.
const SERVED: &str = "services,endpointslices,pods,serviceaccounts,networkpolicies";

/// Has two catalogs served outside of the provisioner's own namespace: one by it, one by a pod.
async fn serve_elsewhere(world: &World) {
    let image = catalogs::publish("wreck:v1", "wreck", &["1.0.0"]);
    let own = json!({"image": image, "grpcPodConfig": {"memoryTarget": "40Mi"}, "priority": -10});
    let shared = json!({"image": image, "priority": -10});
    for (name, spec) in [("wreck", shared), ("wreck.own", own)] {
        world.apply(day_0::source(name, &spec)).await;
    }
    let address = "wreck.openshift-marketplace.svc:50051";
    world.served_at(MARKETPLACE, "wreck", address).await;
    world.serving_pod(MARKETPLACE, "wreck.own", None).await;
}

// parity: complaint-7
#[tokio::test]
async fn what_the_documents_say_of_removal_leaves_nothing() {
    let cluster = Cluster::shared().await.unwrap();
    let client = cluster.client().unwrap();
    // Where the other tests ran before, everything is there; alone it is installed for this.
    let world = world().await;
    if world.day_0.is_some() {
        for package in WANTED {
            world.healthy(package, "1.0.0").await;
        }
    }
    serve_elsewhere(world).await;
    let operators: Api<PlatformOperator> = Api::all(client.clone());
    let there = operators.list(&ListParams::default()).await.unwrap();
    assert!(there.items.len() >= WANTED.len(), "{there:?}");

    let commands = documents::commands("operations.md", "## Upgrade and uninstall", 0);
    assert_eq!(commands.matches("kubectl delete").count(), 5, "{commands}");
    documents::run(cluster, &commands);

    // It waits for what it deletes, and nobody is left who would have to do anything.
    wait::gone(Api::<Namespace>::all(client.clone()), SYSTEM).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let left = definitions.list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = left
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .filter(|name| {
            let of_operator = |package: &&str| name.contains(&format!(".{package}.example.com"));
            name.ends_with(&format!(".{GROUP}")) || WANTED.iter().any(of_operator)
        })
        .collect();
    assert!(names.is_empty(), "{names:?}");
    let kinds = "deployments,serviceaccounts,clusterroles,clusterrolebindings";
    let selector = format!("{} in ({})", labels::OWNER_NAME, WANTED.join(","));
    let all = ["--all-namespaces", "--output=name", "--selector", &selector];
    let marked = kubectl(cluster, &[&["get", kinds], &all[..]].concat());
    assert_eq!(marked, "");
    // CatalogSources stay, and nothing that they were served by.
    let sources = world.sources(MARKETPLACE);
    assert!(sources.get_opt("wreck").await.unwrap().is_some());
    wait::eventually("nothing that served", PATIENCE, async || {
        let left = kubectl(
            cluster,
            &format!("-n {MARKETPLACE} get {SERVED} --output=name"),
        );
        (left.trim() == "serviceaccount/default")
            .then_some(())
            .ok_or(left)
    })
    .await;
    let gate: Api<ClusterOperator> = Api::all(client);
    for name in ["platform-operators-aggregated", "platform-operators-core"] {
        wait::gone(gate.clone(), name).await;
    }
}
