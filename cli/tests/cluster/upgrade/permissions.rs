//! `upgrade-check` with missing read permissions.

use cluster::Cluster;
use serde_json::json;

use super::support::{catalog, package};
use crate::environment::{self, Rukpak as _, apply, binding, eventually, text};

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
pub(super) async fn missing_permissions_are_reported(cluster: &Cluster) {
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
            is_reported
                .then_some(())
                .ok_or_else(|| format!("{run:?}"))?;
            Ok(run)
        })
        .await;
        match code {
            1 => {
                assert_eq!(run.out, "", "{forbidden}");
                assert!(run.err.contains("ask a cluster admin"), "{run:?}");
            }
            _ => assert!(run.out.contains("operators/tide.v1.0.0"), "{run:?}"),
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
