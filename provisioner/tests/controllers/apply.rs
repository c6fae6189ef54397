//! Applying and pruning objects on a real API server. Deployments have no pods here, and need none.

mod failures;
mod prune;
mod recreate;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    discovery::Discovery,
    inventory::{Entry, Inventory},
    plan::{self, InstanceOwner, Plan},
    ssa::{Applier, ApplyReport},
};
use cluster::TempNamespace;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::ApiResource,
};
use manifests::{api::bundle_instance::BundleInstance, object::Object};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{config_map, crd, instance, unique, world};

/// An instance, a namespace and the context for applying objects.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) kinds: Discovery,
    permits: Semaphore,
    pub(crate) owner: InstanceOwner,
    pub(crate) namespace: TempNamespace,
}

impl Scene {
    pub(crate) async fn new(prefix: &str) -> Self {
        let world = world().await;
        // The garbage collector removes objects without an existing owner, so an owner must exist; of a class that no
        // provisioner acts on.
        let mut owner = instance(&unique(prefix), "plain", upload());
        owner.spec.provisioner_class_name = "nobody".into();
        let owner = world.create(&owner).await;
        Self {
            client: world.client(),
            kinds: Discovery::new(world.client()),
            permits: Semaphore::new(8),
            owner: InstanceOwner {
                name: owner.name_any(),
                uid: owner.uid().unwrap(),
            },
            namespace: world.cluster.temp_namespace(prefix).await.unwrap(),
        }
    }

    pub(crate) async fn plan(&self, objects: &[Value], inventory: &Inventory) -> Plan {
        let objects: Vec<Object> = objects
            .iter()
            .map(|object| Object::try_from(object.clone()).unwrap())
            .collect();
        let kinds = self.kinds.find(objects.iter().map(plan::kind_of)).await;
        plan::new(
            objects,
            &kinds.unwrap(),
            inventory,
            &self.owner,
            self.namespace.name(),
            &BTreeSet::new(),
        )
    }

    pub(crate) fn apply<'a>(&'a self, client: &'a Client) -> Applier<'a> {
        Applier {
            client,
            kinds: &self.kinds,
            concurrency: 8,
            permits: &self.permits,
        }
    }

    pub(crate) async fn run(&self, objects: &[Value]) -> ApplyReport {
        let plan = self.plan(objects, &Inventory::new()).await;
        assert_eq!(plan.missing, []);
        self.apply(&self.client).run(&plan.steps).await
    }

    /// Applies objects, which must succeed, and returns the inventory.
    pub(crate) async fn install(&self, objects: &[Value]) -> Inventory {
        let plan = self.plan(objects, &Inventory::new()).await;
        let report = self.apply(&self.client).run(&plan.steps).await;
        assert_eq!((&report.failed, report.stopped_in), (&vec![], None));
        plan.steps
            .iter()
            .map(|step| {
                let identity = step.object.identity();
                let entry = Entry {
                    version: step.kind.resource.version.clone(),
                    fields: report.applied[&identity].fields,
                    recreating: false,
                };
                (identity, entry)
            })
            .collect()
    }

    pub(crate) fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    pub(crate) fn custom(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        Api::namespaced_with(self.client.clone(), self.namespace.name(), &resource)
    }

    pub(crate) fn text(&self, name: &str, text: &str) -> Value {
        config_map(self.namespace.name(), name, text)
    }

    /// Removes the instance, and with it every object that refers to the instance.
    pub(crate) async fn end(self) {
        let instances: Api<BundleInstance> = Api::all(self.client.clone());
        let params = DeleteParams::default();
        instances.delete(&self.owner.name, &params).await.unwrap();
        self.namespace.delete().await.unwrap();
    }
}

fn upload() -> manifests::api::bundle::BundleSource {
    manifests::api::bundle::BundleSource {
        type_: "upload".to_owned(),
        upload: Some(manifests::api::bundle::UploadSource::default()),
        ..Default::default()
    }
}

pub(crate) fn deployment(name: &str, replicas: Option<i32>) -> Value {
    let mut deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/operator:v1"}]},
            },
        },
    });
    if let Some(replicas) = replicas {
        deployment["spec"]["replicas"] = replicas.into();
    }
    deployment
}

pub(crate) fn widget(group: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": name}})
}

