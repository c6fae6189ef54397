//! The steps that bring an instance's objects into the cluster, as a value: planning changes nothing.

mod definitions;
#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::core::GroupVersionKind;
use manifests::object::{Identity, Object, group_version};

use crate::{
    discovery::{Found, Kind},
    inventory::Inventory,
    revision::ObjectHash,
};
use definitions::Definitions;

pub use manifests::api::{
    decorate::{is_definition, is_kept, is_namespace},
    holder::Owner,
};

/// What is applied together. A wave begins when the one before is in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wave {
    /// Namespaces.
    Namespaces,
    /// CustomResourceDefinitions; in place when Established.
    Definitions,
    /// ServiceAccounts, rights, configuration, Services.
    Configuration,
    /// What runs.
    Workloads,
    /// Custom resources of definitions in the same bundle.
    Resources,
}

/// One object to apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When.
    pub wave: Wave,
    /// The object as it is sent: with namespace, owner labels and, where legal, owner reference.
    pub object: Object,
    /// How to address it.
    pub kind: Arc<Kind>,
    /// The hash of the object as it was rendered; also in an annotation of the object that is sent.
    pub hash: ObjectHash,
}

/// An object that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Which.
    pub identity: Identity,
    /// The API version it was applied in.
    pub version: String,
}

impl Leaving {
    /// Returns the group, version and kind. The version may be a whole apiVersion.
    pub fn gvk(&self) -> GroupVersionKind {
        let version = group_version(&self.version).1;
        GroupVersionKind::gvk(&self.identity.group, version, &self.identity.kind)
    }
}

/// The policy for CustomResourceDefinitions that are pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefinitionPolicy {
    /// The definition is kept, and loses its ownership marks.
    Retain,
    /// The definition is deleted, unless custom resources exist.
    #[default]
    DeleteIfUnused,
    /// All custom resources are deleted, and then the definition.
    Delete,
}

/// A kind that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Group, version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// All that need it.
    pub needed_by: Vec<Identity>,
}

/// What has to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What is applied, in this order.
    pub steps: Vec<Step>,
    /// What is deleted afterwards, in this order.
    pub leaving: Vec<Leaving>,
    /// Optional APIs that are not served: their objects wait.
    pub waiting: Vec<Absent>,
    /// Other APIs that are not served: nothing can be applied without them.
    pub missing: Vec<Absent>,
}

/// Makes the plan. `kinds` answers for every kind of the objects.
pub fn new(
    objects: Vec<Object>,
    kinds: &Found,
    inventory: &Inventory,
    owner: &Owner,
    namespace: &str,
    optional: &BTreeSet<String>,
) -> Plan {
    let definitions = Definitions::of(&objects);
    let mut plan = Plan::default();
    let mut desired = BTreeSet::new();
    let mut absent: BTreeMap<(String, String), Vec<Identity>> = BTreeMap::new();
    for mut object in objects {
        let gvk = kind_of(&object);
        let brought = definitions.brings(&gvk.group, &gvk.kind);
        let kind = if brought {
            definitions.kind(&gvk)
        } else {
            kinds.get(&gvk).cloned().flatten()
        };
        let Some(kind) = kind else {
            let identity = object.identity();
            // Nobody can tell whether the kind has namespaces, so neither of the two leaves.
            let own = match identity.namespace.as_str() {
                "" => namespace,
                own => own,
            };
            desired.extend(["", own].map(|namespace| Identity {
                namespace: namespace.to_owned(),
                ..identity.clone()
            }));
            let absent = absent.entry((gvk.kind, object.api_version().to_owned()));
            absent.or_default().push(identity);
            continue;
        };
        let hash = ObjectHash::new(&object);
        manifests::api::decorate::place(&mut object, kind.namespaced, namespace);
        // Refused by the conversion; of two that only became one here, the first counts.
        if !desired.insert(object.identity()) {
            continue;
        }
        manifests::api::decorate::own(&mut object, owner);
        manifests::api::decorate::record_hash(&mut object, &hash.to_string());
        let wave = wave(object.group(), object.kind(), brought);
        plan.steps.push(Step {
            wave,
            object,
            kind,
            hash,
        });
    }
    plan.steps
        .sort_by_cached_key(|step| (step.wave, step.object.order()));
    for ((kind, api_version), mut needed_by) in absent {
        needed_by.sort();
        let group = group_version(&api_version).0;
        let is_optional = optional.contains(&format!("{kind}.{group}"));
        let absent = Absent {
            api_version,
            kind,
            needed_by,
        };
        if is_optional {
            plan.waiting.push(absent);
        } else {
            plan.missing.push(absent);
        }
    }
    plan.leaving = leaving(inventory, &desired);
    plan
}

