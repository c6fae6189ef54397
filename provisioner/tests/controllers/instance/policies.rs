//! CRD deletion policies: on uninstall, and when the CRD leaves the bundle.

mod conversion;
mod pruned_crds;

use kube::api::PostParams;
use manifests::api::bundle_instance::CrdDeletionPolicy;

use super::*;

/// An instance with a CRD, a workload, and custom resources of a user.
struct Scene {
    world: &'static World,
    name: String,
    space: cluster::TempNamespace,
}

impl Scene {
    /// Installs the CRD, and waits until all objects exist.
    async fn new(prefix: &str, policy: CrdDeletionPolicy) -> Self {
        let this = Self::prepare(prefix).await;
        let definition = support::crd(&this.group(), "Widget");
        this.install(policy, definition, |_| {}).await;
        this
    }

    async fn prepare(prefix: &str) -> Self {
        let (world, name, space) = start(prefix).await;
        Self { world, name, space }
    }

    async fn install(
        &self,
        policy: CrdDeletionPolicy,
        definition: Value,
        change: impl FnOnce(&mut BundleInstanceSpec),
    ) {
        let objects = [definition, self.operator()];
        declare_with(self.world, &self.name, &objects, |spec| {
            spec.crd_deletion_policy = policy;
            // The operator never becomes healthy in this test. CRDs are pruned nevertheless.
            spec.progress_deadline_seconds = Some(1);
            change(spec);
        })
        .await;
        let world = self.world;
        world.wait_instance(&self.name, "Installed", "True").await;
    }

