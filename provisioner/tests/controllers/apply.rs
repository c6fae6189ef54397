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
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use manifests::{
    api::bundle_instance::BundleInstance,
    object::{Identity, Object},
};
use serde_json::{Value, json};
use tests::assert_has;
use tokio::sync::Semaphore;

use crate::support::{config_map, crd, delete, instance, unique, upload, world};

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

fn deployment(name: &str) -> Value {
    let pod = json!({"containers": [{"name": "main", "image": "example.com/operator:v1"}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}
