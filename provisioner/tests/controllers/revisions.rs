//! The guarantees of the apply engine while a revision is repaired, replaced or rolled back.
//! The tests read the Kubernetes API alone: objects, status fields and conditions.

mod conditions;
mod platform;
mod records;
mod recreate;
mod repair;
mod rollback;
mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
    core::{DynamicObject, NamespaceResourceScope},
    runtime::watcher,
};
use manifests::api::{
    bundle_instance::{BundleInstance, RevisionState, Rollback},
    labels,
};
use serde_json::{Value, json};
use tests::assert_has;
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::faults::support::{empty, stage};
use crate::support::{
    self, Line, Options, Provisioner, World, condition, config_map, custom_resources, delete,
    image, instance, list, merge, merge_status, namespace_object, operator, patch_as, plain,
    running, unique, until, until_within, wait_deleted, within,
};

/// The limit of a repair. A repair that waits for a back-off after a denied write takes longer.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(10);
const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(20);
/// The limit of the rollout or the removal of many objects, and of a rollout that waits for a back-off.
const LARGE_TIMEOUT: Duration = Duration::from_secs(120);
/// The time in which a test watches for a change that must not happen.
const OBSERVATION: Duration = Duration::from_secs(5);
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

    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    fn map(&self, name: &str, text: &str) -> Value {
        config_map(&self.name, name, text)
    }

    fn widget(&self, name: &str, size: u8) -> Value {
        let version = format!("{}/v1", self.group());
        self.object(&version, "Widget", name, &json!({"spec": {"size": size}}))
    }

    fn widget_crd(&self) -> Value {
        support::crd(&self.group(), "Widget")
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.world.client(), &self.name)
    }

    fn object(&self, api_version: &str, kind: &str, name: &str, more: &Value) -> Value {
        let metadata = json!({"name": name, "namespace": self.name});
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let fields = more.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(fields);
        object
    }

    fn maps(&self) -> Api<ConfigMap> {
        self.api()
    }

    fn widgets(&self) -> Api<DynamicObject> {
        custom_resources(self.world, &self.name, [&self.group(), "v1", "Widget"])
    }

    fn crd_name(&self) -> String {
        format!("widgets.{}", self.group())
    }

    async fn crd(&self) -> CustomResourceDefinition {
        let crds: Api<CustomResourceDefinition> = self.world.api();
        crds.get(&self.crd_name()).await.unwrap()
    }

    fn web(&self, app: &str) -> Value {
        let labels = json!({"app": app});
        let pod = json!({"containers": [{"name": "main", "image": "example.com/web:1"}]});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let spec = json!({"spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}});
        let web = self.object("apps/v1", "Deployment", "web", &spec);
        tests::with!(web => |web| web["metadata"]["labels"] = json!({"version": "1"}))
    }

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
        let declared = instance(&self.name, "registry", image(&pushed));
        tests::with!(declared => spec.install_namespace: Some(self.name.clone()))
    }

    /// Routes the fetches of a bundle through a line to the registry.
    fn through(&self, line: &Line, declared: &mut BundleInstance) {
        let image = declared.spec.template.spec.source.image.as_mut().unwrap();
        let registry = self.world.registry.host();
        image.reference = image.reference.replace(registry, &line.host());
    }

    async fn install(&self, objects: &[Value]) -> BundleInstance {
        self.create(self.declare(objects).await).await
    }

    async fn create(&self, declared: BundleInstance) -> BundleInstance {
        self.world.create(&declared).await;
        self.wait("Healthy", "True").await
    }

    async fn wait(&self, type_: &str, status: &str) -> BundleInstance {
        self.world.wait_instance(&self.name, type_, status).await
    }

    async fn upgrade(&self, tag: &str, objects: &[Value]) {
        let tag = format!("{}:{tag}", self.name);
        let source = image(&self.world.push(&tag, &plain(objects)).await);
        let template = json!({"template": {"spec": {"source": source}}});
        self.change(template).await;
    }

    fn instances(&self) -> Api<BundleInstance> {
        self.world.api()
    }

    async fn change(&self, spec: Value) {
        merge(&self.instances(), &self.name, &json!({"spec": spec})).await;
    }

    async fn read(&self) -> BundleInstance {
        self.instances().get(&self.name).await.unwrap()
    }

    async fn conditions(&self) -> Vec<Condition> {
        self.read().await.status.unwrap_or_default().conditions
    }

    async fn condition(&self, type_: &str) -> (String, String) {
        condition(&self.conditions().await, type_)
            .map(|condition| (condition.reason.clone(), condition.message.clone()))
            .unwrap_or_default()
    }

    /// Waits until the message of a condition of any type has this part.
    async fn reports(&self, part: &str) {
        let has_part = |all: &Vec<Condition>| all.iter().any(|one| one.message.contains(part));
        becomes(part, async || self.conditions().await, has_part).await;
    }

    /// Waits until a condition, as `Type Reason`, exists.
    async fn has_reason(&self, expected: &str) {
        let (type_, reason) = expected.split_once(' ').unwrap();
        let found = async || self.condition(type_).await;
        becomes(expected, found, |found| found.0 == reason).await;
    }

    async fn is_active(&self, number: i64) {
        let newest = async || {
            let revisions = self.read().await.status.unwrap_or_default().revisions;
            revisions.last().map(|newest| (newest.number, newest.state))
        };
        let active = Some((number, RevisionState::Active));
        let description = format!("active revision {number}");
        becomes(&description, newest, |newest| *newest == active).await;
    }

    async fn text(&self, name: &str) -> Option<String> {
        let found = self.maps().get_opt(name).await.unwrap()?;
        found.data?.remove("text")
    }

    async fn has_text(&self, limit: Duration, name: &str, text: &str) {
        let description = format!("ConfigMap {name} with {text:?}");
        within(limit, &description, async || {
            let found = self.text(name).await;
            let (_, installed) = self.condition("Installed").await;
            let has_text = (found.as_deref() == Some(text)).then_some(());
            has_text.ok_or_else(|| format!("the text is {found:?}; Installed: {installed}"))
        })
        .await;
    }

    async fn alter(&self, name: &str) {
        let altered = json!({"data": {"text": "altered"}});
        patch_as(&self.maps(), name, "another-client", &altered).await;
    }

    async fn set_finalizers(&self, name: &str, finalizers: Value) {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        merge(&self.maps(), name, &patch).await;
    }

    async fn is_terminating(&self, name: &str) {
        let part = json!({"metadata": {"deletionTimestamp": "*"}});
        support::wait_part(self.maps(), name, part).await;
    }

    async fn observe(&self, name: &str, status: Value) {
        merge_status(&self.widgets(), name, &json!({"status": status})).await;
    }

    async fn observe_generation(&self, name: &str, generation: i64) {
        let status = json!({"observedGeneration": generation});
        self.observe(name, status).await;
    }

    async fn has_generation(&self, name: &str, generation: i64) {
        let description = format!("Widget {name} of generation {generation}");
        let read = async || self.widgets().get(name).await.unwrap().metadata.generation;
        becomes(&description, read, |found| *found == Some(generation)).await;
    }

    /// Watches the BundleInstance in the background, even before it exists, and passes each version to a function. Returns
    /// when the watch has begun.
    async fn follow(
        &self,
        mut observe: impl FnMut(BundleInstance) + Send + 'static,
    ) -> JoinSet<()> {
        let changes = watcher::watch_object(self.instances(), &self.name);
        let (started, start) = oneshot::channel();
        let mut started = Some(started);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut changes = std::pin::pin!(changes);
            while let Some(change) = changes.next().await {
                let Ok(found) = change else { continue };
                found.into_iter().for_each(&mut observe);
                started.take().map(|started| started.send(()));
            }
        });
        start.await.unwrap();
        tasks
    }

    async fn uninstall(&self) {
        self.world.uninstall(&self.name).await;
    }
}

