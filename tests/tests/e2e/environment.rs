//! The cluster of all tests, with the provisioner installed from the install file.

use std::{fs, path::Path, process::Command};

use cluster::{Cluster, DryRun, KUBECONFIG, sandbox, wait::Watched};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
};
use manifests::{
    api::{bundle::Bundle, bundle_instance::BundleInstance},
    yaml,
};
use serde_json::{Value, json};
use tests::Args;
use tokio::sync::{OnceCell, RwLock};

use super::{
    day_0::{self, Day0},
    documents::output,
    wait::{self, available, line, message},
};

pub(crate) const SYSTEM: &str = "rukpak-system";
pub(crate) const CORE: &str = "core";
pub(crate) const CORE_LABELS: &str = "app.kubernetes.io/component=core";
pub(crate) const LEADER_LABELS: &str =
    "app.kubernetes.io/component=core,core.rukpak.io/leader=true";
/// Held for reading by tests that depend on the provisioner's pod or flags, and for writing by tests that change them.
pub(crate) static CORE_POD: RwLock<()> = RwLock::const_new(());

/// A cluster whose provisioner is Available.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) cluster: &'static Cluster,
    /// The catalogs from before the installation; `None` if this process did not install the provisioner.
    pub(crate) day_0: Option<Day0>,
}

/// Returns the cluster of this test binary. The first call installs the provisioner, unless another process has done so.
pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD
        .get_or_init(|| async {
            let mut world = World::new().await;
            let existing = world.api::<Deployment>(SYSTEM).get_opt(CORE).await;
            if existing.unwrap().is_none() {
                world.day_0 = Some(day_0::declare(world.cluster).await);
                apply_install_file(world.cluster);
            }
            world.runs(SYSTEM, CORE).await;
            world
        })
        .await
}

pub(crate) fn apply_install_file(cluster: &Cluster) {
    let file = tests::root().join("manifests/install/rukpak.yaml");
    let apply = ["apply", "--server-side", "-f", file.to_str().unwrap()];
    kubectl(cluster, &apply);
}

/// Applies the CRD of a file, and waits until its kind is served.
pub(crate) async fn define(cluster: &Cluster, file: &Path) {
    let bytes = fs::read(file).unwrap();
    let crd: Value = yaml::documents(&bytes).next().unwrap().unwrap();
    cluster.apply(&crd, DryRun::No).await.unwrap();
    let name = crd["metadata"]["name"].as_str().unwrap();
    cluster.wait_established(name).await.unwrap();
}

pub(crate) fn kubectl(cluster: &Cluster, args: &(impl Args + ?Sized)) -> String {
    let mut command = Command::new("kubectl");
    command.args(args.words());
    output(command.env("KUBECONFIG", cluster.kubeconfig_path()))
}

pub(crate) async fn merge<K: Watched>(api: &Api<K>, name: &str, patch: &Value) {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    api.patch(name, &params, &patch).await.unwrap();
}

impl World {
    /// Returns the cluster of the node, without an installation.
    pub(crate) async fn new() -> Self {
        let has_node = sandbox::current().is_some() && std::env::var_os(KUBECONFIG).is_some();
        assert!(has_node, "no node: run `make e2e`, which starts one");
        let (cluster, day_0) = (Cluster::shared().await.unwrap(), None);
        Self { cluster, day_0 }
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client().unwrap()
    }

    pub(crate) async fn kubernetes(&self) -> u64 {
        let version = self.client().apiserver_version().await.unwrap().git_version;
        version.split('.').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client(), namespace)
    }

    pub(crate) fn instances(&self) -> Api<BundleInstance> {
        Api::all(self.client())
    }

    pub(crate) fn bundles(&self) -> Api<Bundle> {
        Api::all(self.client())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        self.api(SYSTEM)
    }

    pub(crate) async fn apply(&self, object: Value) {
        self.cluster.apply(&object, DryRun::No).await.unwrap();
    }

    /// Creates a Bundle of a registry+v1 bundle.
    pub(crate) async fn bundle(&self, name: &str, source: Value) {
        self.apply(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
            "spec": {"provisionerClassName": "core-rukpak-io-registry", "source": source},
        }))
        .await;
    }

    pub(crate) async fn unpacked(&self, name: &str) -> Bundle {
        self.reports(name, "True UnpackSuccessful", "").await
    }

    /// Waits until a Bundle has this `status reason` of the condition Unpacked, with a text in its message.
    pub(crate) async fn reports(&self, name: &str, expected: &str, text: &str) -> Bundle {
        let expectation = format!("{expected} {text}");
        wait::until(self.bundles(), name, &expectation, |bundle| {
            bundle.status.as_ref().is_some_and(|status| {
                line(&status.conditions, "Unpacked") == expected
                    && message(&status.conditions, "Unpacked").contains(text)
            })
        })
        .await
    }

    /// Creates a BundleInstance of a registry+v1 bundle in an image, with more fields of its spec.
    pub(crate) async fn install(&self, name: &str, image: &str, more: Value) {
        let mut instance = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "metadata": {"name": name},
            "spec": {"provisionerClassName": "core-rukpak-io-registry", "template": template(image)},
        });
        let spec = instance["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        self.apply(instance).await;
    }

    pub(crate) async fn upgrade(&self, name: &str, image: &str) {
        let patch = json!({"spec": {"template": template(image)}});
        merge(&self.instances(), name, &patch).await;
    }

    /// Waits until a condition has this `status reason`.
    pub(crate) async fn condition(&self, name: &str, kind: &str, expected: &str) -> BundleInstance {
        let is_expected = |instance: &BundleInstance| line(conditions(instance), kind) == expected;
        wait::until(self.instances(), name, expected, is_expected).await
    }

    /// Waits until a version is installed and healthy.
    pub(crate) async fn healthy(&self, name: &str, version: &str) -> BundleInstance {
        let expectation = format!("healthy as {version}");
        wait::until(self.instances(), name, &expectation, |instance| {
            let status = instance.status.as_ref();
            status.and_then(|status| status.facts.version.as_deref()) == Some(version)
                && line(conditions(instance), "Installed").starts_with("True ")
                && line(conditions(instance), "Healthy") == "True Healthy"
        })
        .await
    }

    pub(crate) async fn runs(&self, namespace: &str, deployment: &str) {
        let deployments = self.api::<Deployment>(namespace);
        wait::until(deployments, deployment, "Available", available).await;
    }

    /// Deletes a BundleInstance and waits until no object in the cluster has its ownership labels.
    pub(crate) async fn remove(&self, name: &str) {
        wait::delete(self.instances(), name).await;
        let kinds = kubectl(self.cluster, "api-resources --verbs list -o name");
        let mut kinds: Vec<&str> = kinds.lines().collect();
        let short_lived = "events events.events.k8s.io endpoints componentstatuses";
        kinds.retain(|kind| !short_lived.split(' ').any(|other| other == *kind));
        let kinds = kinds.join(",");
        // The garbage collector deletes the Bundle and dependents of the objects later.
        let of_instance = format!("--all-namespaces -l core.rukpak.io/owner-name={name} {kinds}");
        let wait = format!("wait --for=delete --timeout=180s {of_instance}");
        kubectl(self.cluster, &wait);
    }
}

pub(crate) fn conditions(instance: &BundleInstance) -> &[Condition] {
    let status = instance.status.as_ref();
    status.map_or(&[], |status| &status.conditions)
}

fn template(image: &str) -> Value {
    json!({"spec": {"source": {"type": "image", "image": {"ref": image, "insecureSkipTLSVerify": true}}}})
}