/// What the inventory has and nobody wants any more, in the order in which it is deleted.
pub fn leaving(inventory: &Inventory, desired: &BTreeSet<Identity>) -> Vec<Leaving> {
    let mut leaving: Vec<_> = inventory
        .iter()
        .filter(|(identity, _)| !desired.contains(*identity))
        .map(|(identity, entry)| Leaving {
            identity: identity.clone(),
            version: entry.version.clone(),
        })
        .collect();
    let groups = definition_groups(&leaving);
    leaving.sort_by_cached_key(|leaving| {
        let identity = &leaving.identity;
        (
            Exit::of(identity, &groups),
            Reverse(identity.clone().order()),
        )
    });
    leaving
}

/// When an object is deleted. Custom resources go while their definitions, and those who finalize them, are still there;
/// webhooks before what answers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Custom resources of definitions that leave as well.
    Resources,
    /// CustomResourceDefinitions.
    Definitions,
    /// Webhook configurations and APIServices.
    Webhooks,
    /// Workloads.
    Workloads,
    /// ServiceAccounts, permissions, configuration, Services.
    Configuration,
    /// Namespaces.
    Namespaces,
}

impl Exit {
    /// Returns the stage in which an object is deleted. `groups` are the API groups of the CustomResourceDefinitions that are
    /// deleted as well.
    pub fn of(identity: &Identity, groups: &BTreeSet<String>) -> Self {
        let brought = groups.contains(&identity.group);
        match wave(&identity.group, &identity.kind, brought) {
            Wave::Resources => Self::Resources,
            Wave::Definitions => Self::Definitions,
            Wave::Workloads if identity.group.ends_with("registration.k8s.io") => Self::Webhooks,
            Wave::Workloads => Self::Workloads,
            Wave::Configuration => Self::Configuration,
            Wave::Namespaces => Self::Namespaces,
        }
    }
}

/// The groups of definitions that leave, told by their names: `etcdclusters.etcd.database.coreos.com`.
pub fn definition_groups(leaving: &[Leaving]) -> BTreeSet<String> {
    let definitions = leaving
        .iter()
        .map(|leaving| &leaving.identity)
        .filter(|identity| is_definition(identity));
    definitions
        .filter_map(|identity| Some(identity.name.split_once('.')?.1.to_owned()))
        .collect()
}

/// The group, version and kind of an object.
pub fn kind_of(object: &Object) -> GroupVersionKind {
    let (group, version) = group_version(object.api_version());
    GroupVersionKind::gvk(group, version, object.kind())
}

/// When an object is applied; `brought`: its definition is in the same bundle.
fn wave(group: &str, kind: &str, brought: bool) -> Wave {
    match (group, kind) {
        _ if brought => Wave::Resources,
        ("", "Namespace") => Wave::Namespaces,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Wave::Definitions,
        ("apps" | "batch", _) | ("", "Pod" | "ReplicationController") => Wave::Workloads,
        // What they point at runs only then; before, they would hold up the very objects that make it run.
        ("admissionregistration.k8s.io", _) | ("apiregistration.k8s.io", "APIService") => {
            Wave::Workloads
        }
        _ => Wave::Configuration,
    }
}
