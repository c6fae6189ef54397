//! Planning: the steps that apply an instance's objects, as a value. Pure; no I/O.

mod crds;
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
    discovery::{ApiKind, DiscoveredKinds},
    inventory::Inventory,
    revision::ObjectHash,
};
use crds::BundledCrds;

pub use manifests::api::{
    owner::InstanceOwner,
    owner_metadata::{is_annotated_keep, is_definition, is_namespace},
};

/// Objects that are applied together. A wave starts when all objects of the previous wave are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wave {
    /// Namespaces of the bundle.
    Namespaces,
    /// CustomResourceDefinitions. The wave is complete when all of them are Established.
    Definitions,
    /// ServiceAccounts, RBAC objects, configuration, Services.
    Configuration,
    /// Workloads, webhook configurations and APIServices.
    Workloads,
    /// Custom resources of CRDs in the same bundle.
    Resources,
}

/// One object to apply.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplyStep {
    /// Wave in which the object is applied.
    pub wave: Wave,
    /// The object to apply: with namespace, owner labels and, if allowed, owner reference.
    pub object: Object,
    /// Kind of the object as the API server serves it.
    pub kind: Arc<ApiKind>,
    /// Hash of the rendered object, which is also in an annotation of the applied object.
    pub hash: ObjectHash,
}

/// An object of the inventory that is not desired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneCandidate {
    /// Identity of the object.
    pub identity: Identity,
    /// API version in which the object was applied.
    pub version: String,
}

impl PruneCandidate {
    /// Returns the group, version and kind. The version may be a whole apiVersion.
    pub fn gvk(&self) -> GroupVersionKind {
        let version = group_version(&self.version).1;
        GroupVersionKind::gvk(&self.identity.group, version, &self.identity.kind)
    }
}

/// The policy for CustomResourceDefinitions that are pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefinitionPolicy {
    /// The CRD is kept, without its ownership marks.
    Retain,
    /// The CRD is deleted, unless custom resources exist.
    #[default]
    DeleteIfUnused,
    /// All custom resources are deleted, and then the CRD.
    Delete,
}

/// A kind that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKind {
    /// API version with its group: `<group>/<version>`.
    pub api_version: String,
    /// Name of the kind.
    pub kind: String,
    /// Objects of the kind.
    pub needed_by: Vec<Identity>,
}

/// Planned changes of a rollout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Objects to apply, in this order.
    pub steps: Vec<ApplyStep>,
    /// Objects to delete afterwards, in this order.
    pub leaving: Vec<PruneCandidate>,
    /// Optional APIs that are not served. Their objects are deferred.
    pub deferred: Vec<MissingKind>,
    /// Required APIs that are not served. Without them, no object is applied.
    pub missing: Vec<MissingKind>,
}

