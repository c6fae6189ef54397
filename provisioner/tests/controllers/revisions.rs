//! The guarantees of the apply engine while a revision is repaired, replaced or rolled back.
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
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        core::v1::ConfigMap,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use manifests::api::{MANAGER, bundle_instance::BundleInstance};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{
    Line, World, condition, config_map, custom_resources, delete, image, instance, merge,
    merge_status, namespace_object, operator, patch_as, plain, running, unique, until_within,
    wait_deleted, within,
};
/// The limit of a repair. A repair that waits for a back-off after a denied write takes longer.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of a rollout of a few objects.
const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(20);
/// The time in which a test watches for a change that must not happen.
const OBSERVATION: Duration = Duration::from_secs(5);
/// The message of every [`Policy`].
const DENIED: &str = "denied by the policy of this test";
/// The finalizer of a client that is slow to remove it.
const FINALIZER: &str = "example.com/held";

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

    /// Returns a ConfigMap of a bundle.
    fn map(&self, name: &str, text: &str) -> Value {
        config_map(self.namespace(), name, text)
    }

    /// Returns a custom resource of a bundle.
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
        let group = self.group();
        custom_resources(self.world, self.namespace(), [&group, "v1", "Widget"])
    }

    /// Returns the CRD of Widgets.
    async fn crd(&self) -> CustomResourceDefinition {
        let crds: Api<CustomResourceDefinition> = self.world.api();
        let name = format!("widgets.{}", self.group());
        crds.get(&name).await.unwrap()
    }

    /// Returns a Deployment without pods.
    fn web(&self, app: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": self.namespace(), "labels": {"version": "1"}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": app}},
                "template": {
                    "metadata": {"labels": {"app": app}},
                    "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
                },
            },
        })
    }

    /// Publishes a plain bundle, and returns the BundleInstance that installs the bundle.
    async fn declare(&self, objects: &[Value]) -> BundleInstance {
        let tag = format!("{}:v1", self.name);
        let pushed = self.world.push(&tag, &plain(objects)).await;
        instance(&self.name, "plain", image(&pushed))
    }

    /// Publishes an operator with more files, and returns the BundleInstance that installs the operator here.
    async fn declare_operator(&self, more: &[(&str, Value)]) -> BundleInstance {
        let bundle = operator(&self.name, "1.0.0", more);
        let tag = format!("{}:v1", self.name);
        let pushed = self.world.push(&tag, &bundle).await;
        let mut declared = instance(&self.name, "registry", image(&pushed));
        declared.spec.install_namespace = Some(self.name.clone());
        declared
    }

    /// Routes the fetches of a bundle through a line to the registry.
    fn through(&self, line: &Line, declared: &mut BundleInstance) {
        let image = declared.spec.template.spec.source.image.as_mut().unwrap();
        let registry = self.world.registry.host();
        image.reference = image.reference.replace(registry, &line.host());
    }

    /// Installs a plain bundle, and waits until the installation is healthy.
    async fn install(&self, objects: &[Value]) -> BundleInstance {
        self.create(self.declare(objects).await).await
    }

    /// Creates a BundleInstance, and waits until the installation is healthy.
    async fn create(&self, declared: BundleInstance) -> BundleInstance {
        self.world.create(&declared).await;
        self.wait("Healthy", "True").await
    }

    /// Waits until a condition has this status.
    async fn wait(&self, type_: &str, status: &str) -> BundleInstance {
        self.world.wait_instance(&self.name, type_, status).await
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

    async fn conditions(&self) -> Vec<Condition> {
        self.read().await.status.unwrap_or_default().conditions
    }

    /// The reason and message of a condition.
    async fn condition(&self, type_: &str) -> (String, String) {
        condition(&self.conditions().await, type_)
            .map(|condition| (condition.reason.clone(), condition.message.clone()))
            .unwrap_or_default()
    }

    /// Waits until the message of a condition of any type has this part.
    async fn reports(&self, part: &str) {
        let conditions = async || self.conditions().await;
        becomes(&format!("condition with {part:?}"), conditions, |all| {
            all.iter().any(|condition| condition.message.contains(part))
        })
        .await;
    }

    /// Waits until a condition has this reason.
    async fn has_reason(&self, type_: &str, reason: &str) {
        let conditions = async || self.conditions().await;
        becomes(&format!("{type_} {reason}"), conditions, |all| {
            condition(all, type_).is_some_and(|found| found.reason == reason)
        })
        .await;
    }

    /// Waits until the newest revision is installed.
    async fn is_installed(&self) {
        self.has_reason("Installed", "InstallationSucceeded").await;
    }

    /// The text of a ConfigMap, `None` if the ConfigMap does not exist.
    async fn text(&self, name: &str) -> Option<String> {
        let found = self.maps().get_opt(name).await.unwrap()?;
        found.data?.remove("text")
    }

    /// Waits until a ConfigMap has this text.
    async fn has_text(&self, limit: Duration, name: &str, text: &str) {
        let description = format!("ConfigMap {name} with {text:?}");
        within(limit, &description, async || {
            let found = self.text(name).await;
            let (_, installed) = self.condition("Installed").await;
            let has_text = found.as_deref() == Some(text);
            has_text
                .then_some(())
                .ok_or_else(|| format!("the text is {found:?}; Installed: {installed}"))
        })
        .await;
    }

    /// Changes the text of a ConfigMap as another client.
    async fn alter(&self, name: &str) {
        let altered = json!({"data": {"text": "altered"}});
        patch_as(&self.maps(), name, "another-client", &altered).await;
    }

    async fn set_finalizers(&self, name: &str, finalizers: Value) {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        merge(&self.maps(), name, &patch).await;
    }

    async fn is_terminating(&self, name: &str) {
        let terminating = async || {
            let found = self.maps().get_opt(name).await.unwrap();
            found.is_some_and(|found| found.metadata.deletion_timestamp.is_some())
        };
        becomes("terminating", terminating, |is_so| *is_so).await;
    }

    /// Reports the status of a Widget, as an operator does.
    async fn observe(&self, name: &str, status: Value) {
        merge_status(&self.widgets(), name, &json!({"status": status})).await;
    }

    /// Reports that the operator has observed a generation of a Widget.
    async fn observe_generation(&self, name: &str, generation: i64) {
        let status = json!({"observedGeneration": generation});
        self.observe(name, status).await;
    }

    /// Waits until a Widget has this generation.
    async fn has_generation(&self, name: &str, generation: i64) {
        let description = format!("Widget {name} of generation {generation}");
        let read = async || self.widgets().get(name).await.unwrap().metadata.generation;
        becomes(&description, read, |found| *found == Some(generation)).await;
    }

    async fn uninstall(&self) {
        let instances: Api<BundleInstance> = self.world.api();
        delete(&instances, &self.name).await;
        wait_deleted(instances, &self.name).await;
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
        let bindings: Api<ValidatingAdmissionPolicyBinding> = self.world.api();
        delete(&bindings, &self.name).await;
        let policies: Api<ValidatingAdmissionPolicy> = self.world.api();
        delete(&policies, &self.name).await;
    }
}

/// Calls a function repeatedly for a while.
async fn observe(time: Duration, mut look: impl AsyncFnMut()) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        look().await;
        sleep(Duration::from_millis(50)).await;
    }
}

/// Reads a value until it matches a predicate, within the limit of a rollout, and returns the value.
async fn becomes<T: Debug>(
    description: &str,
    read: impl AsyncFnMut() -> T,
    is_desired: impl Fn(&T) -> bool,
) -> T {
    until_within(ROLLOUT_TIMEOUT, description, read, is_desired).await
}