// parity: rukpak-9
#[tokio::test]
async fn bundle_is_applied_at_once_and_reapplying_changes_nothing() {
    let scene = Scene::new("whole").await;
    let group = format!("{}.example.com", scene.owner.name);
    let own = unique("own");
    let objects = [
        widget(&group, "example"),
        deployment("operator", None),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": scene.namespace.name()}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "operator"},
            "rules": [{"apiGroups": [group], "resources": ["widgets"], "verbs": ["get"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": format!("{own}:odd?name#100"), "namespace": "nonsense"},
            "rules": [],
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}}),
        config_map(&own, "elsewhere", "text"),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}}),
        crd(&group, "Widget"),
    ];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let apply = scene.apply(&scene.client);
    let first = apply.run(&plan.steps).await;
    assert_eq!((&first.failed, first.stopped_in), (&vec![], None));
    assert_eq!(first.applied.len(), objects.len());
    let operator: ServiceAccount = scene.namespaced().get("operator").await.unwrap();
    let owners = operator.owner_references();
    assert_eq!(owners[0].uid, scene.owner.uid);
    assert_eq!(owners[0].block_owner_deletion, None);
    scene.custom(&group, "Widget").get("example").await.unwrap();

    let second = apply.run(&plan.steps).await;
    for (identity, applied) in &second.applied {
        assert!(applied.fields.is_some(), "{identity}");
        assert_eq!(applied.fields, first.applied[identity].fields, "{identity}");
        // Controllers write status in between; only objects without a status can be compared.
        if identity.kind == "ConfigMap" || identity.kind.contains("Role") {
            assert_eq!(applied, &first.applied[identity], "{identity}");
        }
    }
    assert_eq!(second.applied.len(), objects.len());

    let everywhere: Api<Namespace> = Api::all(scene.client.clone());
    everywhere
        .delete(&own, &DeleteParams::default())
        .await
        .unwrap();
    scene.end().await;
}

/// Replicas that a scaler set stay, and all other fields are applied again.
async fn scaled_replicas_are_yielded(scene: &Scene) {
    let objects = [deployment("operator", Some(1))];
    let before = scene.install(&objects).await;
    let api: Api<Deployment> = scene.namespaced();
    let scale = json!({"spec": {"replicas": 3}});
    let scaler = PatchParams {
        field_manager: Some("scaler".to_owned()),
        ..PatchParams::default()
    };
    api.patch_scale("operator", &scaler, &Patch::Merge(&scale))
        .await
        .unwrap();
    let edit = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "example.com/other:v2"},
    ]}}}});
    let editor = PatchParams {
        field_manager: Some("kubectl \"edit\"".to_owned()),
        ..PatchParams::default()
    };
    api.patch("operator", &editor, &Patch::Strategic(&edit))
        .await
        .unwrap();

    let report = scene.run(&objects).await;
    assert_eq!(report.failed, []);
    let (identity, applied) = report.applied.first_key_value().unwrap();
    let lines = |conflicts: &[apply::ssa::Conflict]| -> Vec<_> {
        conflicts
            .iter()
            .map(|conflict| format!("{} {}", conflict.field, conflict.manager))
            .collect()
    };
    assert_eq!(lines(&applied.scaler_fields), [".spec.replicas scaler"]);
    assert_eq!(
        lines(&applied.forced_fields),
        [".spec.template.spec.containers[name=\"main\"].image kubectl \"edit\""]
    );
    assert_ne!(applied.fields, before[identity].fields);
    let live = api.get("operator").await.unwrap();
    let spec = live.spec.unwrap();
    assert_eq!(spec.replicas, Some(3));
    let containers = spec.template.spec.unwrap().containers;
    assert_eq!(
        containers[0].image.as_deref(),
        Some("example.com/operator:v1")
    );

    // A yielded field has another manager, so further scaling does not count as drift.
    let scale = json!({"spec": {"replicas": 5}});
    api.patch_scale("operator", &scaler, &Patch::Merge(&scale))
        .await
        .unwrap();
    let again = scene.run(&objects).await;
    assert_eq!(again.applied[identity].fields, applied.fields);
    assert_eq!(
        api.get("operator").await.unwrap().spec.unwrap().replicas,
        Some(5)
    );
}

/// A field that left the object is removed from the live object; fields of other managers stay.
async fn removed_fields_are_pruned(scene: &Scene) {
    let mut object = scene.text("a", "old");
    object["data"]["more"] = "gone soon".into();
    scene.install(&[object]).await;
    let api: Api<ConfigMap> = scene.namespaced();
    let foreign = json!({"data": {"theirs": "stays"}});
    let params = PatchParams::default();
    api.patch("a", &params, &Patch::Merge(&foreign))
        .await
        .unwrap();
    scene.install(&[scene.text("a", "new")]).await;
    let data = api.get("a").await.unwrap().data.unwrap();
    let expected = [("text", "new"), ("theirs", "stays")];
    let expected: BTreeMap<_, _> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(data, expected);
}

#[tokio::test]
async fn fields_belong_to_the_bundle_unless_a_scaler_set_them() {
    let scene = Scene::new("fields").await;
    scaled_replicas_are_yielded(&scene).await;
    removed_fields_are_pruned(&scene).await;
    scene.end().await;
}
