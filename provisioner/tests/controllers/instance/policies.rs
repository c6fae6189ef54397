//! What becomes of definitions: with the instance, and when they leave the bundle.

mod conversion;
mod leaving;

use k8s_openapi::{
    api::events::v1::Event,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    api::{DeleteParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
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
        let world = running().await;
        Self {
            world,
            name: unique(prefix),
            space: world.cluster.temp_namespace(prefix).await.unwrap(),
        }
    }

    async fn install(
        &self,
        policy: CrdDeletionPolicy,
        definition: Value,
        change: impl FnOnce(&mut BundleInstance),
    ) {
        let objects = [definition, self.operator()];
        let source = publish(self.world, &format!("{}:v1", self.name), &objects).await;
        let mut instance = support::instance(&self.name, "plain", source);
        instance.spec.crd_deletion_policy = policy;
        // The operator does not become healthy here, and definitions are pruned all the same.
        instance.spec.progress_deadline_seconds = Some(1);
        change(&mut instance);
        self.world.create(&instance).await;
        self.world
            .wait_instance(&self.name, "Installed", "True")
            .await;
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
        let kind = GroupVersionKind::gvk(&self.group(), version, "Widget");
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.world.client(), self.space.name(), &resource)
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
        let found = support::wait_for(self.world.api(), &self.name, part, |it: &BundleInstance| {
            let found = condition(&it.status.as_ref()?.conditions, "Progressing")?;
            found.message.contains(part).then_some(())
        })
        .await;
        message(&found, "Progressing").to_owned()
    }

    /// What was said of a definition that stays, by an event, which stays as well.
    async fn released(&self) -> String {
        let events: Api<Event> = Api::namespaced(self.world.client(), "default");
        support::eventually("an event tells that it stays", async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let found = all.into_iter().find(|event| {
                let about = event.regarding.as_ref().and_then(|it| it.name.as_ref());
                about == Some(&self.name) && event.reason.as_deref() == Some("Released")
            });
            found
                .and_then(|event| event.note)
                .ok_or_else(|| "there is none".to_owned())
        })
        .await
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
        self.definitions()
            .delete(&self.definition(), &DeleteParams::default())
            .await
            .unwrap();
    }

    async fn ask(&self) {
        let api: Api<BundleInstance> = self.world.api();
        api.delete(&self.name, &DeleteParams::default())
            .await
            .unwrap();
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
    let told = scene.released().await;
    for part in [
        format!("CustomResourceDefinition {}", scene.definition()),
        format!(
            "1 custom resource is left ({}/precious)",
            scene.space.name()
        ),
        "delete them and then it".to_owned(),
    ] {
        assert!(told.contains(&part), "{part} is missing: {told}");
    }
    let definition = support::crd(&scene.group(), "Widget");
    scene
        .install(CrdDeletionPolicy::DeleteIfUnused, definition, |_| {})
        .await;
    let again = scene.widgets("v1").get("precious").await.unwrap();
    assert_eq!(again.uid(), uid);

    // Without custom resources it goes.
    scene
        .widgets("v1")
        .delete("precious", &DeleteParams::default())
        .await
        .unwrap();
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
    let told = scene.says("stuck").await;
    for part in [
        &format!("CustomResourceDefinition {}: ", scene.definition()),
        &format!("{}/stuck", scene.space.name()),
        "example.com/nobody",
        "set spec.crdDeletionPolicy to Retain",
    ] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
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
    assert!(told.contains(&scene.definition()), "{told}");
    scene.set_policy("Retain").await;
    scene.is_gone().await;
    scene.free("stuck").await;
    support::gone(scene.definitions(), &scene.definition()).await;
}
