//! Scope of one watch.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::core::{ApiResource, GroupVersionKind};
use manifests::{
    api::{
        labels::{OWNER_KIND, OWNER_NAME},
        owner::InstanceOwner,
    },
    object::Identity,
};

use super::WatchedObjects;
use crate::{account::Account, discovery::ApiKind, health};

/// A kind, and the instances whose objects are watched: those of all instances with the provisioner's own permissions, or
/// those of one instance with the permissions of its account, in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    pub(super) resource: ApiResource,
    pub(super) depth: Depth,
    pub(super) instance: Option<AccountScope>,
}

/// Fields of the objects that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Depth {
    Metadata,
    /// Metadata, spec and status, to evaluate health.
    HealthView,
}

/// The objects of one instance in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct AccountScope {
    pub(super) instance: String,
    pub(super) account: Account,
    /// Empty for cluster-scoped kinds.
    pub(super) namespace: String,
}

/// Namespace and name of an object in a scope, as `namespace/name`, or `/name` without a namespace. The API server allows no
/// slash in either. Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(Arc<str>);

/// Groups the watched objects of an instance by scope, sorted by [`Scope::order`].
pub(super) fn scopes(
    instance: &str,
    account: Option<&Account>,
    objects: &WatchedObjects,
) -> Vec<(Scope, Vec<Key>)> {
    let mut scopes = BTreeMap::<_, (Scope, Vec<Key>)>::new();
    for (identity, kind) in objects {
        let resource = &kind.resource;
        let namespace = match account {
            Some(_) => identity.namespace.as_str(),
            None => "",
        };
        let scope_key = (
            resource.group.as_str(),
            resource.kind.as_str(),
            resource.version.as_str(),
            namespace,
        );
        let (_, keys) = scopes.entry(scope_key).or_insert_with(|| {
            let scope = Scope {
                resource: resource.clone(),
                depth: depth(kind, objects),
                instance: account.map(|account| AccountScope {
                    instance: instance.to_owned(),
                    account: account.clone(),
                    namespace: namespace.to_owned(),
                }),
            };
            (scope, Vec::new())
        });
        keys.push(Key::from_identity(identity));
    }
    scopes.into_values().collect()
}

fn depth(kind: &Arc<ApiKind>, objects: &WatchedObjects) -> Depth {
    let resource = &kind.resource;
    let gvk = GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind);
    if health::has_rules(&gvk) || objects.contains_key(&crd_identity(resource)) {
        Depth::HealthView
    } else {
        Depth::Metadata
    }
}

/// Returns the identity of the CRD of a custom resource.
fn crd_identity(resource: &ApiResource) -> Identity {
    Identity {
        group: "apiextensions.k8s.io".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        namespace: String::new(),
        name: format!("{}.{}", resource.plural, resource.group),
    }
}

// === impl Scope ===

impl Scope {
    /// Returns the label selector of the objects in the scope.
    pub(super) fn selector(&self) -> String {
        let owners = format!("{OWNER_KIND}={}", InstanceOwner::KIND);
        match &self.instance {
            None => owners,
            Some(only) => format!("{owners},{OWNER_NAME}={}", only.instance),
        }
    }

    pub(super) fn is_defined_by(&self, object: &Identity) -> bool {
        object.kind == "CustomResourceDefinition" && *object == crd_identity(&self.resource)
    }

    pub(super) fn has(&self, object: &Identity) -> bool {
        self.resource.kind == object.kind
            && self.resource.group == object.group
            && self
                .instance
                .as_ref()
                .is_none_or(|only| only.namespace == object.namespace)
    }

    /// Returns the sort key, which is unique among the scopes of an instance.
    pub(super) fn order(&self) -> (&str, &str, &str, &str) {
        let resource = &self.resource;
        let namespace = self.instance.as_ref().map(|only| only.namespace.as_str());
        (
            resource.group.as_str(),
            resource.kind.as_str(),
            resource.version.as_str(),
            namespace.unwrap_or_default(),
        )
    }

    pub(super) fn identity(&self, key: &Key) -> Identity {
        let (namespace, name) = key.parts();
        Identity {
            group: self.resource.group.clone(),
            kind: self.resource.kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Scope {
    /// Formats the scope with the resource name of RBAC: `deployments.apps`, `secrets of namespace monitoring`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.plural)?;
        if !self.resource.group.is_empty() {
            write!(f, ".{}", self.resource.group)?;
        }
        match &self.instance {
            Some(only) if !only.namespace.is_empty() => {
                write!(f, " of namespace {}", only.namespace)
            }
            _ => Ok(()),
        }
    }
}

// === impl Key ===

impl Key {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    pub(super) fn from_identity(identity: &Identity) -> Self {
        Self::new(&identity.namespace, &identity.name)
    }

    /// Returns the namespace and the name.
    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or_default()
    }
}
