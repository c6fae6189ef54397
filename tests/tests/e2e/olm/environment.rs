//! A cluster with OLM, from images with only its programs.

use std::{fs, path::PathBuf, process::Command};

use cluster::{Cluster, KUBECONFIG, sandbox};
use serde_json::{Value, json};
use tests::Args;
use tokio::sync::OnceCell;

pub(crate) use super::super::environment::World;
use super::super::environment::{define, kubectl};

/// The directory with OLM's images and CRDs; tests/e2e.sh sets it.
const BUILT: &str = "RUKPAK_E2E_OLM";
const NAMESPACE: &str = "olm";
const ACCOUNT: &str = "olm-operator-serviceaccount";
const IMAGE: &str = "quay.io/operator-framework/olm:e2e";
pub(crate) const OPM: &str = "quay.io/operator-framework/opm:e2e";
/// The timeout of OLM, which resolves, unpacks in a Job, and installs, one after the other.
const TIMEOUT: &str = "--timeout=6m";

/// The limit of the log lines in [`World::state`].
const MAX_LINES: usize = 60;

/// The directory with OLM's images and CRDs.
pub(crate) fn built() -> PathBuf {
    let built = std::env::var_os(BUILT).map(PathBuf::from);
    let has_node = sandbox::current().is_some() && std::env::var_os(KUBECONFIG).is_some();
    let built = built.filter(|_| has_node);
    built.unwrap_or_else(|| panic!("there is no node with OLM here: run `make e2e`"))
}

/// Returns the cluster of this test binary. The first call installs OLM.
pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD
        .get_or_init(|| async {
            let (cluster, day_0) = (Cluster::shared().await.unwrap(), None);
            for file in fs::read_dir(built().join("crds")).unwrap() {
                define(cluster, &file.unwrap().path()).await;
            }
            let world = World { cluster, day_0 };
            world.install_olm().await;
            world
        })
        .await
}

impl World {
    pub(crate) fn kubectl(&self, args: &(impl Args + ?Sized)) -> String {
        kubectl(self.cluster, args)
    }

    async fn install_olm(&self) {
        self.bare_namespace(NAMESPACE).await;
        let options = "--set-workload-user-id=true --install-plan-retry-timeout=30s";
        let catalog = format!("/bin/catalog --util-image {IMAGE} --opmImage {OPM} {options}");
        for object in [
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
            }),
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
            self.apply(object).await;
        }
        for name in ["olm-operator", "catalog-operator"] {
            self.runs(NAMESPACE, name).await;
        }
    }

    /// Creates a namespace whose operators watch all namespaces.
    pub(crate) async fn namespace(&self, name: &str) {
        self.bare_namespace(name).await;
        self.apply(json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "all", "namespace": name}, "spec": {},
        }))
        .await;
    }

    pub(crate) async fn bare_namespace(&self, name: &str) {
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await;
    }

    /// Creates a namespace without an OperatorGroup in which only hardened pods run.
    pub(crate) async fn restricted_namespace(&self, name: &str) {
        self.bare_namespace(name).await;
        let label = "pod-security.kubernetes.io/enforce=restricted";
        self.kubectl(&["label", "namespace", name, label]);
    }

    /// Waits until an object exists and one of its fields has a value.
    pub(crate) fn wait(&self, namespace: &str, object: &str, path: &str, value: &str) {
        self.wait_for(namespace, object, "create");
        self.wait_for(namespace, object, &format!("jsonpath={{{path}}}={value}"));
    }

    /// Waits for a condition of `kubectl wait --for`.
    fn wait_for(&self, namespace: &str, object: &str, condition: &str) {
        let mut command = Command::new("kubectl");
        command
            .args(["-n", namespace, "wait", object, TIMEOUT])
            .arg(format!("--for={condition}"))
            .env("KUBECONFIG", self.cluster.kubeconfig_path());
        let output = command.output().unwrap();
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            panic!("{object}: {condition}: {error}{}", self.state(namespace));
        }
    }

    /// Waits until OLM has deleted a version that another one replaced.
    pub(crate) fn replaced(&self, namespace: &str, csv: &str) {
        let csv = format!("clusterserviceversions/{csv}");
        self.wait_for(namespace, &csv, "delete");
    }

    pub(crate) fn succeeded(&self, namespace: &str, csv: &str) {
        let csv = format!("clusterserviceversions/{csv}");
        self.wait(namespace, &csv, ".status.phase", "Succeeded");
    }

    /// The objects and events of a namespace, and OLM's last log lines about it, for the investigation of a failure.
    pub(crate) fn state(&self, namespace: &str) -> String {
        let kinds = "subscriptions.operators.coreos.com,installplans,clusterserviceversions,catalogsources,jobs,pods";
        let mut parts = vec![
            self.kubectl(&["-n", namespace, "get", kinds, "-o", "yaml"]),
            self.kubectl(&["-n", namespace, "get", "events"]),
        ];
        for name in ["olm-operator", "catalog-operator"] {
            let log = format!("-n {NAMESPACE} logs --tail=2000 deployment/{name}");
            let log = self.kubectl(&log);
            let lines = log.lines().filter(|line| line.contains(namespace));
            let lines: Vec<&str> = lines.collect();
            parts.push(lines[lines.len().saturating_sub(MAX_LINES)..].join("\n"));
        }
        parts.join("\n---\n")
    }
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
