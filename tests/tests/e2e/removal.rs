//! The end of all: what the documents say of removing the product, word for word. tests/e2e.sh runs it after everything else,
//! in a process of its own.

use cluster::Cluster;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::ListParams};
use manifests::api::{GROUP, config::ClusterOperator, labels, platform::PlatformOperator};

use super::{
    day_0::WANTED,
    documents, wait,
    world::{CORE, SYSTEM, kubectl, world},
};

#[tokio::test]
async fn what_the_documents_say_of_removal_leaves_nothing() {
    let cluster = Cluster::shared().await.unwrap();
    let client = cluster.client().unwrap();
    // Where the other tests ran before, everything is there; alone it is installed for this.
    let system: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    if system.get_opt(CORE).await.unwrap().is_none() {
        let world = world().await;
        for package in WANTED {
            world.healthy(package, "1.0.0").await;
        }
    }
    let operators: Api<PlatformOperator> = Api::all(client.clone());
    let there = operators.list(&ListParams::default()).await.unwrap();
    assert!(there.items.len() >= WANTED.len(), "{there:?}");

    let commands = documents::commands("operations.md", "## Upgrading and removing it", 0);
    assert_eq!(commands.matches("kubectl delete").count(), 3, "{commands}");
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
    let marked = kubectl(
        cluster,
        &[
            "get",
            "deployments,serviceaccounts,clusterroles,clusterrolebindings",
            "--all-namespaces",
            "--output=name",
            "--selector",
            &format!("{} in ({})", labels::OWNER_NAME, WANTED.join(",")),
        ],
    );
    assert_eq!(marked, "");
    let gate: Api<ClusterOperator> = Api::all(client);
    for name in ["platform-operators-aggregated", "platform-operators-core"] {
        wait::gone(gate.clone(), name).await;
    }
}
