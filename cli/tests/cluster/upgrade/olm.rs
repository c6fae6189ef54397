//! Operators that OLM installed, and missing read permissions.

use cluster::Cluster;
use serde_json::{Value, json};

use super::report;
use super::support::{become_openshift, catalog, channel, count, define_olm, package, put};
use crate::environment::{self, Rukpak as _, apply, bare, binding, eventually, namespace, text};

fn source(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"sourceType": "grpc", "image": format!("quay.io/{name}/catalog:v1")},
    })
}

/// Returns a ClusterServiceVersion as OLM writes it after the installation in the namespace `operators`.
fn csv(namespace: &str, name: &str, maximum: &str, labels: &Value) -> Value {
    let properties = json!({"properties": [
        {"type": "olm.package", "value": {"packageName": "tide", "version": "1.0.0"}},
        {"type": "olm.maxOpenShiftVersion", "value": maximum},
    ]});
    let rule = json!({"apiGroups": ["networking.k8s.io"], "resources": ["servicecidrs"], "verbs": ["list"]});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": {
            "olm.operatorNamespace": "operators", "operatorframework.io/properties": properties.to_string(),
        }},
        "spec": {"displayName": "Tide", "version": "1.0.0", "install": {"strategy": "deployment", "spec": {
            "deployments": [], "clusterPermissions": [{"serviceAccountName": "tide", "rules": [rule]}],
        }}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_of_olm_and_api_requests_are_reported() {
    let cluster = bare().await;
    let kinds = "clusterserviceversions operatorconditions catalogsources subscriptions";
    define_olm(&cluster, kinds).await;
    become_openshift(&cluster, "4.23.5").await;
    let namespaces = ["operators", "openshift-marketplace", "other"];
    apply(&cluster, namespaces.map(namespace)).await;
    let busy = json!([{"type": "Upgradeable", "status": "False", "reason": "Migrating", "message": "3\nof 7\u{1b}[31m",
                       "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let copied = json!({"olm.copiedFrom": "operators"});
    for object in [
        csv("operators", "tide.v1.0.0", "5.0", &json!({})),
        // Copies are ignored.
        csv("other", "tide.v1.0.0", "4.1", &copied),
        csv("other", "tide.v0.9.0", "4.1", &json!({})),
        json!({
            "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
            "metadata": {"name": "tide.v1.0.0", "namespace": "operators"}, "spec": {"conditions": busy},
        }),
        source("openshift-marketplace", "mine"),
        // A CatalogSource of a tenant is not suggested.
        source("operators", "evil"),
    ] {
        put(&cluster, object, None).await;
    }
    for (api, account) in tests::rows![
        "servicecidrs.v1beta1.networking.k8s.io" => "operators:tide";
        "ipaddresses.v1beta1.networking.k8s.io" => "kube-system:other";
    ] {
        count(&cluster, api, account, 12).await;
    }

    let run = cluster.run("upgrade-check").exits(3);
    run.err_has("such as quay.io/mine/catalog:v1 (CatalogSource openshift-marketplace/mine)");
    run.err_lacks("evil");
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        let line = cells.join("|");
        line.replace("operators/tide.v1.0.0 (OLM)|1.0.0|", "tide|")
    };
    let lines: Vec<String> = run.out.lines().map(cells).collect();
    let expected = [
        "OPERATOR|VERSION|EFFECT|UNBLOCKED BY|WHY",
        "tide|blocks|-|supports OpenShift up to 5.0",
        "tide|blocks|-|not upgradeable: Migrating: 3 of 7 [31m",
        "tide|may break|-|ServiceAccount operators/tide called servicecidrs.v1beta1.networking.k8s.io 12 times within a day; \
         Kubernetes 1.37 does not serve this API",
        "tide|may break|-|ClusterServiceVersion operators/tide.v1.0.0 refers to the resource of ServiceCIDR, and Kubernetes 1.37 \
         does not serve networking.k8s.io/v1beta1: make sure that the operator uses networking.k8s.io/v1",
        "OpenShift 4.23 to 5.1 (Kubernetes 1.36 to 1.37): 1 operator, 1 blocks, 1 may break",
    ];
    assert_eq!(lines, expected);
    subscribed_channel_is_considered(&cluster).await;
    missing_permissions_are_reported(&cluster).await;
}

/// OLM records no digest, so a catalog entry may differ from the installed bundle. Later versions in the catalog are used,
/// and its maximum for the installed version is not.
async fn subscribed_channel_is_considered(cluster: &Cluster) {
    let slow = channel("tide", "slow", &[json!({"name": "tide.v1.0.0"})]);
    let versions = [("1.0.0", "5.9"), ("1.1.0", "5.1")];
    let dir = catalog(&[package("tide", &versions), slow.to_string()]);
    for (followed, expected) in [
        (None, json!("tide.v1.1.0")),
        (Some("stable"), json!("tide.v1.1.0")),
        (Some("slow"), Value::Null),
    ] {
        if let Some(channel) = followed {
            let object = json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"name": "tide", "namespace": "operators"},
                "spec": {"name": "tide", "channel": channel, "source": "mine", "sourceNamespace": "openshift-marketplace"},
            });
            put(cluster, object, None).await;
        }
        let operator = &report(cluster, &format!("--catalog {}", text(&dir)))["operators"][0];
        assert_eq!(operator["maximum"], "5.0");
        assert_eq!(operator["findings"][0]["effect"], "Blocks");
        assert_eq!(operator["unblockedBy"]["bundle"], expected, "{followed:?}");
        assert_eq!(operator["calls"][0]["count"], 12);
    }
}

