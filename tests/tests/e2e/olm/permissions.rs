//! Users with permissions in one namespace only.

use std::{fs, process::Command, time::Duration};

use serde_json::{Value, json};
use tests::Run;

use super::{
    command::{command, install, names, succeeds},
    environment::{World, world},
    index::Version,
};

/// Creates the role of namespace admins for OLM's objects, as OLM's chart does.
async fn grant_admins(world: &World) {
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
}

/// Returns a kubeconfig of a ServiceAccount that is admin of its namespace, and waits until the role is in force.
async fn admin_of(world: &World, namespace: &str) -> tempfile::NamedTempFile {
    grant_admins(world).await;
    let name = json!({"name": "admin", "namespace": namespace});
    world
        .apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name}))
        .await;
    world
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": name,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "admin", "namespace": namespace}],
        }))
        .await;
    let text = world.kubectl(&["config", "view", "--raw", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let token = world.kubectl(&["-n", namespace, "create", "token", "admin"]);
    config["users"][0]["user"] = json!({"token": token.trim()});
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), config.to_string()).unwrap();

    let is_admin = || {
        let mut command = Command::new("kubectl");
        let args = [
            "auth",
            "can-i",
            "delete",
            "catalogsources.operators.coreos.com",
        ];
        command
            .args(args)
            .args(["--quiet", "-n", namespace])
            .env("KUBECONFIG", file.path());
        command.status().unwrap().success()
    };
    // Aggregated ClusterRoles take effect with a delay.
    for _ in 0..600 {
        if is_admin() {
            return file;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody is admin of {namespace}");
}

/// CRDs and OperatorGroups belong to cluster admins: a user who may not delete them gets a warning, and they are kept.
// parity: sdk-31
#[tokio::test]
async fn namespace_admin_removes_an_operator() {
    let world = world().await;
    let space = "run-rights";
    world.bare_namespace(space).await;
    let version = Version::publish("nautilus", "0.0.1");
    install(world, space, &version, &[]);
    let kubeconfig = admin_of(world, space).await;
    let args = ["cleanup", "nautilus"];
    let output = command(kubeconfig.path(), space, &args).output();
    let last = "Operator \"nautilus\" uninstalled\n";
    let run = succeeds(Run::from(output.unwrap()), last);
    for kind in ["customresourcedefinition", "operatorgroup"] {
        let warning = format!("warning: {kind} ");
        let is_reported = |line: &str| {
            line.starts_with(&warning) && line.contains(" kept: ") && line.contains("forbidden")
        };
        assert!(run.err.lines().any(is_reported), "{warning}: {run:#?}");
    }
    for kind in ["subscriptions.operators.coreos.com", "csv", "catalogsource"] {
        assert_eq!(names(world, space, kind), [""; 0], "{kind}");
    }
    assert_eq!(names(world, space, "operatorgroup").len(), 1);
    world.kubectl(&["get", "crd", "widgets.nautilus.example.com"]);
}
