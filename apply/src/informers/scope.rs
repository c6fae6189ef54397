//! What one watch covers.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::core::{ApiResource, GroupVersionKind};
use manifests::{
    api::{
        holder::Owner,
        labels::{OWNER_KIND, OWNER_NAME},
    },
    object::Identity,
};

use crate::{account::Account, discovery::Kind, health, informers::Wanted};

/// A kind, and whose objects of it: everybody's with the provisioner's own rights, or those of one instance with the
/// rights of its account, in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    pub(super) resource: ApiResource,
    pub(super) depth: Depth,
    pub(super) only: Option<Only>,
}

/// How much of the objects is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Depth {
    Metadata,
    /// Spec and status as well, to judge health.
    Full,
}

/// The objects of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Only {
    pub(super) instance: String,
    pub(super) account: Account,
    /// Empty for cluster-scoped kinds.
    pub(super) namespace: String,
}

/// The namespace and the name of an object of a scope. Copies share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// The fate of wanted objects: each scope with its objects.
pub(super) fn scopes(
    instance: &str,
    account: Option<&Account>,
    objects: &Wanted,
) -> Vec<(Scope, Vec<Key>)> {
    let mut scopes = BTreeMap::<_, (Scope, Vec<Key>)>::new();
    let mut namespaces = BTreeMap::<&str, Arc<str>>::new();
    for (identity, kind) in objects {
        let namespace = match account {
            Some(_) => identity.namespace.as_str(),
            None => "",
        };
        let place = (
            identity.group.as_str(),
            identity.kind.as_str(),
            kind.resource.version.as_str(),
            namespace,
        );
        let (_, keys) = scopes.entry(place).or_insert_with(|| {
            let scope = Scope {
                resource: kind.resource.clone(),
                depth: depth(kind, objects),
                only: account.map(|account| Only {
                    instance: instance.to_owned(),
                    account: account.clone(),
                    namespace: namespace.to_owned(),
                }),
            };
            (scope, Vec::new())
        });
        let namespace = namespaces
            .entry(&identity.namespace)
            .or_insert_with(|| identity.namespace.as_str().into());
        keys.push(Key {
            namespace: Arc::clone(namespace),
            name: identity.name.as_str().into(),
        });
    }
    scopes.into_values().collect()
}

fn depth(kind: &Arc<Kind>, objects: &Wanted) -> Depth {
    let resource = &kind.resource;
    let known = GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind);
    if health::has_rules(&known) || objects.contains_key(&definition(resource)) {
        Depth::Full
    } else {
        Depth::Metadata
    }
}

/// The definition of a custom resource.
fn definition(resource: &ApiResource) -> Identity {
    Identity {
        group: "apiextensions.k8s.io".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        namespace: String::new(),
        name: format!("{}.{}", resource.plural, resource.group),
    }
}

// === impl Scope ===

impl Scope {
    /// Which objects belong to it.
    pub(super) fn selector(&self) -> String {
        let owners = format!("{OWNER_KIND}={}", Owner::KIND);
        match &self.only {
            None => owners,
            Some(only) => format!("{owners},{OWNER_NAME}={}", only.instance),
        }
    }

    pub(super) fn is_defined_by(&self, object: &Identity) -> bool {
        object.kind == "CustomResourceDefinition" && *object == definition(&self.resource)
    }

    pub(super) fn has(&self, object: &Identity) -> bool {
        self.resource.kind == object.kind
            && self.resource.group == object.group
            && self
                .only
                .as_ref()
                .is_none_or(|only| only.namespace == object.namespace)
    }

    pub(super) fn identity(&self, key: &Key) -> Identity {
        Identity {
            group: self.resource.group.clone(),
            kind: self.resource.kind.clone(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        }
    }
}

impl fmt::Display for Scope {
    /// `deployments.apps`, `secrets of namespace monitoring`: as RBAC names them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.plural)?;
        if !self.resource.group.is_empty() {
            write!(f, ".{}", self.resource.group)?;
        }
        match &self.only {
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
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(super) fn of(identity: &Identity) -> Self {
        Self::new(&identity.namespace, &identity.name)
    }
}
