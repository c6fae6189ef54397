//! Naming an account takes the right to impersonate it, and the Bundles of an instance are the provisioner's.

mod tables;

use kube::Config;
use serde_json::json;

use super::*;
use crate::support::{apply, eventually};

/// A client of somebody who may do this in the whole cluster with BundleInstances, and nothing else.
async fn somebody(name: &str) -> Client {
    let cluster = installed().await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("bundleinstances-admin-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundleinstances-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    apply(cluster, &binding).await;
    let mut config: Config = cluster.config().clone();
    config.auth_info.impersonate = Some(name.to_owned());
    Client::try_from(config).unwrap()
}

fn with_account(name: &str, account: &str) -> Value {
    let mut object = instance(name, &image());
    object["spec"]["serviceAccount"] = json!({"name": account, "namespace": "default"});
    object
}