/// Creates a plan. `kinds` contains every kind of the objects.
pub fn new(
    objects: Vec<Object>,
    kinds: &DiscoveredKinds,
    inventory: &Inventory,
    owner: &InstanceOwner,
    namespace: &str,
    optional: &BTreeSet<String>,
) -> Plan {
    let definitions = BundledCrds::from_objects(&objects);
    let mut plan = Plan::default();
    let mut desired = BTreeSet::new();
    let mut absent: BTreeMap<(String, String), Vec<Identity>> = BTreeMap::new();
    for mut object in objects {
        let gvk = kind_of(&object);
        let is_bundled = definitions.defines(&gvk.group, &gvk.kind);
        let kind = if is_bundled {
            definitions.kind(&gvk)
        } else {
            kinds.get(&gvk).cloned().flatten()
        };
        let Some(kind) = kind else {
            let identity = object.identity();
            // The scope of the kind is unknown, so neither of the two possible objects is pruned.
            let namespace_or_default = match identity.namespace.as_str() {
                "" => namespace,
                namespace_or_default => namespace_or_default,
            };
            desired.extend(["", namespace_or_default].map(|namespace| Identity {
                namespace: namespace.to_owned(),
                ..identity.clone()
            }));
            let absent = absent.entry((gvk.kind, object.api_version().to_owned()));
            absent.or_default().push(identity);
            continue;
        };
        let hash = ObjectHash::new(&object);
        manifests::api::owner_metadata::set_namespace(&mut object, kind.namespaced, namespace);
        // The conversion rejects duplicates. Two objects may still become one with the install namespace; the first one is
        // applied.
        if !desired.insert(object.identity()) {
            continue;
        }
        manifests::api::owner_metadata::set_owner(&mut object, owner);
        manifests::api::owner_metadata::record_hash(&mut object, &hash.to_string());
        let wave = wave(object.group(), object.kind(), is_bundled);
        plan.steps.push(ApplyStep {
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
        let absent = MissingKind {
            api_version,
            kind,
            needed_by,
        };
        if is_optional {
            plan.deferred.push(absent);
        } else {
            plan.missing.push(absent);
        }
    }
    plan.leaving = leaving(inventory, &desired);
    plan
}

/// Returns the objects of the inventory that are not desired, in deletion order.
pub fn leaving(inventory: &Inventory, desired: &BTreeSet<Identity>) -> Vec<PruneCandidate> {
    let mut leaving: Vec<_> = inventory
        .iter()
        .filter(|(identity, _)| !desired.contains(*identity))
        .map(|(identity, entry)| PruneCandidate {
            identity: identity.clone(),
            version: entry.version.clone(),
        })
        .collect();
    let groups = definition_groups(&leaving);
    leaving.sort_by_cached_key(|leaving| {
        let identity = &leaving.identity;
        (
            PruneStage::for_object(identity, &groups),
            Reverse(identity.clone().order()),
        )
    });
    leaving
}

/// Stage in which an object is deleted. Custom resources are deleted while their CRDs and the operators that remove their
/// finalizers exist, and webhook configurations before the workloads that serve the webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PruneStage {
    /// Custom resources of CRDs that are deleted as well.
    Resources,
    /// CustomResourceDefinitions, after their custom resources.
    Definitions,
    /// Webhook configurations and APIServices.
    Webhooks,
    /// Workloads, after the webhooks that they serve.
    Workloads,
    /// ServiceAccounts, permissions, configuration, Services.
    Configuration,
    /// Namespaces, which are released instead of deleted.
    Namespaces,
}

impl PruneStage {
    /// Returns the stage in which an object is deleted. `groups` are the API groups of the CustomResourceDefinitions that
    /// are deleted as well.
    pub fn for_object(identity: &Identity, groups: &BTreeSet<String>) -> Self {
        let is_bundled = groups.contains(&identity.group);
        match wave(&identity.group, &identity.kind, is_bundled) {
            Wave::Resources => Self::Resources,
            Wave::Definitions => Self::Definitions,
            Wave::Workloads if identity.group.ends_with("registration.k8s.io") => Self::Webhooks,
            Wave::Workloads => Self::Workloads,
            Wave::Configuration => Self::Configuration,
            Wave::Namespaces => Self::Namespaces,
        }
    }
}

/// Returns the groups of the CRDs that are deleted, taken from their names: `etcdclusters.etcd.database.coreos.com`.
pub fn definition_groups(leaving: &[PruneCandidate]) -> BTreeSet<String> {
    let definitions = leaving
        .iter()
        .map(|leaving| &leaving.identity)
        .filter(|identity| is_definition(identity));
    definitions
        .filter_map(|identity| Some(identity.name.split_once('.')?.1.to_owned()))
        .collect()
}

/// Returns the group, version and kind of an object.
pub fn kind_of(object: &Object) -> GroupVersionKind {
    let (group, version) = group_version(object.api_version());
    GroupVersionKind::gvk(group, version, object.kind())
}

/// Returns the wave of an object. `is_bundled`: the bundle contains the CRD of the object.
fn wave(group: &str, kind: &str, is_bundled: bool) -> Wave {
    match (group, kind) {
        _ if is_bundled => Wave::Resources,
        ("", "Namespace") => Wave::Namespaces,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Wave::Definitions,
        ("apps" | "batch", _) | ("", "Pod" | "ReplicationController") => Wave::Workloads,
        // Their backends run only after the workloads are applied. Applied earlier, they would block the objects that start
        // those backends.
        ("admissionregistration.k8s.io", _) | ("apiregistration.k8s.io", "APIService") => {
            Wave::Workloads
        }
        _ => Wave::Configuration,
    }
}
