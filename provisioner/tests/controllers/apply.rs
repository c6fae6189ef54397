//! Applying and pruning objects on a real API server. Deployments have no pods here, and need none.

mod failures;
mod prune;
mod recreate;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    discovery::Discovery,
    inventory::{Entry, Inventory},
    plan::{self, ApplyStep, InstanceOwner, Plan, Wave},
    ssa::{Applier, ApplyReport, FailureKind},
};
use cluster::TempNamespace;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use manifests::{
    api::{bundle_instance::BundleInstance, labels},
    object::{Identity, Object},
};
use serde_json::{Value, json};
use tests::assert_has;
use tokio::sync::Semaphore;

use crate::support::{
    config_map, crd, delete, eventually, instance, list, merge, unique, upload, wait_deleted, world,
};

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
        let (kinds, owner, optional) = (kinds.unwrap(), &self.owner, BTreeSet::new());
        let namespace = self.namespace.name();
        plan::new(objects, &kinds, inventory, owner, namespace, &optional)
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
            let version = step.kind.resource.version.clone();
            let fields = report.applied[&identity].fields;
            (identity, tests::with!(Entry, version, fields))
        };
        plan.steps.iter().map(entry).collect()
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.owner.name)
    }

    fn crd(&self) -> Value {
        crd(&self.group(), "Widget")
    }

    fn crd_name(&self) -> String {
        format!("widgets.{}", self.group())
    }

    fn crds(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    fn widget(&self, name: &str) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group()), "kind": "Widget", "metadata": {"name": name}})
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
        delete::<BundleInstance>(&Api::all(self.client.clone()), &self.owner.name).await;
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

pub(crate) fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let pod = json!({"containers": [{"name": "main", "image": "example.com/operator:v1"}]});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}})
}
