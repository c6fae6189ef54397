//! What becomes of definitions: with the instance, and when they leave the bundle.

mod conversion;
mod leaving;

use kube::api::PostParams;
use manifests::api::instance::CrdDeletionPolicy;

use super::*;

/// An instance with a definition, a workload, and custom resources that somebody else has made.
struct Scene {
    world: &'static World,
    name: String,
    space: cluster::TempNamespace,
}

impl Scene {
    /// Installs the definition, and waits until everything is there.
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
            // The operator does not become healthy here, and definitions are pruned all the same.
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

    fn definition(&self) -> String {
        format!("widgets.{}", self.group())
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        self.world.api()
    }

    fn widgets(&self, version: &str) -> Api<DynamicObject> {
        let group = self.group();
        custom_resources(self.world, self.space.name(), [&group, version, "Widget"])
    }

    /// A custom resource of a user's.
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

    /// Lets a custom resource go.
    async fn free(&self, name: &str) {
        let patch = json!({"metadata": {"finalizers": null}});
        meddle(&self.widgets("v1"), name, patch).await;
    }

    /// Waits until the instance says something about its removal.
    async fn says(&self, part: &str) -> String {
        let found = says(self.world, &self.name, "Progressing", &[part]).await;
        message(&found, "Progressing").to_owned()
    }

    /// What was said of a definition that stays, by an event, which stays as well.
    async fn released(&self) -> String {
        let notes = async || support::notes(self.world, &self.name, "Released").await;
        let is_told = |notes: &Vec<String>| !notes.is_empty();
        let notes = support::until("an event tells that it stays", notes, is_told);
        notes.await.remove(0)
    }

    /// The definition is there, belongs to nobody, and is removed here.
    async fn is_kept(&self) {
        let kept = self.definitions().get(&self.definition()).await.unwrap();
        assert_eq!(kept.metadata.deletion_timestamp, None);
        assert!(!kept.labels().contains_key(labels::OWNER_NAME), "{kept:?}");
        assert!(!kept.labels().contains_key(labels::OWNER_KIND), "{kept:?}");
        self.delete_definition().await;
    }

    async fn delete_definition(&self) {
        support::delete(&self.definitions(), &self.definition()).await;
    }

    async fn ask(&self) {
        support::delete(&self.world.api::<BundleInstance>(), &self.name).await;
    }

    async fn set_policy(&self, policy: &str) {
        let patch = json!({"spec": {"crdDeletionPolicy": policy}});
        change(self.world, &self.name, patch).await;
    }

    async fn is_gone(&self) {
        support::gone(self.world.api::<BundleInstance>(), &self.name).await;
        support::gone(deployments(self.world, self.space.name()), "operator").await;
    }
}

// parity: platform-19, openshift-10, g4
#[tokio::test]
async fn a_definition_in_use_stays_and_an_instance_of_the_same_name_has_it_again() {
    let scene = Scene::new("in-use", CrdDeletionPolicy::DeleteIfUnused).await;
    scene.widget("v1", "precious", &[]).await;
    let uid = scene.widgets("v1").get("precious").await.unwrap().uid();
    delete(scene.world, &scene.name).await;
    scene.is_gone().await;
    let parts = [
        &format!("CustomResourceDefinition {}", scene.definition()),
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

    // Without custom resources it goes.
    support::delete(&scene.widgets("v1"), "precious").await;
    delete(scene.world, &scene.name).await;
    support::gone(scene.definitions(), &scene.definition()).await;
}

// parity: rukpak-41
#[tokio::test]
async fn delete_removes_custom_resources_while_the_operator_runs_then_definitions_then_the_rest() {
    let scene = Scene::new("delete", CrdDeletionPolicy::Delete).await;
    scene.widget("v1", "held", &["example.com/operator"]).await;
    scene.widget("v1", "free", &[]).await;
    scene.ask().await;
    let told = scene.says("custom resource").await;
    assert!(told.contains("held"), "{told}");
    assert_eq!(scene.widgets("v1").get_opt("free").await.unwrap(), None);
    // Whoever has to finalize the other one is still there.
    let operators = deployments(scene.world, scene.space.name());
    let operator = operators.get("operator").await.unwrap();
    assert_eq!(operator.metadata.deletion_timestamp, None);
    let definition = scene.definitions().get(&scene.definition()).await.unwrap();
    assert_eq!(definition.metadata.deletion_timestamp, None);

    scene.free("held").await;
    scene.is_gone().await;
    support::gone(scene.definitions(), &scene.definition()).await;
}

#[tokio::test]
async fn what_nobody_finalises_is_named_and_retain_lets_the_instance_go_at_once() {
    let scene = Scene::new("stuck", CrdDeletionPolicy::Delete).await;
    scene.widget("v1", "stuck", &["example.com/nobody"]).await;
    scene.ask().await;
    let parts = [
        &format!("CustomResourceDefinition {}: ", scene.definition()),
        &format!("{}/stuck", scene.space),
        "example.com/nobody",
        "set spec.crdDeletionPolicy to Retain",
    ];
    has_parts(&scene.says("stuck").await, &parts);
    scene.set_policy("Retain").await;
    scene.is_gone().await;
    let left = scene.widgets("v1").get("stuck").await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_some());
    scene.free("stuck").await;
    scene.is_kept().await;
}

#[tokio::test]
async fn retain_also_lets_go_of_a_definition_that_somebody_else_has_deleted() {
    let scene = Scene::new("terminating", CrdDeletionPolicy::DeleteIfUnused).await;
    scene.widget("v1", "stuck", &["example.com/nobody"]).await;
    scene.delete_definition().await;
    scene.ask().await;
    let told = scene.says("customresourcecleanup").await;
    assert_has(told, &scene.definition());
    scene.set_policy("Retain").await;
    scene.is_gone().await;
    scene.free("stuck").await;
    support::gone(scene.definitions(), &scene.definition()).await;
}
