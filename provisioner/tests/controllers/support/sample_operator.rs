//! An operator in two versions, with the exact objects that the cluster must contain for each. A third version cannot be
//! installed completely.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use manifests::api::{
    bundle_instance::{BundleInstance, BundleInstanceSpec, CrdDeletionPolicy},
    labels,
};
use serde_json::{Value, json};

use super::{
    World, account, account_object, condition, config_map, crd, delete, eventually, image,
    instance, listable, merge, namespace_object, plain, unique,
};

/// The result of a check that a wait repeats.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The number of ConfigMaps that both versions have.
const MAPS: usize = 20;
/// The number of objects that only one version has.
const OWN: usize = 5;

/// The version that the API server rejects after most of its objects were applied.
pub(crate) const FAILING: usize = 3;

/// Kinds that no bundle installs. The controllers of Services copy labels to their objects.
const NOT_OURS: [&str; 4] = ["ComponentStatus", "Endpoints", "EndpointSlice", "Event"];

/// An instance with a bundle for each of two versions.
pub(crate) struct Play {
    pub(crate) name: String,
    /// The install namespace, which outlives the instance.
    pub(crate) space: String,
    images: [String; 3],
    kinds: Vec<ApiResource>,
}

impl Play {
    pub(crate) async fn new(world: &World, prefix: &str) -> Self {
        let name = unique(prefix);
        let space = format!("{name}-space");
        world.apply(&namespace_object(&space)).await;
        // All built-in kinds, and the project's.
        let mut kinds = listable(world.client()).await.unwrap();
        let is_other = |group: &str| group.ends_with(".example.com");
        kinds.retain(|kind| !NOT_OURS.contains(&kind.kind.as_str()) && !is_other(&kind.group));
        let mut play = Self {
            kinds,
            name,
            space,
            images: [const { String::new() }; 3],
        };
        for version in [1, 2, FAILING] {
            let bundle = plain(&play.objects(version));
            let tag = format!("{}:v{version}", play.name);
            play.images[version - 1] = world.push(&tag, &bundle).await;
        }
        let own = ["Widget", "Gadget"].map(|kind| GroupVersionKind::gvk(&play.group(), "v1", kind));
        play.kinds.extend(own.iter().map(ApiResource::from_gvk));
        play
    }

    pub(crate) async fn installed(world: &World, prefix: &str) -> Self {
        let play = Self::new(world, prefix).await;
        play.install(world, 1).await;
        play.settled(world, 1).await;
        play
    }

