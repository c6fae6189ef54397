//! Watches for one test, with their wake-ups and the objects that they watch.

use std::{collections::BTreeMap, sync::Arc};

use apply::{
    account::Account,
    discovery::ApiKind,
    informers::{Informers, InstanceView},
    managed_fields::Fingerprint,
    ssa::{AppliedObject, MANAGER},
};
use cluster::{Cluster, TempNamespace};
use kube::{
    Api, Client, Config, Resource,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind, NamespaceResourceScope},
};
use manifests::object::Identity;
use provisioner::cluster::impersonation::ImpersonatedClients;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use crate::support::PATIENCE;

/// Watches, and a namespace for their objects.
pub(crate) struct Observer {
    pub(crate) cluster: &'static Cluster,
    pub(crate) namespace: TempNamespace,
    pub(crate) watches: Informers,
    woken: mpsc::UnboundedReceiver<String>,
}

/// An object as it was applied.
pub(crate) struct Object {
    pub(crate) identity: Identity,
    pub(crate) applied: AppliedObject,
}

/// Returns a kind as the API server serves it.
pub(crate) fn kind(resource: ApiResource, namespaced: bool) -> Arc<ApiKind> {
    Arc::new(ApiKind {
        resource,
        namespaced,
    })
}

/// Returns a built-in kind.
pub(crate) fn kind_of<K: Resource<DynamicType = ()>>() -> Arc<ApiKind> {
    kind(ApiResource::erase::<K>(&()), true)
}

/// Returns the CRD of Tills, in the group of one test.
pub(crate) fn crd(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("tills.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Till", "listKind": "TillList", "plural": "tills", "singular": "till"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

impl Observer {
    pub(crate) async fn new(name: &str) -> Self {
        let config = Cluster::shared().await.unwrap().config().clone();
        Self::through(name, config).await
    }

    /// Creates watches that use another connection to the API server than the test itself.
    pub(crate) async fn through(name: &str, config: Config) -> Self {
        let cluster = Cluster::shared().await.unwrap();
        let accounts = ImpersonatedClients::new(config).unwrap();
        let (sender, woken) = mpsc::unbounded_channel();
        Self {
            cluster,
            namespace: cluster.temp_namespace(name).await.unwrap(),
            watches: Informers::new(Arc::new(accounts), sender),
            woken,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client().unwrap()
    }

    pub(crate) fn namespaced<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), self.namespace.name())
    }

    /// Applies an object of an instance in the namespace of this test, as the provisioner does.
    pub(crate) async fn apply(&self, instance: &str, mut object: Value) -> Object {
        object["metadata"]["namespace"] = json!(self.namespace.name());
        self.apply_cluster_wide(instance, object).await
    }

    pub(crate) async fn apply_cluster_wide(&self, instance: &str, mut object: Value) -> Object {
        object["metadata"]["labels"] = json!({
            "core.rukpak.io/owner-kind": "BundleInstance", "core.rukpak.io/owner-name": instance});
        let object = manifests::object::Object::try_from(object).unwrap();
        let (group, version) = manifests::object::group_version(object.api_version());
        let kind = GroupVersionKind::gvk(group, version, object.kind());
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object.namespace() {
            "" => Api::all_with(self.client(), &resource),
            namespace => Api::namespaced_with(self.client(), namespace, &resource),
        };
        let params = PatchParams::apply(MANAGER).force();
        let stored = api
            .patch(object.name(), &params, &Patch::Apply(object.value()))
            .await
            .unwrap();
        let metadata = serde_json::to_value(&stored.metadata).unwrap();
        Object {
            identity: object.identity(),
            applied: AppliedObject {
                hash: None,
                uid: stored.metadata.uid.unwrap(),
                resource_version: stored.metadata.resource_version.unwrap(),
                fields: Fingerprint::from_metadata(&metadata, MANAGER),
                forced_fields: Vec::new(),
                scaler_fields: Vec::new(),
            },
        }
    }

    /// Declares the objects of an instance, all of one built-in kind.
    pub(crate) fn want<K: Resource<DynamicType = ()>>(&self, instance: &str, objects: &[&Object]) {
        let kinds: Vec<_> = objects
            .iter()
            .map(|&object| (object, kind_of::<K>()))
            .collect();
        self.want_kinds(instance, None, &kinds);
    }

    pub(crate) fn want_kinds(
        &self,
        instance: &str,
        account: Option<&Account>,
        objects: &[(&Object, Arc<ApiKind>)],
    ) {
        let requested = objects
            .iter()
            .map(|(object, kind)| (object.identity.clone(), Arc::clone(kind)))
            .collect();
        self.watches.set_watched(instance, account, &requested);
    }

    /// Reports applied objects to the watches.
    pub(crate) fn applied(&self, instance: &str, objects: &[&Object]) {
        let applied: BTreeMap<_, _> = objects
            .iter()
            .map(|object| (object.identity.clone(), object.applied.clone()))
            .collect();
        self.watches.record_applied(instance, &applied);
    }

    pub(crate) fn view(&self, instance: &str) -> InstanceView {
        self.watches.view(instance)
    }

    /// Reads the view on every wake-up of the instance, as its controller does, until it matches a predicate.
    pub(crate) async fn wait(
        &mut self,
        instance: &str,
        description: &str,
        predicate: impl Fn(&InstanceView) -> bool,
    ) -> InstanceView {
        let look = async {
            loop {
                let view = self.view(instance);
                if predicate(&view) {
                    return view;
                }
                while self.woken.recv().await.expect("watches go on") != instance {}
            }
        };
        let outcome = timeout(PATIENCE, look).await.ok();
        outcome
            .unwrap_or_else(|| panic!("{instance}: not {description}: {:#?}", self.view(instance)))
    }

    /// Returns the next instance that the watches wake.
    pub(crate) async fn next_wake(&mut self) -> String {
        let next = timeout(PATIENCE, self.woken.recv()).await;
        next.expect("somebody is woken").expect("watches go on")
    }

    /// Drops all pending wake-ups.
    pub(crate) fn settle(&mut self) {
        while self.woken.try_recv().is_ok() {}
    }
}
