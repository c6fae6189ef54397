//! Aggregator tests, each on a separate control plane with OpenShift's CRDs for ClusterVersion and ClusterOperator.
//!
//! Every decision is a pure function with tables next to it: `platform/aggregate`, `platform/gate`. The rules of the
//! cluster-version operator are in `platform/aggregate/tests/contract`.

mod cluster_install;
mod kubernetes;
mod operator_conditions;
mod outage;
mod permissions;
mod release_payload;
mod upgradeable;

use std::{path::Path, process::Command};

use cluster::Cluster;
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use manifests::{
    api::config::{
        ClusterOperator, ClusterOperatorStatus, ClusterVersion, OperatorStatusCondition,
    },
    yaml,
};
use provisioner::controllers::cluster_operator::model::{AGGREGATED, CORE};
use serde_json::{Value, json};

use crate::catalogs::merge;
use crate::openshift::{CLUSTER_OPERATOR, CLUSTER_VERSION, crd};
use crate::platform::support::Platform;
use crate::support::wait_for;

/// Makes the cluster an OpenShift cluster that is being installed.
async fn become_openshift(platform: &Platform) {
    for name in [CLUSTER_VERSION, CLUSTER_OPERATOR] {
        platform.define(&crd(name)).await;
    }
    platform.apply(&version()).await;
}

/// Returns the ClusterVersion of a new cluster.
pub(crate) fn version() -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-0000-0000-000000000000"},
    })
}

/// Writes the cluster's version history, newest first, as `Completed 4.12.7`.
pub(crate) async fn history(cluster: &Cluster, entries: &[&str]) {
    let entry = |text: &&str| {
        let (state, version) = text.split_once(' ').unwrap();
        json!({"state": state, "version": version, "image": "", "verified": true,
               "startedTime": "2026-01-01T00:00:00Z", "completionTime": null})
    };
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    let desired = &entries[0]["version"];
    let body = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "status": {
            "desired": {"version": desired, "image": ""}, "history": entries, "observedGeneration": 1,
            "versionHash": "", "availableUpdates": null,
        },
    });
    let api = Api::<ClusterVersion>::all(cluster.client().unwrap());
    let (params, body) = (
        PatchParams::apply("cluster-version-operator").force(),
        Patch::Apply(body),
    );
    let written = api.patch_status("version", &params, &body).await;
    written.unwrap();
}

fn find<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> Option<&'a OperatorStatusCondition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
}

/// Waits until the aggregated ClusterOperator has a condition, given as `Type=Status Reason`, and returns the
/// ClusterOperator.
async fn becomes(platform: &Platform, expected: &str, text: &str) -> ClusterOperator {
    let (condition, reason) = expected.split_once(' ').unwrap();
    let condition = condition.split_once('=').unwrap();
    operator_becomes(platform, AGGREGATED, condition, reason, text).await
}

async fn operator_becomes(
    platform: &Platform,
    name: &str,
    (type_, status): (&str, &str),
    reason: &str,
    text: &str,
) -> ClusterOperator {
    let description = format!("{type_}={status} {reason} {text}");
    let is_expected = |operator: &ClusterOperator| {
        let condition = find(operator.status.as_ref()?, type_)?;
        let message = condition.message.as_deref().unwrap_or_default();
        let is_expected = condition.status == status
            && condition.reason.as_deref() == Some(reason)
            && message.contains(text);
        is_expected.then_some(())
    };
    wait_for(platform.world.api(), name, &description, is_expected).await
}

/// Waits until the core ClusterOperator has a condition with the reason `AsExpected`, and returns the ClusterOperator.
async fn core_becomes(platform: &Platform, condition: (&str, &str), text: &str) -> ClusterOperator {
    operator_becomes(platform, CORE, condition, "AsExpected", text).await
}

/// Applies OLM's CRD of a kind, from the Go module that contains it, and returns its name.
pub(crate) async fn define(cluster: &Cluster, plural: &str) -> String {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cluster/gotypes");
    let script = "go mod download github.com/operator-framework/api >&2 &&
                  go list -m -f '{{.Dir}}' github.com/operator-framework/api";
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let module = String::from_utf8(output.stdout).unwrap();
    let file = format!("crds/operators.coreos.com_{plural}.yaml");
    let bytes = std::fs::read(Path::new(module.trim_end()).join(file)).unwrap();
    let definition = yaml::documents(&bytes).next().unwrap().unwrap();
    crate::support::define(cluster, &definition).await;
    definition["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Changes an object of any kind as the cluster admin.
async fn change<K>(platform: &Platform, name: &str, patch: Value)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api = platform.world.api::<K>();
    merge(&api, name, &patch).await;
}