    fn operator(&self) -> Value {
        deployment(self.space.name(), "operator", 1, "1", "ready")
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    fn crd(&self) -> String {
        format!("widgets.{}", self.group())
    }

    fn crds(&self) -> Api<CustomResourceDefinition> {
        self.world.api()
    }

    fn widgets(&self, version: &str) -> Api<DynamicObject> {
        let group = self.group();
        custom_resources(self.world, self.space.name(), [&group, version, "Widget"])
    }

    /// Creates a custom resource of a user.
    async fn widget(&self, version: &str, name: &str, finalizers: &[&str]) {
        let widget = json!({
            "apiVersion": format!("{}/{version}", self.group()), "kind": "Widget",
            "metadata": {"name": name, "finalizers": finalizers}, "spec": {"size": 1},
        });
        let widget = serde_json::from_value(widget).unwrap();
        let widgets = self.widgets(version);
        support::eventually("a Widget can be made", async || {
            let made = widgets.create(&PostParams::default(), &widget).await;
            made.map_err(|error| error.to_string())
        })
        .await;
    }

    /// Removes the finalizers of a custom resource.
    async fn remove_finalizers(&self, name: &str) {
        let patch = json!({"metadata": {"finalizers": null}});
        patch_as_other(&self.widgets("v1"), name, patch).await;
    }

    /// Waits until a condition of the instance mentions this part during the uninstall.
    async fn says(&self, part: &str) -> String {
        let found = says(self.world, &self.name, "Progressing", &[part]).await;
        message(&found, "Progressing").to_owned()
    }

    /// Returns the note of the Event about the retained CRD. The Event outlives the instance.
    async fn released(&self) -> String {
        let notes = async || support::notes(self.world, &self.name, "Released").await;
        let is_told = |notes: &Vec<String>| !notes.is_empty();
        let notes = support::until("an event tells that it stays", notes, is_told);
        notes.await.remove(0)
    }

    /// Checks that the CRD exists without an owner, and deletes the CRD.
    async fn is_kept(&self) {
        let crd = self.crds().get(&self.crd()).await.unwrap();
        assert_eq!(crd.metadata.deletion_timestamp, None);
        assert!(!crd.labels().contains_key(labels::OWNER_NAME), "{crd:?}");
        assert!(!crd.labels().contains_key(labels::OWNER_KIND), "{crd:?}");
        self.delete_definition().await;
    }

    async fn delete_definition(&self) {
        support::delete(&self.crds(), &self.crd()).await;
    }

    async fn request_deletion(&self) {
        support::delete(&self.world.api::<BundleInstance>(), &self.name).await;
    }

    async fn set_policy(&self, policy: &str) {
        let patch = json!({"spec": {"crdDeletionPolicy": policy}});
        change(self.world, &self.name, patch).await;
    }

    async fn is_gone(&self) {
        support::wait_deleted(self.world.api::<BundleInstance>(), &self.name).await;
        support::wait_deleted(deployments(self.world, self.space.name()), "operator").await;
    }
}

// parity: platform-19, openshift-10, g4
#[tokio::test]
async fn used_crd_is_retained_and_adopted_by_the_same_name() {
    let scene = Scene::new("in-use", CrdDeletionPolicy::DeleteIfUnused).await;
    scene.widget("v1", "precious", &[]).await;
    let uid = scene.widgets("v1").get("precious").await.unwrap().uid();
    delete(scene.world, &scene.name).await;
    scene.is_gone().await;
    let parts = [
        &format!("CustomResourceDefinition {}", scene.crd()),
        &format!("1 custom resource is left ({}/precious)", scene.space),
        "delete them and then the CRD",
    ];
    has_parts(&scene.released().await, &parts);
    let definition = support::crd(&scene.group(), "Widget");
    scene
        .install(CrdDeletionPolicy::DeleteIfUnused, definition, |_| {})
        .await;
    let again = scene.widgets("v1").get("precious").await.unwrap();
    assert_eq!(again.uid(), uid);

    // Without custom resources the CRD is deleted.
    support::delete(&scene.widgets("v1"), "precious").await;
    delete(scene.world, &scene.name).await;
    support::wait_deleted(scene.crds(), &scene.crd()).await;
}

// parity: rukpak-41
#[tokio::test]
async fn delete_policy_removes_custom_resources_before_the_operator() {
    let scene = Scene::new("delete", CrdDeletionPolicy::Delete).await;
    scene.widget("v1", "held", &["example.com/operator"]).await;
    scene.widget("v1", "free", &[]).await;
    scene.request_deletion().await;
    let text = scene.says("custom resource").await;
    assert!(text.contains("held"), "{text}");
    assert_eq!(scene.widgets("v1").get_opt("free").await.unwrap(), None);
    // The operator that has to finalize the other custom resource still exists.
    let operators = deployments(scene.world, scene.space.name());
    let operator = operators.get("operator").await.unwrap();
    assert_eq!(operator.metadata.deletion_timestamp, None);
    let definition = scene.crds().get(&scene.crd()).await.unwrap();
    assert_eq!(definition.metadata.deletion_timestamp, None);

    scene.remove_finalizers("held").await;
    scene.is_gone().await;
    support::wait_deleted(scene.crds(), &scene.crd()).await;
}

#[tokio::test]
async fn stuck_resource_is_named_and_retain_ends_the_uninstall() {
    let scene = Scene::new("stuck", CrdDeletionPolicy::Delete).await;
    scene.widget("v1", "stuck", &["example.com/nobody"]).await;
    scene.request_deletion().await;
    let parts = [
        &format!("CustomResourceDefinition {}: ", scene.crd()),
        &format!("{}/stuck", scene.space),
        "example.com/nobody",
        "set spec.crdDeletionPolicy to Retain",
    ];
    has_parts(&scene.says("stuck").await, &parts);
    scene.set_policy("Retain").await;
    scene.is_gone().await;
    let left = scene.widgets("v1").get("stuck").await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_some());
    scene.remove_finalizers("stuck").await;
    scene.is_kept().await;
}

#[tokio::test]
async fn retain_releases_a_crd_that_another_client_deletes() {
    let scene = Scene::new("terminating", CrdDeletionPolicy::DeleteIfUnused).await;
    scene.widget("v1", "stuck", &["example.com/nobody"]).await;
    scene.delete_definition().await;
    scene.request_deletion().await;
    let text = scene.says("customresourcecleanup").await;
    assert_has(text, &scene.crd());
    scene.set_policy("Retain").await;
    scene.is_gone().await;
    scene.remove_finalizers("stuck").await;
    support::wait_deleted(scene.crds(), &scene.crd()).await;
}
