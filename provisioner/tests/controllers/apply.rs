//! Applying and pruning objects on a real API server. Deployments have no pods here, and need none.

mod failures;
mod prune;
mod recreate;
mod status;

use std::collections::BTreeSet;

use apply::{
    discovery::Discovery,
    inventory::{Entry, Inventory},
    plan::{self, ApplyStep, InstanceOwner, Plan},
    ssa::{Applier, ApplyReport, FailureKind},
};
use cluster::TempNamespace;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use manifests::{
    api::bundle_instance::BundleInstance,
    object::{Identity, Object},
};
use serde_json::{Value, json};
use tests::assert_has;
use tokio::sync::Semaphore;

use crate::support::{
    config_map, crd, delete, instance, merge, namespace_object, patch_as, unique, upload, world,
};

/// An instance, a namespace and the context for applying objects.
struct Scene {
    client: Client,
    kinds: Discovery,
    permits: Semaphore,
    owner: InstanceOwner,
    namespace: TempNamespace,
}

impl Scene {
    async fn new(prefix: &str) -> Self {
        let world = world().await;
        // The garbage collector removes objects without an existing owner, so an owner must exist; of a class that no
        // provisioner acts on.
        let mut owner = instance(&unique(prefix), "plain", upload(None));
        owner.spec.provisioner_class_name = "none".into();
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

    async fn plan(&self, objects: &[Value], inventory: &Inventory) -> Plan {
        let objects = objects.iter().cloned().map(Object::try_from);
        let objects: Vec<Object> = objects.map(Result::unwrap).collect();
        let kinds = self.kinds.find(objects.iter().map(plan::kind_of)).await;
        let (kinds, namespace) = (kinds.unwrap(), self.namespace.name());
        let optional = BTreeSet::new();
        plan::new(
            objects,
            &kinds,
            inventory,
            &self.owner,
            namespace,
            &optional,
        )
    }

    fn apply<'a>(&'a self, client: &'a Client) -> Applier<'a> {
        Applier {
            client,
            kinds: &self.kinds,
            concurrency: 8,
            permits: &self.permits,
        }
    }

    async fn run(&self, objects: &[Value]) -> ApplyReport {
        let plan = self.plan(objects, &Inventory::new()).await;
        assert_eq!(plan.missing, []);
        self.apply(&self.client).run(&plan.steps).await
    }

    /// Applies objects, which must succeed, and returns the inventory.
    async fn install(&self, objects: &[Value]) -> Inventory {
        let plan = self.plan(objects, &Inventory::new()).await;
        let report = self.apply(&self.client).run(&plan.steps).await;
        assert_eq!((&report.failed, report.stopped_in), (&vec![], None));
        let entry = |step: &ApplyStep| {
            let identity = step.object.identity();
            let entry = Entry {
                version: step.kind.resource.version.clone(),
                fields: report.applied[&identity].fields,
                recreating: false,
            };
            (identity, entry)
        };
        plan.steps.iter().map(entry).collect()
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    /// Returns a client of a service account without permissions.
    async fn unprivileged(&self) -> Client {
        let mut config = world().await.cluster.config().clone();
        let user = format!("system:serviceaccount:{}:none", self.namespace.name());
        config.auth_info.impersonate = Some(user);
        Client::try_from(config).unwrap()
    }

    /// Returns the group of the scene's custom resources.
    fn group(&self) -> String {
        format!("{}.example.com", self.owner.name)
    }

    fn crd(&self) -> Value {
        crd(&self.group(), "Widget")
    }

    fn widget(&self, name: &str) -> Value {
        let version = format!("{}/v1", self.group());
        json!({"apiVersion": version, "kind": "Widget", "metadata": {"name": name}})
    }

    fn widgets(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(&self.group(), "v1", "Widget");
        let (client, namespace) = (self.client.clone(), self.namespace.name());
        Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind))
    }

    fn text(&self, name: &str, text: &str) -> Value {
        config_map(self.namespace.name(), name, text)
    }

    /// Removes the instance, and with it every object that refers to the instance.
    async fn end(self) {
        let instances: Api<BundleInstance> = Api::all(self.client.clone());
        delete(&instances, &self.owner.name).await;
        self.namespace.delete().await.unwrap();
    }
}

/// Checks the only failure of a report.
#[track_caller]
fn assert_failed(report: &ApplyReport, cause: FailureKind, part: &str) {
    let [failure] = &report.failed[..] else {
        panic!("{:#?}", report.failed);
    };
    assert_eq!(failure.cause, cause, "{failure:?}");
    assert_has(&failure.message, part);
}

