//! The guarantees of the apply engine while a revision is repaired, replaced or rolled back.
//!
//! Each test begins with the rule that the test shows. The tests read the Kubernetes API alone: objects, status fields and
//! conditions.

mod conditions;
mod platform;
mod records;
mod recreate;
mod repair;
mod rollback;
mod steps;
mod upgrade;

use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingAdmissionPolicyBinding, apps::v1::Deployment,
        core::v1::ConfigMap,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    core::{DynamicObject, NamespaceResourceScope},
    runtime::watcher,
};
use manifests::api::{
    MANAGER,
    bundle_instance::{BundleInstance, RevisionState},
    labels,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests::assert_has;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::support::{
    self, Line, World, condition, config_map, custom_resources, delete, image, instance, merge,
    merge_status, namespace_object, operator, patch_as, plain, running, unique, until_within,
    wait_deleted, within,
};

/// The limit of a repair. A repair that waits for a back-off after a denied write takes longer.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of a rollout of a few objects.
const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(20);
/// The limit of the rollout, or the removal, of many objects.
const LARGE_TIMEOUT: Duration = Duration::from_secs(120);
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

    /// Returns a Widget of a bundle.
    fn widget(&self, name: &str, size: u8) -> Value {
        let version = format!("{}/v1", self.group());
        self.object(&version, "Widget", name, &json!({"spec": {"size": size}}))
    }

    /// Returns the CRD of Widgets.
    fn widget_crd(&self) -> Value {
        support::crd(&self.group(), "Widget")
    }

    /// Returns the API of a kind in the namespace.
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.world.client(), self.namespace())
    }

    /// Returns an object of a bundle.
    fn object(&self, api_version: &str, kind: &str, name: &str, more: &Value) -> Value {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": self.namespace()},
        });
        let fields = more.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(fields);
        object
    }

    fn maps(&self) -> Api<ConfigMap> {
        self.api()
    }

    fn widgets(&self) -> Api<DynamicObject> {
        let group = self.group();
        custom_resources(self.world, self.namespace(), [&group, "v1", "Widget"])
    }

    /// Reads the CRD of Widgets.
    async fn crd(&self) -> CustomResourceDefinition {
        let crds: Api<CustomResourceDefinition> = self.world.api();
        let name = format!("widgets.{}", self.group());
        crds.get(&name).await.unwrap()
    }

    /// Returns a Deployment without pods.
    fn web(&self, app: &str) -> Value {
        let pod = json!({
            "metadata": {"labels": {"app": app}},
            "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
        });
        let spec =
            json!({"replicas": 0, "selector": {"matchLabels": {"app": app}}, "template": pod});
        let mut web = self.object("apps/v1", "Deployment", "web", &json!({"spec": spec}));
        web["metadata"]["labels"] = json!({"version": "1"});
        web
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

    /// Waits until the revision of this number is the newest one, and active.
    async fn is_active(&self, number: i64) {
        let newest = async || {
            let revisions = self.read().await.status.unwrap_or_default().revisions;
            revisions.last().map(|newest| (newest.number, newest.state))
        };
        becomes(&format!("active revision {number}"), newest, |newest| {
            *newest == Some((number, RevisionState::Active))
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

    /// Passes the versions of the BundleInstance, also of one that is created later, to a function in the background.
    fn follow(&self, mut observe: impl FnMut(BundleInstance) + Send + 'static) -> JoinSet<()> {
        let instances: Api<BundleInstance> = self.world.api();
        let changes = watcher::watch_object(instances, &self.name);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut changes = std::pin::pin!(changes);
            while let Some(change) = changes.next().await {
                if let Ok(Some(instance)) = change {
                    observe(instance);
                }
            }
        });
        tasks
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
        let manager = MANAGER.to_owned();
        let params = tests::with!(PatchParams, dry_run: true, field_manager: Some(manager));
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
    }
}

/// The messages of conditions that a watch has reported, as `type: message`.
struct Messages {
    reported: Arc<Mutex<BTreeSet<String>>>,
    _watch: JoinSet<()>,
}

impl Messages {
    fn new(fixture: &Fixture<'_>) -> Self {
        let reported = Arc::<Mutex<BTreeSet<_>>>::default();
        let messages = Arc::clone(&reported);
        let watch = fixture.follow(move |instance| {
            let conditions = instance.status.unwrap_or_default().conditions;
            let lines = conditions
                .iter()
                .map(|condition| format!("{}: {}", condition.type_, condition.message));
            messages.lock().unwrap().extend(lines);
        });
        Self {
            reported,
            _watch: watch,
        }
    }

    /// Waits until a message with these parts was reported.
    async fn wait(&self, parts: &[&str]) {
        let reported = async || self.reported.lock().unwrap().clone();
        let has_parts = |message: &String| parts.iter().all(|part| message.contains(part));
        until_within(LARGE_TIMEOUT, &format!("{parts:?}"), reported, |all| {
            all.iter().any(has_parts)
        })
        .await;
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
