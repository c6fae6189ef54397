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

use crate::support::WAIT_TIMEOUT;

/// Watches, and a namespace for their objects.
pub(crate) struct Observer {
    pub(crate) cluster: &'static Cluster,
    pub(crate) namespace: TempNamespace,
    pub(crate) watches: Informers,
    woken: mpsc::UnboundedReceiver<String>,
}

pub(crate) struct Object {
    pub(crate) identity: Identity,
    pub(crate) applied: AppliedObject,
}

pub(crate) fn kind(resource: ApiResource) -> Arc<ApiKind> {
    Arc::new(ApiKind {
        resource,
        namespaced: true,
    })
}

pub(crate) fn kind_of<K: Resource<DynamicType = ()>>() -> Arc<ApiKind> {
    kind(ApiResource::erase::<K>(&()))
}

impl Observer {
    /// Creates watches that use another connection to the API server than the test itself.
    pub(crate) async fn through(name: &str, config: Config) -> Self {
        let cluster = Cluster::shared().await.unwrap();
        let (sender, woken) = mpsc::unbounded_channel();
        Self {
            cluster,
            namespace: cluster.temp_namespace(name).await.unwrap(),
            watches: Informers::new(Arc::new(ImpersonatedClients::new(config).unwrap()), sender),
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

    /// Applies an object of an instance as the provisioner does, in the namespace of this test if its kind has namespaces.
    pub(crate) async fn apply(&self, instance: &str, mut object: Value) -> Object {
        let kind = object["kind"].as_str().unwrap();
        if !["APIService", "CustomResourceDefinition"].contains(&kind) {
            object["metadata"]["namespace"] = json!(self.namespace.name());
        }
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
        let patch = Patch::Apply(object.value());
        let stored = api.patch(object.name(), &params, &patch).await.unwrap();
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

    pub(crate) fn declare_kinds(
        &self,
        instance: &str,
        account: Option<&Account>,
        objects: &[(&Object, Arc<ApiKind>)],
    ) {
        let objects = objects.iter();
        let requested = objects.map(|(object, kind)| (object.identity.clone(), Arc::clone(kind)));
        let requested = requested.collect();
        self.watches.set_watched(instance, account, &requested);
    }

    pub(crate) fn applied(&self, instance: &str, object: &Object) {
        let applied = BTreeMap::from([(object.identity.clone(), object.applied.clone())]);
        self.watches.record_applied(instance, &applied);
    }

    /// Reads the view on every wake-up of the instance, as its controller does, until it matches a predicate.
    pub(crate) async fn wait(
        &mut self,
        instance: &str,
        description: &str,
        predicate: impl Fn(&InstanceView) -> bool,
    ) -> InstanceView {
        let observe = async {
            loop {
                let view = self.watches.view(instance);
                if predicate(&view) {
                    return view;
                }
                while self.woken.recv().await.expect("watches continue") != instance {}
            }
        };
        let outcome = timeout(WAIT_TIMEOUT, observe).await.ok();
        outcome.unwrap_or_else(|| {
            let view = self.watches.view(instance);
            panic!("{instance}: not {description}: {view:#?}")
        })
    }
}
