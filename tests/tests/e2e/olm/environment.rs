//! A cluster with OLM, from images with only its programs.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use cluster::{Cluster, DryRun, KUBECONFIG, sandbox};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use manifests::yaml;
use serde_json::{Value, json};
use tests::Args;
use tokio::sync::OnceCell;

use super::super::{
    environment::kubectl,
    wait::{self, available},
};

/// The directory with OLM's images and CRDs; tests/e2e.sh sets it.
const BUILT: &str = "RUKPAK_E2E_OLM";
/// The namespace of OLM.
const NAMESPACE: &str = "olm";
/// The service account of OLM.
const ACCOUNT: &str = "olm-operator-serviceaccount";
const IMAGE: &str = "quay.io/operator-framework/olm:e2e";
pub(crate) const OPM: &str = "quay.io/operator-framework/opm:e2e";
/// The timeout of OLM, which resolves, unpacks in a Job, and installs, one after the other.
const TIMEOUT: Duration = Duration::from_secs(360);

/// The limits of [`World::diagnosis`]: lines, and characters of each line.
const MAX_LINES: usize = 60;
const MAX_LINE_LENGTH: usize = 500;

/// The cluster, with OLM's controllers Available.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) cluster: &'static Cluster,
}

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
            let world = World {
                cluster: Cluster::shared().await.unwrap(),
            };
            for file in fs::read_dir(built().join("crds")).unwrap() {
                let bytes = fs::read(file.unwrap().path()).unwrap();
                let crd: Value = yaml::documents(&bytes).next().unwrap().unwrap();
                let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
                world.apply(crd).await;
                world.cluster.wait_established(&name).await.unwrap();
            }
            world.install().await;
            world
        })
        .await
}

impl World {
    pub(crate) async fn apply(&self, object: Value) {
        self.cluster.apply(&object, DryRun::No).await.unwrap();
    }

    pub(crate) fn kubectl(&self, args: &(impl Args + ?Sized)) -> String {
        kubectl(self.cluster, args)
    }

    async fn install(&self) {
        self.apply(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await;
        self.apply(json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        }))
        .await;
        self.apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "olm"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }))
        .await;
        // An operator for all namespaces would have a copy of its CSV in each.
        self.apply(json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"},
            "spec": {"features": {"disableCopiedCSVs": true}},
        }))
        .await;
        self.apply(controller("olm-operator", &["/bin/olm"])).await;
        let images = [
            "/bin/catalog",
            "--util-image",
            IMAGE,
            "--opmImage",
            OPM,
            "--set-workload-user-id=true",
            "--install-plan-retry-timeout=30s",
        ];
        self.apply(controller("catalog-operator", &images)).await;
        for name in ["olm-operator", "catalog-operator"] {
            let api: Api<Deployment> = Api::namespaced(self.cluster.client().unwrap(), NAMESPACE);
            wait::until(api, name, "Available", available).await;
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

    /// Creates a namespace without an OperatorGroup.
    pub(crate) async fn bare_namespace(&self, name: &str) {
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await;
    }

    /// Creates a namespace without an OperatorGroup in which only hardened pods run.
    pub(crate) async fn restricted_namespace(&self, name: &str) {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let metadata = json!({"name": name, "labels": labels});
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .await;
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
            .args(["-n", namespace, "wait", object])
            .arg(format!("--for={condition}"))
            .arg(format!("--timeout={}s", TIMEOUT.as_secs()))
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

    /// Waits until a version is installed.
    pub(crate) fn succeeded(&self, namespace: &str, csv: &str) {
        let csv = format!("clusterserviceversions/{csv}");
        self.wait(namespace, &csv, ".status.phase", "Succeeded");
    }

    /// Waits until a Deployment is Available.
    pub(crate) fn available(&self, namespace: &str, deployment: &str) {
        let path = r#".status.conditions[?(@.type=="Available")].status"#;
        let deployment = format!("deployments/{deployment}");
        self.wait(namespace, &deployment, path, "True");
    }

    /// A short form of [`Self::state`]: the conditions of a namespace's Subscriptions, and the last lines about the namespace in
    /// the log of catalog-operator.
    pub(crate) fn diagnosis(&self, namespace: &str) -> String {
        let conditions = "jsonpath={range .items[*]}{.metadata.name}: {.status.state}, at {.status.installedCSV}, to \
                          {.status.currentCSV}{range .status.conditions[*]}\n  {.type}={.status} {.reason}: {.message}{end}\n{end}";
        let subscriptions = "subscriptions.operators.coreos.com";
        let conditions = ["-n", namespace, "get", subscriptions, "-o", conditions];
        let conditions = self.kubectl_output(&conditions);
        let log = format!("-n {NAMESPACE} logs --tail=2000 deployment/catalog-operator");
        let log = self.kubectl_output(&log);
        let log: Vec<&str> = log
            .lines()
            .filter(|line| line.contains(namespace))
            .collect();
        let lines = conditions.lines().take(MAX_LINES / 2);
        let left = MAX_LINES - lines.clone().count();
        let lines = lines.chain(log.iter().skip(log.len().saturating_sub(left)).copied());
        lines
            .map(|line| line.chars().take(MAX_LINE_LENGTH).collect::<String>() + "\n")
            .collect()
    }

    /// Returns the output of kubectl, also if it fails.
    fn kubectl_output(&self, args: &(impl Args + ?Sized)) -> String {
        let mut command = Command::new("kubectl");
        command
            .args(args.words())
            .env("KUBECONFIG", self.cluster.kubeconfig_path());
        let output = command.output().unwrap();
        let [out, error] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        format!("{out}{error}")
    }

    /// The objects, events and logs of OLM, for the investigation of a failure.
    pub(crate) fn state(&self, namespace: &str) -> String {
        let kinds = "subscriptions.operators.coreos.com,installplans,clusterserviceversions,catalogsources,jobs,pods";
        let mut commands = vec![
            vec!["-n", namespace, "get", kinds, "-o", "yaml"],
            vec!["-n", namespace, "get", "events"],
        ];
        for name in ["deployment/olm-operator", "deployment/catalog-operator"] {
            commands.push(vec!["-n", NAMESPACE, "logs", "--tail=30", name]);
        }
        let outputs = commands.iter().map(|args| self.kubectl(args));
        outputs.collect::<Vec<_>>().join("\n---\n")
    }
}

/// One of OLM's controllers.
fn controller(name: &str, command: &[&str]) -> Value {
    let command: Vec<&str> = command
        .iter()
        .copied()
        .chain(["--namespace", NAMESPACE])
        .collect();
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