/// Group and resource of all kinds that the command reads.
const READ: [(&str, &str); 7] = [
    ("config.openshift.io", "clusterversions"),
    ("config.openshift.io", "clusteroperators"),
    ("apiserver.openshift.io", "apirequestcounts"),
    ("operators.coreos.com", "clusterserviceversions"),
    ("operators.coreos.com", "operatorconditions"),
    ("operators.coreos.com", "subscriptions"),
    ("operators.coreos.com", "catalogsources"),
];

/// A kind that is required for the result causes an error. An optional kind causes a warning.
async fn missing_permissions_are_reported(cluster: &Cluster) {
    let dir = catalog(&[package("tide", &[("1.0.0", "")])]);
    for (forbidden, code, expected) in tests::rows![
        "", 3 => "";
        "clusterversions", 1 => "failed to read the ClusterVersion";
        "clusteroperators", 1 => "failed to read ClusterOperator platform-operators-aggregated";
        "clusterserviceversions", 1 => "failed to list ClusterServiceVersions";
        "operatorconditions", 1 => "failed to list OperatorConditions";
        "apirequestcounts", 3 => "warning: failed to read the callers of removed APIs: ";
        "subscriptions", 3 => "warning: failed to read the channels of Subscriptions: ";
    ] {
        let user = format!("reader-without-{forbidden}-end");
        grant(cluster, &user, forbidden).await;
        let args = ["upgrade-check", "--as", &user, "--catalog", text(&dir)];
        let run = eventually(&user, async || {
            let run = cluster.run(&args);
            // New permissions take effect with a delay.
            let is_reported = run.code == Some(code) && run.err.contains(expected);
            let text = format!("{run:?}");
            is_reported.then_some(run).ok_or(text)
        })
        .await;
        if code == 1 {
            assert_eq!(run.out, "", "{forbidden}");
            run.err_has("ask a cluster admin");
        } else {
            run.out_has("operators/tide.v1.0.0");
        }
    }
}

/// Grants a user read access to all kinds except one.
async fn grant(cluster: &Cluster, user: &str, forbidden: &str) {
    let rules: Vec<_> = READ
        .iter()
        .filter(|(_, resource)| *resource != forbidden)
        .map(|(group, resource)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list"]}))
        .collect();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules,
    });
    let bound = binding(user, None, ("ClusterRole", user), &environment::user(user));
    apply(cluster, [role, bound]).await;
}
