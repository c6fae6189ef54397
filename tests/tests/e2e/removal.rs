//! Removal of the product with the commands of the documentation, word for word. tests/e2e.sh runs this after all other tests,
//! in a separate process.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use manifests::api::{GROUP, config::ClusterOperator, labels};
use serde_json::json;

use super::{
    catalogs,
    day_0::{self, MARKETPLACE, PACKAGES},
    documents,
    environment::{SYSTEM, World, kubectl, world},
    wait,
};

/// The kinds of a served catalog's objects in its namespace.
const SERVED: &str = "services,endpointslices,pods,serviceaccounts,networkpolicies";

/// Creates two catalogs outside of the system namespace: the provisioner serves one, a pod the other.
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
async fn documented_removal_leaves_nothing() {
    // After other tests the product is installed; on its own this test installs it.
    let world = world().await;
    let (cluster, client) = (world.cluster, world.client());
    if world.day_0.is_some() {
        for package in PACKAGES {
            world.healthy(package, "1.0.0").await;
        }
    }
    serve_elsewhere(world).await;
    let existing = kubectl(cluster, "get platformoperators --output=name");
    assert!(existing.lines().count() >= PACKAGES.len(), "{existing}");

    let commands = documents::commands("provisioner-upgrade.md", "## Uninstall", 0);
    assert_eq!(commands.matches("kubectl delete").count(), 5, "{commands}");
    documents::run(cluster, &commands);

    // The commands wait for the deletions, and no controller is left that would have to do anything.
    wait::deleted(Api::<Namespace>::all(client.clone()), SYSTEM).await;
    let crds = kubectl(cluster, "get customresourcedefinitions --output=name");
    let left = crds.lines().filter(|name| {
        let of_operator = |package: &&str| name.contains(&format!(".{package}.example.com"));
        name.ends_with(&format!(".{GROUP}")) || PACKAGES.iter().any(of_operator)
    });
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
    let kinds = "deployments,serviceaccounts,clusterroles,clusterrolebindings";
    let selector = format!("{} in ({})", labels::OWNER_NAME, PACKAGES.join(","));
    let all = ["--all-namespaces", "--output=name", "--selector", &selector];
    let marked = kubectl(cluster, &[&["get", kinds], &all[..]].concat());
    assert_eq!(marked, "");
    // CatalogSources are kept; the objects that served them are deleted.
    let sources = world.sources(MARKETPLACE);
    assert!(sources.get_opt("wreck").await.unwrap().is_some());
    let served = format!("-n {MARKETPLACE} get {SERVED} --output=name");
    let left = async || Ok::<_, String>(kubectl(cluster, &served));
    wait::equal("serviceaccount/default\n", left).await;
    let gate: Api<ClusterOperator> = Api::all(client);
    for name in ["platform-operators-aggregated", "platform-operators-core"] {
        wait::deleted(gate.clone(), name).await;
    }
}
