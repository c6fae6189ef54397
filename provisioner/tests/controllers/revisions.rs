//! What the apply engine guarantees while a revision is repaired, replaced or rolled back.
//!
//! Each test begins with the rule that the test shows. The tests read the Kubernetes API alone: objects, status fields and
//! conditions.

mod concurrency;
mod conditions;
mod platform;
mod records;
mod recreate;
mod repair;
mod rollback;
mod steps;
mod upgrade;

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::api::{MANAGER, instance::BundleInstance};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{
    World, condition, config_map, delete, gone, image, instance, merge, merge_status,
    namespace_object, plain, unique, within, world,
};

/// The limit of a repair. A repair that waits for a back-off after a denied write takes longer.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of a rollout of a few objects.
const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a test looks for a change that must not happen.
const OBSERVATION: Duration = Duration::from_secs(5);
/// The message of every [`Policy`].
const DENIED: &str = "denied by the policy of this test";

/// The shared world with a provisioner.
async fn running() -> &'static World {
    let world = world().await;
    world.provisioner().await;
    world
}

/// A BundleInstance and the namespace of its objects, which have the same name.
struct Fixture<'w> {
    world: &'w World,
    name: String,
}

impl<'w> Fixture<'w> {
    async fn new(world: &'w World, prefix: &str) -> Self {
        let name = unique(prefix);
        world.apply(&namespace_object(&name)).await;
        Self { world, name }
    }

    fn namespace(&self) -> &str {
        &self.name
    }

    /// The API group of this fixture.
    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    /// A ConfigMap of a bundle.
    fn map(&self, name: &str, text: &str) -> Value {
        config_map(self.namespace(), name, text)
    }

    /// A custom resource of a bundle.
    fn custom_resource(&self, kind: &str, name: &str, size: impl Into<Value>) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group()), "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace()}, "spec": {"size": size.into()},
        })
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.world.client(), self.namespace())
    }

    fn widgets(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(&self.group(), "v1", "Widget");
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.world.client(), self.namespace(), &resource)
    }

    /// The definition of Widgets.
    async fn definition(&self) -> CustomResourceDefinition {
        let definitions: Api<CustomResourceDefinition> = self.world.api();
        let name = format!("widgets.{}", self.group());
        definitions.get(&name).await.unwrap()
    }

    /// Publishes a plain bundle, and returns the BundleInstance that installs the bundle.
    async fn declare(&self, objects: &[Value]) -> BundleInstance {
        let tag = format!("{}:v1", self.name);
        let pushed = self.world.push(&tag, &plain(objects)).await;
        instance(&self.name, "plain", image(&pushed))
    }

    /// Installs a plain bundle, and waits until the installation is healthy.
    async fn install(&self, objects: &[Value]) -> BundleInstance {
        self.create(self.declare(objects).await).await
    }

    /// Creates a BundleInstance, and waits until the installation is healthy.
    async fn create(&self, declared: BundleInstance) -> BundleInstance {
        self.world.create(&declared).await;
        self.world
            .wait_instance(&self.name, "Healthy", "True")
            .await
    }

    /// Changes the template to a plain bundle.
    async fn upgrade(&self, tag: &str, objects: &[Value]) {
        let tag = format!("{}:{tag}", self.name);
        let source = image(&self.world.push(&tag, &plain(objects)).await);
        self.change(json!({"template": {"spec": {"source": source}}}))
            .await;
    }

    /// Changes fields of the spec.
    async fn change(&self, spec: Value) {
        let instances: Api<BundleInstance> = self.world.api();
        merge(&instances, &self.name, &json!({"spec": spec})).await;
    }

    async fn read(&self) -> BundleInstance {
        let instances: Api<BundleInstance> = self.world.api();
        instances.get(&self.name).await.unwrap()
    }

    /// The reason and message of a condition.
    async fn condition(&self, type_: &str) -> (String, String) {
        let status = self.read().await.status.unwrap_or_default();
        condition(&status.conditions, type_)
            .map(|condition| (condition.reason.clone(), condition.message.clone()))
            .unwrap_or_default()
    }

    /// Waits until the message of a condition of any type has this part.
    async fn reports(&self, part: &str) {
        within(
            ROLLOUT_TIMEOUT,
            &format!("condition with {part:?}"),
            async || {
                let conditions = self.read().await.status.unwrap_or_default().conditions;
                conditions
                    .iter()
                    .any(|condition| condition.message.contains(part))
                    .then_some(())
                    .ok_or(format!("{conditions:?}"))
            },
        )
        .await;
    }

    /// Waits until a condition has this reason.
    async fn has_reason(&self, type_: &str, reason: &str) {
        within(ROLLOUT_TIMEOUT, &format!("{type_} {reason}"), async || {
            let conditions = self.read().await.status.unwrap_or_default().conditions;
            condition(&conditions, type_)
                .filter(|found| found.reason == reason)
                .map(drop)
                .ok_or(format!("{conditions:?}"))
        })
        .await;
    }

    /// The text of a ConfigMap, `None` if the ConfigMap does not exist.
    async fn text(&self, name: &str) -> Option<String> {
        let found = self.maps().get_opt(name).await.unwrap()?;
        found.data?.remove("text")
    }

    /// Waits until a ConfigMap has this text.
    async fn has_text(&self, limit: Duration, name: &str, text: &str) {
        within(
            limit,
            &format!("ConfigMap {name} with {text:?}"),
            async || {
                let found = self.text(name).await;
                let (_, installed) = self.condition("Installed").await;
                let has_text = found.as_deref() == Some(text);
                has_text
                    .then_some(())
                    .ok_or_else(|| format!("the text is {found:?}; Installed: {installed}"))
            },
        )
        .await;
    }

    /// Changes the text of a ConfigMap as another client.
    async fn alter(&self, name: &str) {
        let altered = json!({"data": {"text": "altered"}});
        patch(&self.maps(), name, "another-client", &altered).await;
    }

    /// Reports the status of a Widget, as an operator does.
    async fn observe(&self, name: &str, status: Value) {
        merge_status(&self.widgets(), name, &json!({"status": status})).await;
    }

    /// Waits until a Widget has this generation.
    async fn has_generation(&self, name: &str, generation: i64) {
        let what = format!("Widget {name} of generation {generation}");
        within(ROLLOUT_TIMEOUT, &what, async || {
            let found = self.widgets().get(name).await.unwrap().metadata.generation;
            (found == Some(generation))
                .then_some(())
                .ok_or(format!("{found:?}"))
        })
        .await;
    }

    async fn uninstall(&self) {
        let instances: Api<BundleInstance> = self.world.api();
        delete(&instances, &self.name).await;
        gone(instances, &self.name).await;
    }
}