    pub(crate) fn behind(mut self, registry: &str, host: &str) -> Self {
        self.images = self.images.map(|image| image.replace(registry, host));
        self
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    pub(crate) fn objects(&self, version: usize) -> Vec<Value> {
        let (name, space) = (&self.name, &self.space);
        let text = version.to_string();
        let subject = account(space, name);
        let template = json!({
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": format!("example.com/{name}:{version}")}]},
        });
        let mut objects = vec![
            crd(&self.group(), "Widget"),
            json!({"apiVersion": format!("{}/v1", self.group()), "kind": "Widget",
                "metadata": {"name": "one", "namespace": space}, "spec": {"size": version}}),
            account_object(space, name),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [{"apiGroups": [self.group()], "resources": ["widgets"], "verbs": ["get"]}]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name}, "subjects": [subject],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}),
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "secret", "namespace": space}, "stringData": {"version": text}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service", "namespace": space},
                "spec": {"selector": {"app": name}, "ports": [{"port": 80 + version}]}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "operator", "namespace": space},
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": format!("{name}-only-{version}")}, "rules": []}),
        ];
        objects.extend((0..MAPS).map(|n| config_map(space, &format!("map-{n:02}"), &text)));
        objects.extend((0..OWN).map(|n| config_map(space, &format!("only-{version}-{n}"), &text)));
        if version == FAILING {
            // A dry run cannot check an object whose CRD does not exist yet.
            objects.push(crd(&self.group(), "Gadget"));
            let rejected = json!({"apiVersion": format!("{}/v1", self.group()), "kind": "Gadget",
                "metadata": {"name": "rejected", "namespace": space}, "spec": {"size": "large"}});
            objects.push(rejected);
        }
        objects
    }

    pub(crate) async fn install(&self, world: &World, version: usize) {
        self.install_with(world, version, |_| {}).await;
    }

    pub(crate) async fn install_with(
        &self,
        world: &World,
        version: usize,
        change: impl FnOnce(&mut BundleInstanceSpec),
    ) {
        let mut new = instance(&self.name, "plain", image(&self.images[version - 1]));
        new.spec.crd_deletion_policy = CrdDeletionPolicy::Delete;
        change(&mut new.spec);
        world.create(&new).await;
    }

    pub(crate) async fn upgrade(&self, world: &World, version: usize) {
        let source = image(&self.images[version - 1]);
        let patch = json!({"spec": {"template": {"spec": {"source": source}}, "rollbackTo": null}});
        merge::<BundleInstance>(&world.api(), &self.name, &patch).await;
    }

    pub(crate) async fn remove(&self, world: &World) {
        delete::<BundleInstance>(&world.api(), &self.name).await;
    }

    /// Waits until the instance reports a version as installed and healthy, and until exactly the objects of that version
    /// exist in their desired state.
    pub(crate) async fn settled(&self, world: &World, version: usize) {
        let reason = "InstallationSucceeded";
        self.settled_as(world, version, reason).await;
    }

    /// Like [`Play::settled`], with the reason of the condition Installed.
    pub(crate) async fn settled_as(&self, world: &World, version: usize, reason: &str) {
        let client = world.client();
        eventually(&format!("{} {version} is settled", self.name), async || {
            let settled = self.is_settled(&client, version, reason).await;
            settled.map_err(|error| error.to_string())
        })
        .await;
    }

    /// Returns the uids of the objects that all versions have.
    pub(crate) async fn uids(&self, world: &World) -> BTreeMap<String, String> {
        let mut owned = self.owned(&world.client()).await.unwrap();
        let all = self.expected(1);
        let common: BTreeSet<_> = all.intersection(&self.expected(2)).cloned().collect();
        owned.retain(|line, _| common.contains(line) && line != "Bundle");
        owned
    }

    /// Checks that exactly that version is installed, or returns the difference.
    async fn is_settled(&self, client: &Client, version: usize, reason: &str) -> Result<()> {
        let api: Api<BundleInstance> = Api::all(client.clone());
        let instance = api.get(&self.name).await?;
        let status = instance.status.unwrap_or_default();
        for (type_, reason) in [
            ("HasValidBundle", "UnpackSuccessful"),
            ("Installed", reason),
            ("Healthy", "Healthy"),
        ] {
            let found = condition(&status.conditions, type_);
            let is_so = found.is_some_and(|condition| {
                condition.status == "True"
                    && condition.reason == reason
                    && condition.observed_generation == instance.metadata.generation
            });
            if !is_so {
                let deployments: Api<Deployment> = Api::namespaced(client.clone(), &self.space);
                let deployment = deployments.get_opt("operator").await?;
                let status = deployment.and_then(|deployment| deployment.status);
                return Err(format!("{found:#?}; its Deployment: {status:#?}").into());
            }
        }
        let found: BTreeSet<String> = self.owned(client).await?.into_keys().collect();
        let expected = self.expected(version);
        if found != expected {
            let missing: Vec<_> = expected.difference(&found).collect();
            let surplus: Vec<_> = found.difference(&expected).collect();
            return Err(format!("missing: {missing:?}, too many: {surplus:?}").into());
        }
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.space);
        let text = version.to_string();
        for map in maps.list(&ListParams::default()).await? {
            let is_ours = map.labels().contains_key(labels::OWNER_NAME);
            let value = map.data.as_ref().and_then(|data| data.get("text"));
            if is_ours && value != Some(&text) {
                return Err(format!("{} has {value:?}", map.name_any()).into());
            }
        }
        Ok(())
    }

    pub(crate) async fn wait_deleted(&self, world: &World) {
        super::wait_deleted::<BundleInstance>(world.api(), &self.name).await;
        let client = world.client();
        eventually(&format!("nothing of {} is left", self.name), async || {
            let deleted = self.is_deleted(&client).await;
            deleted.map_err(|error| error.to_string())
        })
        .await;
    }

    pub(crate) async fn uninstall(&self, world: &World) {
        self.remove(world).await;
        self.wait_deleted(world).await;
    }

    /// Checks that neither objects of the instance nor Secrets that record its revisions exist.
    async fn is_deleted(&self, client: &Client) -> Result<()> {
        let left = self.owned(client).await?;
        let selector = format!("{}={}", labels::REVISION_OF, self.name);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), super::SYSTEM);
        let params = ListParams::default().labels(&selector);
        let records = secrets.list_metadata(&params).await?.items;
        if left.is_empty() && records.is_empty() {
            return Ok(());
        }
        let records: Vec<_> = records.iter().map(ResourceExt::name_any).collect();
        Err(format!("{left:?}, {records:?}").into())
    }

    fn expected(&self, version: usize) -> BTreeSet<String> {
        let line = |object: Value| {
            let paths = ["/kind", "/metadata/namespace", "/metadata/name"];
            let texts = paths.map(|path| object.pointer(path).and_then(Value::as_str));
            let [kind, namespace, name] = texts.map(Option::unwrap_or_default);
            line(kind, namespace, name)
        };
        let mut expected: BTreeSet<_> = self.objects(version).into_iter().map(line).collect();
        expected.insert("Bundle".to_owned());
        expected
    }

    /// Lists the objects with the owner labels of the instance, of all kinds that the cluster serves, with uids. Bundles
    /// are listed without their random names.
    async fn owned(&self, client: &Client) -> Result<BTreeMap<String, String>> {
        let params = ListParams::default().labels(&format!("{}={}", labels::OWNER_NAME, self.name));
        let mut owned = BTreeMap::new();
        for kind in &self.kinds {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
            let found = match api.list_metadata(&params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                found => found?,
            };
            for object in found {
                let namespace = object.namespace().unwrap_or_default();
                let text = match kind.kind.as_str() {
                    "Bundle" => "Bundle".to_owned(),
                    kind => line(kind, &namespace, &object.name_any()),
                };
                owned.insert(text, object.uid().unwrap_or_default());
            }
        }
        Ok(owned)
    }
}

fn line(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}
