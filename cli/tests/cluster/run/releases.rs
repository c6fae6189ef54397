//! Which OpenShift counts for a bundle, and for which bundles it has to be known.

use std::process::{Child, Command, Stdio};

use cluster::Cluster;
use serde_json::json;

use super::scene::Operator;
use crate::{
    upgrade,
    world::{Run, binary, unique, until_it_says},
};

fn spawn(cluster: &Cluster, image: &str) -> Child {
    let mut command = Command::new(binary());
    command.args(["run", "bundle", image, "--use-http"]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig_path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn refused(cluster: &Cluster, image: &str) -> Run {
    let run: Run = spawn(cluster, image).wait_with_output().unwrap().into();
    run.exits(1)
}

/// Nobody works here, so that it would wait.
fn taken(cluster: &Cluster, operator: &Operator, image: &str) {
    let made = format!("/{} created\n", operator.name);
    until_it_says(spawn(cluster, image), &made);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_counts_where_a_bundle_says_one() {
    let cluster = upgrade::bare().await;
    crate::world::install(&cluster, &manifests::api::install::Options::default()).await;
    let [high, low, silent] = ["high", "low", "silent"].map(|it| Operator::new(&unique(it)));

    upgrade::become_openshift(&cluster, "4.21.3").await;
    let entry = |state: &str, version: &str| {
        json!({
            "state": state, "version": version, "image": "", "verified": true,
            "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z",
        })
    };
    let history = [entry("Partial", "4.22.0"), entry("Completed", "4.21.3")];
    let status = json!({
        "desired": {"version": "4.22.0", "image": ""}, "history": history, "observedGeneration": 1, "versionHash": "",
        "availableUpdates": null,
    });
    let version = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-0000-0000-000000000000"},
    });
    upgrade::put(&cluster, version, Some(status)).await;
    let told = "requires OpenShift <= 4.21 but the cluster is 4.22 (it is being updated from 4.21 to 4.22)";
    refused(&cluster, &low.publish_claiming("0.0.1", "4.21")).says(told);
    taken(&cluster, &high, &high.publish_claiming("0.0.1", "4.22"));

    upgrade::become_openshift(&cluster, "0.0.1-snapshot").await;
    refused(&cluster, &low.publish_claiming("0.0.2", "4.22"))
        .says("says on which OpenShift it runs at most, and which one this is may not be seen; nothing was changed")
        .says("the cluster's version \"0.0.1-snapshot\" is a placeholder");
    taken(&cluster, &silent, &silent.publish("0.0.1"));
}
