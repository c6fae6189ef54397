//! Helpers for the tests of several modules.

use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use manifests::object::{Identity, Object, group_version};
use serde_json::json;

use crate::{
    account::Account,
    discovery::ApiKind,
    plan::{ApplyStep, InstanceOwner, Wave},
    revision::ObjectHash,
};

pub(crate) fn identity(group: &str, kind: &str, namespace: &str, name: &str) -> Identity {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    Identity {
        group,
        kind,
        namespace,
        name,
    }
}

pub(crate) fn owner() -> InstanceOwner {
    InstanceOwner {
        name: "etcd".to_owned(),
        uid: "uid-of-etcd".to_owned(),
    }
}

pub(crate) fn account(name: &str, namespace: &str) -> Account {
    let [name, namespace] = [name, namespace].map(str::to_owned);
    Account { name, namespace }
}

/// Returns a step with an object; namespaced objects are in `operators`.
pub(crate) fn step(wave: Wave, api_version: &str, kind: &str, name: &str) -> ApplyStep {
    let namespaced = !matches!(kind, "Namespace" | "CustomResourceDefinition");
    let metadata = json!({"name": name, "namespace": namespaced.then_some("operators")});
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    let object = Object::try_from(object).unwrap();
    ApplyStep {
        wave,
        hash: ObjectHash::new(&object),
        object,
        kind: self::kind(api_version, kind, namespaced).1,
    }
}

/// Returns a kind whose resource has its default plural.
pub(crate) fn kind(api: &str, kind: &str, namespaced: bool) -> (GroupVersionKind, Arc<ApiKind>) {
    let (group, version) = group_version(api);
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let kind = ApiKind {
        resource: ApiResource::from_gvk(&gvk),
        namespaced,
    };
    (gvk, Arc::new(kind))
}
