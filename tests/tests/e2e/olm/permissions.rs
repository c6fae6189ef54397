//! Users with permissions in one namespace only.

use serde_json::json;

use super::{
    command::{install, names, rukpak, succeeds},
    environment::{World, world},
    index::Version,
};

/// Grants a user the permissions of a namespace admin, with those on OLM's objects that OLM's chart adds.
async fn grant_admin(world: &World, namespace: &str, user: &str) {
    let group = ["operators.coreos.com"];
    world
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "olm-for-admins", "labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
            "rules": [
                {"apiGroups": group, "verbs": ["get", "list", "watch"], "resources": [
                    "clusterserviceversions", "catalogsources", "installplans", "subscriptions", "operatorgroups",
                ]},
                {"apiGroups": group, "verbs": ["create", "update", "patch", "delete"], "resources": ["subscriptions"]},
                {"apiGroups": group, "verbs": ["delete"], "resources": [
                    "clusterserviceversions", "catalogsources", "installplans",
                ]},
            ],
        }))
        .await;
    let binding = format!("create rolebinding admin --clusterrole=admin --user={user}");
    world.kubectl(&format!("-n {namespace} {binding}"));
}

/// CRDs and OperatorGroups belong to cluster admins: a user who may not delete them gets a warning, and they are kept.
// parity: sdk-31
#[tokio::test]
async fn namespace_admin_removes_an_operator() {
    let world = world().await;
    let space = "run-permissions";
    world.bare_namespace(space).await;
    // Aggregated ClusterRoles take effect with a delay, which is shorter than the installation.
    grant_admin(world, space, "ann").await;
    let version = Version::publish("nautilus", "0.0.1");
    install(world, space, &version, &[]);
    let run = rukpak(world, space, &["cleanup", "nautilus", "--as", "ann"]);
    let run = succeeds(run, "Operator \"nautilus\" uninstalled\n");
    for kind in ["customresourcedefinition", "operatorgroup"] {
        let warning = format!("warning: {kind} ");
        let is_reported = |line: &str| {
            line.starts_with(&warning) && line.contains(" kept: ") && line.contains("forbidden")
        };
        assert!(run.err.lines().any(is_reported), "{warning}: {run:#?}");
    }
    let kinds = "subscriptions.operators.coreos.com,csv,catalogsource";
    assert_eq!(names(world, space, kinds), [""; 0]);
    assert_eq!(names(world, space, "operatorgroup").len(), 1);
    world.kubectl(&["get", "crd", "widgets.nautilus.example.com"]);
}