/// An admission policy for the objects of one kind in the namespace of a fixture.
struct Policy<'w> {
    world: &'w World,
    name: String,
}

impl<'w> Policy<'w> {
    /// Denies writes for which a CEL expression is false, and waits until the policy denies a write to this object.
    async fn new<K>(fixture: &Fixture<'w>, expression: &str, api: &Api<K>, object: &str) -> Self
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let name = fixture.name.clone();
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": fixture.namespace()}});
        let resources = json!([{
            "apiGroups": [K::group(&())], "apiVersions": ["*"], "resources": [K::plural(&())],
            "operations": ["CREATE", "UPDATE"],
        }]);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"namespaceSelector": selector, "resourceRules": resources},
                "validations": [{"expression": expression, "message": DENIED}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        fixture.world.apply(&policy).await;
        fixture.world.apply(&binding).await;
        let params = PatchParams {
            dry_run: true,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let probe = Patch::Merge(json!({"metadata": {"labels": {"probe": "yes"}}}));
        within(ROLLOUT_TIMEOUT, "a denied write", async || {
            match api.patch(object, &params, &probe).await {
                Err(kube::Error::Api(status)) if status.message.contains(DENIED) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        Self {
            world: fixture.world,
            name,
        }
    }

    async fn remove(self) {
        let bindings: Api<
            k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        > = self.world.api();
        delete(&bindings, &self.name).await;
        let policies: Api<k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy> =
            self.world.api();
        delete(&policies, &self.name).await;
    }
}

/// Calls a function again and again for a while.
async fn observe(time: Duration, mut look: impl AsyncFnMut()) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        look().await;
        sleep(Duration::from_millis(50)).await;
    }
}

/// Changes an object by a merge patch of a field manager.
async fn patch<K>(api: &Api<K>, name: &str, manager: &str, patch: &Value) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    api.patch(name, &params, &Patch::Merge(patch))
        .await
        .unwrap()
}
