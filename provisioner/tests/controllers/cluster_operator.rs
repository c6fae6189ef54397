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

use cluster::Cluster;
use kube::{Api, api::DynamicObject};
use manifests::api::config::{
    ClusterOperator, ClusterOperatorStatus, ClusterVersion, OperatorStatusCondition,
};
use provisioner::controllers::cluster_operator::model::{AGGREGATED, CORE};
use serde_json::{Value, json};

use crate::openshift::{CLUSTER_OPERATOR, CLUSTER_VERSION, OLM, crd, definition_of};
use crate::platform::support::Platform;
use crate::support::{custom_resources, merge, merge_status, wait_for, wait_part};

async fn become_openshift(platform: &Platform, entries: &[&str]) {
    for name in [CLUSTER_VERSION, CLUSTER_OPERATOR] {
        platform.define(&crd(name)).await;
    }
    platform.world.apply(&version()).await;
    history(platform.world.cluster, entries).await;
}

pub(crate) fn olm_object(kind: &str, (namespace, name): (&str, &str), spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

/// Returns a ClusterServiceVersion of version 1.0.0, with the annotation that OLM writes for a bundle with these
/// properties besides its package.
pub(crate) fn csv((namespace, name): (&str, &str), package: &str, properties: &[Value]) -> Value {
    let spec =
        json!({"displayName": name, "version": "1.0.0", "install": {"strategy": "deployment"}});
    let own = json!({"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}});
    let properties = [&[own], properties].concat();
    let properties = json!({"properties": properties}).to_string();
    let mut csv = olm_object("ClusterServiceVersion", (namespace, name), &spec);
    csv["metadata"]["annotations"] = json!({"operatorframework.io/properties": properties});
    csv
}

pub(crate) fn olm_api(platform: &Platform, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let kind = ["operators.coreos.com", "v1alpha1", kind];
    custom_resources(&platform.world, namespace, kind)
}

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
        let time = "2026-01-01T00:00:00Z";
        json!({"state": state, "version": version, "image": "", "verified": true, "startedTime": time, "completionTime": time})
    };
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    let desired = &entries[0]["version"];
    let status = json!({
        "desired": {"version": desired, "image": ""}, "history": entries, "observedGeneration": 1, "versionHash": "",
        "availableUpdates": [],
    });
    let versions = Api::<ClusterVersion>::all(cluster.client().unwrap());
    merge_status(&versions, "version", &json!({"status": status})).await;
}

fn find<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> Option<&'a OperatorStatusCondition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}

/// Waits until the aggregated ClusterOperator has a condition, given as `Type=Status Reason`, and returns the
/// ClusterOperator.
async fn becomes(platform: &Platform, expected: &str, text: &str) -> ClusterOperator {
    reports(platform, AGGREGATED, expected, text).await
}

/// Like [`becomes`], for any ClusterOperator.
async fn reports(platform: &Platform, name: &str, expected: &str, text: &str) -> ClusterOperator {
    let (condition, reason) = expected.split_once(' ').unwrap();
    let (type_, status) = condition.split_once('=').unwrap();
    let mut condition = json!({"type": type_, "status": status, "reason": reason});
    if !text.is_empty() {
        condition["message"] = format!("*{text}*").into();
    }
    let part = json!({"status": {"conditions": [condition]}});
    wait_part(platform.world.api(), name, part).await
}

async fn gate_opens(platform: &Platform) {
    becomes(platform, "Upgradeable=True AsExpected", "Ready for upgrade").await;
}

/// Waits until the core ClusterOperator has a condition with the reason `AsExpected`, and returns the ClusterOperator.
async fn core_becomes(platform: &Platform, condition: &str, text: &str) -> ClusterOperator {
    reports(platform, CORE, &format!("{condition} AsExpected"), text).await
}

/// Applies OLM's CRD of a kind, from the Go module that contains it, and returns its name.
pub(crate) async fn define(cluster: &Cluster, plural: &str) -> String {
    let file = format!("crds/operators.coreos.com_{plural}.yaml");
    let crd = definition_of(OLM, &file);
    crate::support::define(cluster, &crd).await;
    crd["metadata"]["name"].as_str().unwrap().to_owned()
}