/// The messages of conditions that a watch has reported, as `type: message`.
struct Messages {
    reported: Arc<Mutex<BTreeSet<String>>>,
    _watch: JoinSet<()>,
}

impl Messages {
    async fn new(fixture: &Fixture<'_>) -> Self {
        let reported = Arc::<Mutex<BTreeSet<_>>>::default();
        let messages = Arc::clone(&reported);
        let observe = move |instance: BundleInstance| {
            let conditions = instance.status.unwrap_or_default().conditions;
            let line = |one: &Condition| format!("{}: {}", one.type_, one.message);
            messages.lock().unwrap().extend(conditions.iter().map(line));
        };
        Self {
            reported,
            _watch: fixture.follow(observe).await,
        }
    }

    async fn wait(&self, parts: &[&str]) {
        let reported = async || self.reported.lock().unwrap().clone();
        let has_parts = |message: &String| parts.iter().all(|part| message.contains(part));
        let is_reported = |all: &BTreeSet<String>| all.iter().any(has_parts);
        until_within(LARGE_TIMEOUT, &format!("{parts:?}"), reported, is_reported).await;
    }
}

async fn observe(time: Duration, mut look: impl AsyncFnMut()) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        look().await;
        sleep(Duration::from_millis(50)).await;
    }
}

async fn becomes<T: Debug>(
    description: &str,
    read: impl AsyncFnMut() -> T,
    is_desired: impl Fn(&T) -> bool,
) -> T {
    until_within(ROLLOUT_TIMEOUT, description, read, is_desired).await
}
