//! A cluster in which OLM runs, from images that have nothing but its programs.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use cluster::{Cluster, DryRun, KUBECONFIG, machine};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use manifests::yaml;
use serde_json::{Value, json};
use tests::Args;
use tokio::sync::OnceCell;

use super::super::{
    wait::{self, available},
    world::kubectl,
};

/// The folder with OLM's images and definitions; tests/e2e.sh sets it.
const BUILT: &str = "RUKPAK_E2E_OLM";
/// Where OLM is.
const NAMESPACE: &str = "olm";
/// What it runs as.
const ACCOUNT: &str = "olm-operator-serviceaccount";
const IMAGE: &str = "quay.io/operator-framework/olm:e2e";
pub(crate) const OPM: &str = "quay.io/operator-framework/opm:e2e";
/// How long what OLM does may take: it resolves, unpacks in a Job, and installs, one after the other.
const PATIENCE: Duration = Duration::from_secs(360);

/// How much of what OLM says is told: lines, and characters of each.
const TOLD: usize = 60;
const WIDTH: usize = 500;

/// The cluster, with OLM's controllers Available.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) cluster: &'static Cluster,
}

/// The folder with OLM.
pub(crate) fn built() -> PathBuf {
    let built = std::env::var_os(BUILT).map(PathBuf::from);
    let is_here = machine::current().is_some() && std::env::var_os(KUBECONFIG).is_some();
    let built = built.filter(|_| is_here);
    built.unwrap_or_else(|| panic!("there is no node with OLM here: run `make e2e`"))
}

/// The one of this test binary. Whoever asks first installs OLM.
pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD
        .get_or_init(|| async {
            let world = World {
                cluster: Cluster::shared().await.unwrap(),
            };
            for file in fs::read_dir(built().join("crds")).unwrap() {
                let bytes = fs::read(file.unwrap().path()).unwrap();
                let definition: Value = yaml::documents(&bytes).next().unwrap().unwrap();
                let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
                world.apply(definition).await;
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

    /// A namespace whose operators watch all others.
    pub(crate) async fn namespace(&self, name: &str) {
        self.bare_namespace(name).await;
        self.apply(json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "all", "namespace": name}, "spec": {},
        }))
        .await;
    }

    /// A namespace without an OperatorGroup.
    pub(crate) async fn bare_namespace(&self, name: &str) {
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await;
    }

    /// The same, where only hardened pods run.
    pub(crate) async fn restricted_namespace(&self, name: &str) {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let metadata = json!({"name": name, "labels": labels});
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .await;
    }

    /// Waits until there is an object and a field of it has a value.
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
            .arg(format!("--timeout={}s", PATIENCE.as_secs()))
            .env("KUBECONFIG", self.cluster.kubeconfig_path());
        let output = command.output().unwrap();
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            panic!("{object}: {condition}: {error}{}", self.story(namespace));
        }
    }

    /// Waits until OLM has deleted an operator that another one replaces.
    pub(crate) fn replaced(&self, namespace: &str, csv: &str) {
        let csv = format!("clusterserviceversions/{csv}");
        self.wait_for(namespace, &csv, "delete");
    }

    /// Waits until an operator is installed.
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

    /// What OLM says of the Subscriptions of a namespace, and what its catalog-operator has written about it at last. What
    /// [`Self::story`] tells at length.
    pub(crate) fn why(&self, namespace: &str) -> String {
        let conditions = "jsonpath={range .items[*]}{.metadata.name}: {.status.state}, at {.status.installedCSV}, to \
                          {.status.currentCSV}{range .status.conditions[*]}\n  {.type}={.status} {.reason}: {.message}{end}\n{end}";
        let subscriptions = "subscriptions.operators.coreos.com";
        let conditions = ["-n", namespace, "get", subscriptions, "-o", conditions];
        let conditions = self.tried(&conditions);
        let log = format!("-n {NAMESPACE} logs --tail=2000 deployment/catalog-operator");
        let log = self.tried(&log);
        let log: Vec<&str> = log.lines().filter(|it| it.contains(namespace)).collect();
        let told = conditions.lines().take(TOLD / 2);
        let left = TOLD - told.clone().count();
        let told = told.chain(log.iter().skip(log.len().saturating_sub(left)).copied());
        told.map(|line| line.chars().take(WIDTH).collect::<String>() + "\n")
            .collect()
    }

    /// What kubectl says, and be it an error.
    fn tried(&self, args: &(impl Args + ?Sized)) -> String {
        let mut command = Command::new("kubectl");
        command
            .args(args.words())
            .env("KUBECONFIG", self.cluster.kubeconfig_path());
        let output = command.output().unwrap();
        let [told, error] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
        format!("{told}{error}")
    }

    /// What there is, for whoever has to find out why something is not as it should be.
    pub(crate) fn story(&self, namespace: &str) -> String {
        let kinds = "subscriptions.operators.coreos.com,installplans,clusterserviceversions,catalogsources,jobs,pods";
        let mut commands = vec![
            vec!["-n", namespace, "get", kinds, "-o", "yaml"],
            vec!["-n", namespace, "get", "events"],
        ];
        for name in ["deployment/olm-operator", "deployment/catalog-operator"] {
            commands.push(vec!["-n", NAMESPACE, "logs", "--tail=30", name]);
        }
        let told = commands.iter().map(|args| self.kubectl(args));
        told.collect::<Vec<_>>().join("\n---\n")
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