fn names<'a>(identities: impl IntoIterator<Item = &'a Identity>) -> Vec<&'a str> {
    let names = identities.into_iter();
    names.map(|identity| identity.name.as_str()).collect()
}

fn deployment(name: &str, replicas: Option<i32>) -> Value {
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

// parity: rukpak-9
#[tokio::test]
async fn bundle_is_applied_at_once_and_reapplying_changes_nothing() {
    let scene = Scene::new("whole").await;
    let own = unique("own");
    let group = "rbac.authorization.k8s.io";
    let rbac = |kind: &str, metadata: Value, rules: Value| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules});
    let odd = json!({"name": format!("{own}:odd?name#100"), "namespace": "nonsense"});
    let rules = json!([{"apiGroups": [scene.group()], "resources": ["widgets"], "verbs": ["get"]}]);
    let objects = [
        scene.widget("example"),
        deployment("operator", None),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": scene.namespace.name()}],
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "operator"},
        }),
        rbac("Role", json!({"name": "operator"}), rules),
        rbac("ClusterRole", odd, json!([])),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}}),
        config_map(&own, "elsewhere", "text"),
        namespace_object(&own),
        scene.crd(),
    ];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let apply = scene.apply(&scene.client);
    let first = apply.run(&plan.steps).await;
    assert_eq!((&first.failed, first.stopped_in), (&vec![], None));
    assert_eq!(first.applied.len(), objects.len());
    let operator: ServiceAccount = scene.namespaced().get("operator").await.unwrap();
    let owner = &operator.owner_references()[0];
    assert_eq!(owner.uid, scene.owner.uid);
    assert_eq!(owner.block_owner_deletion, None);
    scene.widgets().get("example").await.unwrap();

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

    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    delete(&namespaces, &own).await;
    scene.end().await;
}

/// Replicas that a scaler set are kept, and all other fields are applied again.
async fn scaled_replicas_are_yielded(scene: &Scene) {
    let objects = [deployment("operator", Some(1))];
    let before = scene.install(&objects).await;
    let api: Api<Deployment> = scene.namespaced();
    let scale = async |replicas: u8| {
        let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let scaler = PatchParams {
            field_manager: Some("scaler".to_owned()),
            ..PatchParams::default()
        };
        let scaled = api.patch_scale("operator", &scaler, &scale).await;
        scaled.unwrap();
    };
    scale(3).await;
    let edit = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "example.com/other:v2"},
    ]}}}});
    patch_as(&api, "operator", "kubectl \"edit\"", &edit).await;

    let report = scene.run(&objects).await;
    assert_eq!(report.failed, []);
    let (identity, applied) = report.applied.first_key_value().unwrap();
    let line = |conflict: &apply::ssa::Conflict| format!("{} {}", conflict.field, conflict.manager);
    let lines = |conflicts: &[apply::ssa::Conflict]| conflicts.iter().map(line).collect::<Vec<_>>();
    assert_eq!(lines(&applied.scaler_fields), [".spec.replicas scaler"]);
    let image = ".spec.template.spec.containers[name=\"main\"].image kubectl \"edit\"";
    assert_eq!(lines(&applied.forced_fields), [image]);
    assert_ne!(applied.fields, before[identity].fields);
    let spec = api.get("operator").await.unwrap().spec.unwrap();
    assert_eq!(spec.replicas, Some(3));
    let image = spec.template.spec.unwrap().containers[0].image.clone();
    assert_eq!(image.as_deref(), Some("example.com/operator:v1"));

    // A yielded field has another manager, so further scaling does not count as drift.
    scale(5).await;
    let again = scene.run(&objects).await;
    assert_eq!(again.applied[identity].fields, applied.fields);
    let spec = api.get("operator").await.unwrap().spec.unwrap();
    assert_eq!(spec.replicas, Some(5));
}

async fn removed_fields_are_pruned(scene: &Scene) {
    let mut object = scene.text("a", "old");
    object["data"]["more"] = "removed later".into();
    scene.install(&[object]).await;
    let api: Api<ConfigMap> = scene.namespaced();
    merge(&api, "a", &json!({"data": {"theirs": "kept"}})).await;
    scene.install(&[scene.text("a", "new")]).await;
    let data = api.get("a").await.unwrap().data;
    assert_eq!(json!(data), json!({"text": "new", "theirs": "kept"}));
}

#[tokio::test]
async fn fields_belong_to_the_bundle_unless_a_scaler_set_them() {
    let scene = Scene::new("fields").await;
    scaled_replicas_are_yielded(&scene).await;
    removed_fields_are_pruned(&scene).await;
    scene.end().await;
}
