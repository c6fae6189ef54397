//! A cluster with OLM, from images with only its programs.

use std::{fs, path::PathBuf};

use cluster::Cluster;
use serde_json::{Value, json};
use tests::Args;
use tokio::sync::OnceCell;

use super::super::environment::{World, define, kubectl};

/// The directory with OLM's images and CRDs; tests/e2e.sh sets it.
const BUILT: &str = "RUKPAK_E2E_OLM";
const NAMESPACE: &str = "olm";
const ACCOUNT: &str = "olm-operator-serviceaccount";
const IMAGE: &str = "quay.io/operator-framework/olm:e2e";
pub(crate) const OPM: &str = "quay.io/operator-framework/opm:e2e";
const CONTROLLERS: [&str; 2] = ["olm-operator", "catalog-operator"];

pub(crate) fn built() -> PathBuf {
    let built = std::env::var_os(BUILT).map(PathBuf::from);
    built.unwrap_or_else(|| panic!("there is no node with OLM here: run `make e2e`"))
}

/// Returns the cluster of this test binary. The first call installs OLM.
pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD
        .get_or_init(|| async {
            let world = World::new().await;
            for file in fs::read_dir(built().join("crds")).unwrap() {
                define(world.cluster, &file.unwrap().path()).await;
            }
            install_olm(&world).await;
            world
        })
        .await
}

async fn install_olm(world: &World) {
    let options = "--set-workload-user-id=true --install-plan-retry-timeout=30s";
    let catalog = format!("/bin/catalog --util-image {IMAGE} --opmImage {OPM} {options}");
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "olm"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
        // An operator for all namespaces would have a copy of its CSV in each.
        json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"},
            "spec": {"features": {"disableCopiedCSVs": true}},
        }),
        controller("olm-operator", "/bin/olm"),
        controller("catalog-operator", &catalog),
    ] {
        world.apply(object).await;
    }
    for name in CONTROLLERS {
        world.runs(NAMESPACE, name).await;
    }
}

pub(crate) fn logs(cluster: &Cluster) -> [String; 2] {
    let logs = CONTROLLERS.map(|name| format!("-n {NAMESPACE} logs --tail=2000 deployment/{name}"));
    logs.map(|command| kubectl(cluster, &command))
}

fn controller(name: &str, command: &str) -> Value {
    let command = [&command.words()[..], &["--namespace", NAMESPACE]].concat();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1});
    let container = json!({
        "name": name, "image": IMAGE, "command": command, "readinessProbe": probe,
        "env": [{"name": "OPERATOR_NAMESPACE", "value": NAMESPACE}, {"name": "OPERATOR_NAME", "value": name}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    });
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": ACCOUNT,
                "containers": [container],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        }},
    })
}
